#include "cli/errors.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "common/nearest_word.hpp"

namespace trainyard::cli {
namespace {

/// "; did you mean a or b?", or `otherwise` if none of `words` is spelt like `word`.
std::string guess(const std::string& word, const std::vector<std::string>& words, const std::string& otherwise) {
  const auto meant = nearest_words(word, words);
  return meant.empty() ? otherwise : fmt::format("; did you mean {}?", fmt::join(meant, " or "));
}

}  // namespace

std::string full_name(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : full_name(*parent) + " " + command.get_name();
}

const CLI::App& innermost_command(const CLI::App& app) {
  const auto below = app.get_subcommands();
  return below.empty() ? app : innermost_command(*below.front());
}

std::string unknown_command(const std::string& word, const CLI::App& group) {
  std::vector<std::string> names;
  for (const CLI::App* command : group.get_subcommands({})) names.push_back(command->get_name());
  return fmt::format("error: {} is not a command of {}{}\n", word, full_name(group),
                     guess(word, names, fmt::format("; there are {}", fmt::join(names, ", "))));
}

std::string missing_command(const CLI::App& group) {
  const auto commands = group.get_subcommands({});
  std::size_t width = 0;
  for (const CLI::App* command : commands) width = std::max(width, command->get_name().size());
  std::string text = fmt::format("error: {} needs a command; there are:\n", full_name(group));
  for (const CLI::App* command : commands)
    text += fmt::format("  {:<{}}  {}\n", command->get_name(), width, command->get_description());
  return text + fmt::format("Try: {} COMMAND --help\n", full_name(group));
}

std::string unknown_argument(const std::string& word, const CLI::App& command) {
  std::vector<std::string> options;
  for (const CLI::App* app = &command; app != nullptr; app = app->get_parent()) {
    for (const CLI::Option* option : app->get_options()) {
      for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
    }
  }
  const std::string name = word.starts_with('-') ? word.substr(0, word.find('=')) : word;
  // Short options get no guess: every single letter is near to every other.
  const std::string meant = name.starts_with("--") ? guess(name, options, "") : "";
  return fmt::format("error: {} {}{}\nTry: {} --help\n",
                     word.starts_with('-') ? "unknown option" : "unexpected argument", name, meant, full_name(command));
}

std::string wrong_value(const std::string& sentence, const CLI::App& command) {
  return fmt::format("error: {}\nTry: {} --help\n", sentence, full_name(command));
}

}  // namespace trainyard::cli
