#include "cli/completion.hpp"

#include <gtest/gtest.h>

namespace trainyard::cli {
namespace {

/// An app with an option of each kind.
class Completions : public testing::Test {
 protected:
  Completions() {
    app_.name("trainyard");
    app_.fallthrough();
    app_.add_flag("-v,--verbose");
    CLI::App* run = app_.add_subcommand("run", "Run jobs");
    run->add_option("FILE", text_)->type_name("YAML");
    run->add_option("--volume", texts_)->allow_extra_args(false)->type_name("CLAIM=FOLDER");
    run->add_option("--secret", texts_)->allow_extra_args(false)->type_name("NAME=FILE");
    run->add_option("--dir", text_)->type_name("DIR");
    CLI::App* logs = app_.add_subcommand("logs", "Print logs");
    logs->add_option("JOB", text_)->type_name("NAME")->required();
    logs->add_flag("-f,--follow");
    CLI::App* group = app_.add_subcommand("checkpoints", "Read checkpoints");
    CLI::App* ls = group->add_subcommand("ls", "List them");
    ls->add_option("URI", text_)->required();
    ls->add_option("-o,--output", text_)->check(CLI::IsMember({"table", "json", "yaml"}))->type_name("FORMAT");
    CLI::App* validate = app_.add_subcommand("validate", "Check jobs");
    validate->add_option("FILE", texts_)->type_name("YAML")->required();
  }

  Completion at(const std::vector<std::string>& words) const {
    return complete(app_, words, {{"smoke", ""}, {"fashion-mnist", ""}});
  }
  std::vector<std::string> words_at(const std::vector<std::string>& words) const {
    std::vector<std::string> texts;
    for (const auto& word : at(words).words) texts.push_back(word.text);
    return texts;
  }

  using Words = std::vector<std::string>;
  std::string text_;
  std::vector<std::string> texts_;
  CLI::App app_;
};

TEST_F(Completions, OfTheFirstWordAreTheCommandsWithWhatTheyDo) {
  EXPECT_EQ(at({"r"}), (Completion{.words = {{"run", "Run jobs"}}}));
  EXPECT_EQ(words_at({""}), (Words{"run", "logs", "checkpoints", "validate"}));
  EXPECT_EQ(words_at({"x"}), Words{});
  EXPECT_EQ(words_at({}), words_at({""}));
}

TEST_F(Completions, FollowAGroupOfCommands) {
  EXPECT_EQ(words_at({"checkpoints", ""}), Words{"ls"});
  EXPECT_EQ(words_at({"-v", "checkpoints", "l"}), Words{"ls"});
}

TEST_F(Completions, AreTheOptionsOfTheCommandAndOfThoseAboveItOnce) {
  EXPECT_EQ(words_at({"logs", "-"}), (Words{"--help", "--follow", "--verbose"}));
  EXPECT_EQ(words_at({"logs", "--fo"}), Words{"--follow"});
  EXPECT_EQ(words_at({"logs", "-f", "--"}), (Words{"--help", "--verbose"})) << "given already";
  EXPECT_EQ(words_at({"run", "--volume", "a=b", "--vo"}), Words{"--volume"}) << "may be repeated";
}

TEST_F(Completions, AreTheChoicesOfAnOption) {
  EXPECT_EQ(words_at({"checkpoints", "ls", "-o", ""}), (Words{"table", "json", "yaml"}));
  EXPECT_EQ(words_at({"checkpoints", "ls", "--output", "j"}), Words{"json"});
  EXPECT_EQ(words_at({"checkpoints", "ls", "--output=j"}), Words{"json"}) << "as zsh has it";
  EXPECT_EQ(words_at({"checkpoints", "ls", "--output", "=", "j"}), Words{"json"}) << "as bash has it";
  EXPECT_EQ(words_at({"checkpoints", "ls", "--output", "="}), (Words{"table", "json", "yaml"}));
  EXPECT_EQ(words_at({"checkpoints", "ls", "--outptu=j"}), Words{});
}

TEST_F(Completions, AreTheRunsOfThisMachineWhereAJobIsNamed) {
  EXPECT_EQ(words_at({"logs", ""}), (Words{"smoke", "fashion-mnist"}));
  EXPECT_EQ(words_at({"logs", "-f", "s"}), Words{"smoke"});
}

TEST_F(Completions, AreFilesOfTheKindThatIsExpected) {
  EXPECT_EQ(at({"run", ""}).files, Files::yaml);
  EXPECT_EQ(at({"run", "--dir", ""}).files, Files::folders);
  EXPECT_EQ(at({"run", "--volume", "data=/"}).files, Files::folders);
  EXPECT_EQ(at({"run", "--volume", "data", "=", "/"}).files, Files::folders);
  EXPECT_EQ(at({"run", "--volume=data=/"}).files, Files::folders);
  EXPECT_EQ(at({"run", "--volume", "da"}).files, Files::none) << "a volume claim's name";
  EXPECT_EQ(at({"run", "--secret", "s3=/"}).files, Files::all);
  EXPECT_EQ(at({"validate", "a.yaml", ""}).files, Files::yaml) << "one file or several";
  EXPECT_EQ(at({"run", "--nproc", "2", "--", "pyth"}).files, Files::all) << "the command of the ranks";
  EXPECT_EQ(at({"checkpoints", "ls", "file:///"}), Completion{});
}

TEST_F(Completions, AreOptionsWhereNoMoreValuesAreExpected) {
  EXPECT_EQ(words_at({"logs", "smoke", ""}), (Words{"--help", "--follow", "--verbose"}));
  EXPECT_EQ(words_at({"logs", "smoke", "x"}), Words{});
}

TEST_F(Completions, AreALineEachBehindTheKindOfFiles) {
  EXPECT_EQ(completion_lines(at({"run", "--d"})), "none\n--dir\t\n");
  EXPECT_EQ(completion_lines({.words = {{"run", "Run jobs"}}, .files = Files::yaml}), "yaml\nrun\tRun jobs\n");
  EXPECT_EQ(completion_lines({.words = {}, .files = Files::folders}), "folders\n");
  EXPECT_EQ(completion_lines({.words = {}, .files = Files::all}), "all\n");
}

}  // namespace
}  // namespace trainyard::cli
