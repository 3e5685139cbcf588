#include "cli/init_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <regex>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "common/exit_codes.hpp"

namespace trainyard::cli {
namespace {

namespace fs = std::filesystem;

// The example's name in its three spellings.
constexpr std::string_view example_name = "line_fit";
constexpr std::string_view example_type = "LineFit";
constexpr std::string_view example_job = "line-fit";

/// True for names that TRAINYARD_MAIN finds again: snake_case() of the type "MyNet" is "my_net".
bool is_model_name(const std::string& name) {
  // CMake has targets of these names, or the compiler has folders of them.
  static const std::set<std::string_view> taken{"all",           "clean",   "edit_cache", "help",
                                                "install",       "package", "test",       "package_source",
                                                "rebuild_cache", "torch",   "trainyard"};
  if (taken.contains(name)) return false;
  static const std::regex pattern{"[a-z][a-z0-9]*(_[a-z][a-z][a-z0-9]*)*"};
  constexpr std::size_t bytes_max = 40;
  return name.size() <= bytes_max && std::regex_match(name, pattern);
}

std::string type_name(std::string_view name) {
  std::string type;
  bool begins_word = true;
  for (const char c : name) {
    if (c == '_') {
      begins_word = true;
    } else {
      type += begins_word ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
      begins_word = false;
    }
  }
  return type;
}

std::string job_name(std::string name) {
  std::ranges::replace(name, '_', '-');
  return name;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

std::string renamed(std::string_view text, const std::string& name) {
  std::string own{text};
  replace_all(own, example_name, name);
  replace_all(own, example_type, type_name(name));
  replace_all(own, example_job, job_name(name));
  return own;
}

}  // namespace

std::string installation_of(const fs::path& program) {
  const fs::path prefix = program.parent_path().parent_path();
  std::error_code error;
  return fs::exists(prefix / "lib/cmake/trainyard/trainyard-config.cmake", error) ? prefix.string() : "";
}

int init_model(const InitModelOptions& options, std::ostream& out, std::ostream& errors) {
  if (!is_model_name(options.name)) {
    errors << fmt::format(
        "error: '{}' cannot be a model's name: use lower-case words joined by '_', such as my_net, of at most 40 "
        "characters, and no name that CMake or torch has taken\n",
        options.name);
    return exit_usage;
  }
  const fs::path folder = options.folder.empty() ? job_name(options.name) : options.folder;
  std::error_code error;
  if (fs::exists(folder, error) && !fs::is_empty(folder, error)) {
    errors << fmt::format("error: {} exists and is not an empty folder; name another one with --dir\n",
                          folder.string());
    return exit_failure;
  }
  fs::create_directories(folder, error);
  if (error) {
    errors << fmt::format("error: making the folder {}: {}\n", folder.string(), error.message());
    return exit_failure;
  }
  for (const OwnModelFile& file : own_model_files()) {
    const fs::path path = folder / renamed(file.name, options.name);
    std::ofstream written{path};
    std::string text = renamed(file.text, options.name);
    if (file.name == "README.md" && !options.prefix.empty()) {
      for (const std::string_view home : {"$HOME/trainyard", "~/trainyard"}) replace_all(text, home, options.prefix);
    }
    written << text;
    written.close();
    if (!written) {
      errors << fmt::format("error: writing {}: {}\n", path.string(), std::strerror(errno));
      return exit_failure;
    }
    out << path.string() << '\n';
  }
  out << fmt::format(
      "\nBuild and train{}:\n"
      "  cd {}\n"
      "  cmake -S . -B build -DCMAKE_PREFIX_PATH={} && cmake --build build\n"
      "  {}trainyard run {}.yaml --worker build/{}\n",
      options.prefix.empty() ? " (PREFIX is the folder where Trainyard is installed)" : "", folder.string(),
      options.prefix.empty() ? "PREFIX" : options.prefix, options.prefix.empty() ? "" : options.prefix + "/bin/",
      options.name, options.name);
  return 0;
}

}  // namespace trainyard::cli
