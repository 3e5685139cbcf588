#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Completions of a `trainyard` command line for shells. Pure. Commands and options are read from the app itself, so
/// none is missing.
namespace trainyard::cli {

/// The kind of file names that may follow at the cursor.
enum class Files { none, all, folders, yaml };

struct Completion {
  struct Word {
    std::string text;
    std::string description;
    bool operator==(const Word&) const = default;
  };
  std::vector<Word> words;
  Files files = Files::none;
  bool operator==(const Completion&) const = default;
};

/// The completions of the last of `words`, which may be empty. `words` are the words after the program's name up to the
/// cursor; "--output=js" may be one word, or three as in bash. In a word with "=" only the part after it is completed.
/// `runs` are the names of the runs on this machine.
[[nodiscard]] Completion complete(const CLI::App& app, std::span<const std::string> words,
                                  const std::vector<Completion::Word>& runs);

/// The completions as the shells' scripts read them: a line with the kind of files, then a line for each word, with a
/// tab before the description.
[[nodiscard]] std::string completion_lines(const Completion& completion);

/// The script for `shell`, "bash" or "zsh". It calls the program for each completion, so it also knows later commands.
[[nodiscard]] std::string_view completion_script(std::string_view shell);

}  // namespace trainyard::cli
