#include "include/trainyard/program.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "api/contract.hpp"
#include "common/child_program.hpp"
#include "common/logging.hpp"
#include "worker/rank/group_environment.hpp"

namespace trainyard {
namespace {

namespace fs = std::filesystem;
using namespace std::string_view_literals;

bool is_rank(const rank::Environment& environment) {
  const auto group = rank::parse_group_environment(environment);
  // The rank reports a wrong environment.
  return !group || group->has_launcher || group->uses_agent_store;
}

constexpr const char* launcher_name = "trainyard-worker";

/// The folder of the file with this code: libtrainyard.so, or the program itself.
fs::path own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&own_folder), &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code error;
  return fs::absolute(info.dli_fname, error).parent_path();
}

int become_launcher(int argc, char** argv) {
  std::error_code unreadable;
  const fs::path self = fs::read_symlink("/proc/self/exe", unreadable);
  std::vector<std::string> words{launcher_name, "--rank-program", self.string(), "--"};
  words.insert(words.end(), argv + 1, argv + argc);
  const std::vector<char*> arguments = exec_pointers(words);
  const fs::path library_folder = own_folder();
  for (const fs::path& folder : {self.parent_path(), library_folder, library_folder.parent_path() / "bin"}) {
    if (folder.is_absolute()) execv((folder / launcher_name).c_str(), arguments.data());
  }
  execvp(launcher_name, arguments.data());
  logging::error(
      "trainyard-worker cannot be started: it is neither beside this program nor where Trainyard is installed "
      "nor in PATH",
      {{"error", std::strerror(errno)}, {"installedIn", library_folder.string()}});
  return contract::exit_do_not_restart;
}

void print_usage(const Models& models, std::string_view program) {
  std::vector<std::string_view> names;
  for (const auto& [name, factory] : models.factories()) names.push_back(name);
  fmt::print(
      "usage: trainyard run JOB.yaml --worker {}\n\n"
      "A training program of Trainyard. JOB.yaml names one of its models: {}.\n"
      "In a cluster the operator starts it, from the image that JOB.yaml names. Started by hand, it reads the job "
      "from\n"
      "TRAINYARD_SPEC; trainyard-worker --help lists the other variables.\n",
      program, fmt::join(names, ", "));
}

}  // namespace

int run_program(const Models& models, int argc, char** argv) {
  if (argc == 2 && (argv[1] == "--help"sv || argv[1] == "-h"sv)) {
    print_usage(models, argv[0]);
    return contract::exit_success;
  }
  const rank::Environment environment = rank::process_environment();
  if (is_rank(environment)) run_rank(models);
  if (argc == 1 && !environment(contract::env_spec)) {
    logging::error(
        "there is no job to train: start this program by trainyard run, or give the job in the environment",
        {{"command", fmt::format("trainyard run JOB.yaml --worker {}", argv[0])}, {"variable", contract::env_spec}});
    return contract::exit_do_not_restart;
  }
  return become_launcher(argc, argv);
}

}  // namespace trainyard
