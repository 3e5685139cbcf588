#include "cli/completion.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace trainyard::cli {
namespace {

using Word = Completion::Word;

/// The words as the user typed them. Bash passes "a=b" as three words; here they are joined again.
std::vector<std::string> joined(std::span<const std::string> words) {
  std::vector<std::string> typed;
  bool is_behind_sign = false;
  for (const std::string& word : words) {
    const bool is_sign = word == "=" && !typed.empty();
    if (is_sign || is_behind_sign) {
      typed.back() += word;
    } else {
      typed.push_back(word);
    }
    is_behind_sign = is_sign;
  }
  if (typed.empty()) typed.emplace_back();
  return typed;
}

/// The option `name` (with its dashes) of `command` or of a command above it; nullptr: there is none.
const CLI::Option* find_option(const CLI::App& command, std::string_view name) {
  for (const CLI::App* app = &command; app != nullptr; app = app->get_parent()) {
    for (const CLI::Option* option : app->get_options({})) {
      const auto is_name = [&](std::string_view dashes) {
        return [=](const std::string& own) { return name == std::string{dashes} + own; };
      };
      if (std::ranges::any_of(option->get_lnames(), is_name("--")) ||
          std::ranges::any_of(option->get_snames(), is_name("-")))
        return option;
    }
  }
  return nullptr;
}

const CLI::App* find_command(const CLI::App& group, const std::string& name) {
  const auto found = group.get_subcommands([&](const CLI::App* command) { return command->get_name() == name; });
  return found.empty() ? nullptr : found.front();
}

bool takes_value(const CLI::Option& option) {
  return option.get_items_expected_max() > 0;
}

bool is_repeatable(const CLI::Option& option) {
  return option.get_expected_max() == CLI::detail::expected_max_vector_size;
}

/// The positional arguments of `command`.
std::vector<const CLI::Option*> positionals(const CLI::App& command) {
  return command.get_options([](const CLI::Option* option) { return option->get_positional(); });
}

/// The members of a choice, which CLI11 describes as "FORMAT:{table,json,yaml}".
std::vector<Word> choices(const std::string& type_name) {
  std::vector<Word> words;
  const auto begin = type_name.find('{');
  if (begin == std::string::npos || !type_name.ends_with('}')) return words;
  std::string_view rest = std::string_view{type_name}.substr(begin + 1, type_name.size() - begin - 2);
  while (!rest.empty()) {
    const auto length = std::min(rest.find(','), rest.size());
    words.push_back({.text = std::string{rest.substr(0, length)}, .description = ""});
    rest.remove_prefix(std::min(length + 1, rest.size()));
  }
  return words;
}

/// The completions for a value of `option`, by the type that its help shows. `has_sign`: the value has a "=".
Completion values_of(const CLI::Option& option, bool has_sign, const std::vector<Word>& runs) {
  const std::string type_name = option.get_type_name();
  const std::string type = type_name.substr(0, type_name.find(':'));
  Completion completion{.words = choices(type_name)};
  if (type == "NAME") completion.words = runs;
  if (type == "YAML") completion.files = Files::yaml;
  if (type == "DIR" || (type == "CLAIM=FOLDER" && has_sign)) completion.files = Files::folders;
  if (type == "FILE" || type == "PATH" || type == "PROGRAM" || (type == "NAME=FILE" && has_sign))
    completion.files = Files::all;
  return completion;
}

std::vector<Word> option_words(const CLI::App& command, const std::set<const CLI::Option*>& given) {
  std::vector<Word> words;
  std::set<std::string> names;  // Each command has its own --help: offer it once.
  for (const CLI::App* app = &command; app != nullptr; app = app->get_parent()) {
    for (const CLI::Option* option : app->get_options({})) {
      if (given.contains(option) && !is_repeatable(*option)) continue;
      for (const std::string& name : option->get_lnames()) {
        if (names.insert(name).second) words.push_back({.text = "--" + name, .description = option->get_description()});
      }
    }
  }
  return words;
}

std::vector<Word> command_words(const CLI::App& group) {
  std::vector<Word> words;
  for (const CLI::App* command : group.get_subcommands({}))
    words.push_back({.text = command->get_name(), .description = command->get_description()});
  return words;
}

/// The position of the cursor in a command line.
struct Cursor {
  const CLI::App* command = nullptr;
  const CLI::Option* awaited = nullptr;  ///< The option whose value comes next.
  std::set<const CLI::Option*> given;
  std::size_t values = 0;  ///< Words before the cursor that belong to no option.
  bool is_behind_separator = false;
};

Cursor read_up_to_cursor(const CLI::App& app, std::span<const std::string> words) {
  Cursor cursor{.command = &app, .given = {}};
  for (const std::string& word : words) {
    if (cursor.awaited != nullptr) {
      cursor.awaited = nullptr;
    } else if (word == "--") {
      cursor.is_behind_separator = true;
      return cursor;
    } else if (word.starts_with('-')) {
      const CLI::Option* option = find_option(*cursor.command, word.substr(0, word.find('=')));
      if (option == nullptr) continue;
      cursor.given.insert(option);
      if (takes_value(*option) && word.find('=') == std::string::npos) cursor.awaited = option;
    } else if (const CLI::App* below = find_command(*cursor.command, word); below != nullptr) {
      cursor.command = below;
    } else {
      ++cursor.values;
    }
  }
  return cursor;
}

Completion at_cursor(const Cursor& cursor, const std::string& begun, const std::vector<Word>& runs) {
  const bool has_sign = begun.find('=') != std::string::npos;
  // The command of the ranks, as `trainyard run` takes it.
  if (cursor.is_behind_separator) return {.words = {}, .files = Files::all};
  if (cursor.awaited != nullptr) return values_of(*cursor.awaited, has_sign, runs);
  if (begun.starts_with('-') && has_sign) {
    const CLI::Option* option = find_option(*cursor.command, begun.substr(0, begun.find('=')));
    const bool has_second_sign = begun.find('=') != begun.rfind('=');
    return option == nullptr ? Completion{} : values_of(*option, has_second_sign, runs);
  }
  if (begun.starts_with('-')) return {.words = option_words(*cursor.command, cursor.given)};
  if (auto commands = command_words(*cursor.command); !commands.empty()) return {.words = std::move(commands)};
  const auto places = positionals(*cursor.command);
  if (cursor.values < places.size()) return values_of(*places[cursor.values], has_sign, runs);
  if (!places.empty() && is_repeatable(*places.back())) return values_of(*places.back(), has_sign, runs);
  return {.words = option_words(*cursor.command, cursor.given)};
}

std::string_view to_string(Files files) {
  switch (files) {
    case Files::none:
      break;
    case Files::all:
      return "all";
    case Files::folders:
      return "folders";
    case Files::yaml:
      return "yaml";
  }
  return "none";
}

}  // namespace

Completion complete(const CLI::App& app, std::span<const std::string> words, const std::vector<Word>& runs) {
  const std::vector<std::string> typed = joined(words);
  const std::string& begun = typed.back();
  Completion completion = at_cursor(read_up_to_cursor(app, std::span{typed}.first(typed.size() - 1)), begun, runs);
  const std::string part = begun.substr(begun.find_last_of('=') + 1);
  std::erase_if(completion.words, [&](const Word& word) { return !word.text.starts_with(part); });
  return completion;
}

std::string completion_lines(const Completion& completion) {
  std::string lines = fmt::format("{}\n", to_string(completion.files));
  for (const Word& word : completion.words) lines += fmt::format("{}\t{}\n", word.text, word.description);
  return lines;
}

}  // namespace trainyard::cli
