#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// What a shell offers for a command line of `trainyard` that is being typed. Pure, and found in the app itself, so
/// that it names every command and option that there is.
namespace trainyard::cli {

/// Which names of the file system may stand at the cursor.
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

/// `words` are those behind the program's name up to the cursor, the last one begun or empty. Bash hands "--output=js"
/// over as three words; they are one here, too. Of a word with a "=" only what stands behind it is completed. `runs`
/// are the names of the runs on this machine.
[[nodiscard]] Completion complete(const CLI::App& app, std::span<const std::string> words,
                                  const std::vector<Completion::Word>& runs);

/// What a script reads: which files, then a word a line, with a tabulator before its description.
[[nodiscard]] std::string completion_lines(const Completion& completion);

/// The script for `shell`, "bash" or "zsh". It asks the program at each completion, so no new command outdates it.
[[nodiscard]] std::string_view completion_script(std::string_view shell);

}  // namespace trainyard::cli
