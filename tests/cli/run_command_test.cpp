#include "cli/run_command.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace trainyard::cli {
namespace {

TEST(CommandName, IsTheScriptsNameOrElseTheProgramsInAllowedCharacters) {
  using Command = std::vector<std::string>;
  const std::vector<std::pair<Command, std::string>> cases{
      {{"python3", "train.py"}, "train"},
      {{"/usr/bin/python3.11", "-u", "-X", "faulthandler", "src/Train_GPT.py", "--lr", "1"}, "train-gpt"},
      {{"python3", "-m", "tools.lm", "train.py"}, "lm"},
      {{"python3", "-c", "print(1)"}, "python3"},
      {{"python3", "-W", "ignore", "train.py"}, "train"},
      {{"zsh", "a.sh"}, "a"},
      {{"dash", "-x", "b.sh"}, "b"},
      {{"bash", "-m", "go.sh"}, "go"},
      {{"node", "c.js"}, "node"},
      {{"a2345678901234567890"}, "a2345678901234567890"},
      {{"a-234567890123456789-x"}, "a-234567890123456789"},
      {{"a--b__c"}, "a-b-c"},
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

TEST(StreamChoice, ReadsTorchrunsForms) {
  const auto both = StreamChoice::parse("3").value();
  EXPECT_TRUE(both.has_output(7));
  EXPECT_TRUE(both.has_error(7));
  const auto by_rank = StreamChoice::parse("0:1,2:2").value();
  EXPECT_TRUE(by_rank.has_output(0));
  EXPECT_FALSE(by_rank.has_error(0));
  EXPECT_FALSE(by_rank.has_output(1));
  EXPECT_FALSE(by_rank.has_error(1));
  EXPECT_FALSE(by_rank.has_output(2));
  EXPECT_TRUE(StreamChoice::parse("1000000:3").value().has_error(1'000'000));
  EXPECT_FALSE(StreamChoice::parse("0").value().has_output(0));
  EXPECT_TRUE(StreamChoice::parse("1").value().has_output(0));
  EXPECT_FALSE(StreamChoice::parse("1").value().has_error(0));
  EXPECT_TRUE(by_rank.has_error(2));
}

TEST(StreamChoice, RefusesAnythingElseAndSaysWhatIsRight) {
  for (const std::string text : {"", "4", "-1", "x", "0:", "0:4", ":1", "0:1,", "0:1,,1:1", "0:1;1:2", ",", "1000001:1",
                                 "-1:1", "0:1:1", " 1", "1 ", "+1"}) {
    const auto choice = StreamChoice::parse(text);
    ASSERT_FALSE(choice) << text;
    EXPECT_EQ(choice.error().kind, ErrorKind::invalid);
  }
  EXPECT_EQ(
      StreamChoice::parse("9").error().message,
      "'9': must be 0 (none), 1 (standard output), 2 (standard error) or 3 (both), or such a number for each rank like "
      "0:1,2:3");
}

}  // namespace
}  // namespace trainyard::cli
