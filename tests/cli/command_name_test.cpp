#include "cli/command_name.hpp"

#include <gtest/gtest.h>

#include <utility>

namespace trainyard::cli {
namespace {

TEST(CommandName, IsTheScriptsNameOrElseTheProgramsInAllowedCharacters) {
  using Command = std::vector<std::string>;
  const std::vector<std::pair<Command, std::string>> cases{
      {{"python3", "train.py"}, "train"},
      {{"/usr/bin/python3.11", "-u", "-X", "faulthandler", "src/Train_GPT.py", "--lr", "1"}, "train-gpt"},
      {{"python3", "-m", "tools.lm", "train.py"}, "lm"},
      {{"python3", "-c", "print(1)"}, "python3"},
      {{"python3"}, "python3"},
      {{"python3", "-m"}, "python3"},
      {{"bash", "-e", "./go.sh"}, "go"},
      {{"sh", "-c", "echo a.py"}, "sh"},
      {{"./my_trainer", "config.py"}, "my-trainer"},
      {{"/opt/9lives"}, "run9lives"},
      {{"..."}, "run"},
      {{"a_very_long_name_of_a_program_"}, "a-very-long-name-of"},
      {{"gr\xc3\xb6\xc3\x9f"
        "e.bin"},
       "gre-bin"},
  };
  for (const auto& [command, name] : cases) EXPECT_EQ(command_name(command), name);
}

}  // namespace
}  // namespace trainyard::cli
