#include "cli/errors.hpp"

#include <gtest/gtest.h>

namespace trainyard::cli {
namespace {

class UsageErrors : public testing::Test {
 protected:
  UsageErrors() {
    app_.name("trainyard");
    app_.add_flag("-v,--verbose");
    CLI::App* run = app_.add_subcommand("run", "Run jobs");
    run->add_option("--volume", text_);
    app_.add_subcommand("rust", "Let jobs rust");
    CLI::App* group = app_.add_subcommand("checkpoints", "Read checkpoints");
    ls_ = group->add_subcommand("ls", "List them");
    ls_->add_option("-o,--output", text_);
    ls_->add_option("--only-in", text_);
    ls_->add_option("--only-on", text_);
  }

  std::string text_;
  CLI::App app_;
  CLI::App* ls_ = nullptr;
};

TEST_F(UsageErrors, NameTheCommandThatWasMeant) {
  EXPECT_EQ(unknown_command("chekpoints", app_),
            "error: chekpoints is not a command of trainyard; did you mean checkpoints?\n");
}

TEST_F(UsageErrors, NameAllCommandsThatAreEquallyNear) {
  EXPECT_EQ(unknown_command("rus", app_), "error: rus is not a command of trainyard; did you mean run or rust?\n");
}

TEST_F(UsageErrors, GuessNoCommandWhereNoneIsNear) {
  EXPECT_EQ(unknown_command("start", app_),
            "error: start is not a command of trainyard; there are run, rust, checkpoints\n");
}

TEST_F(UsageErrors, ListTheCommandsWhereNoneIsGiven) {
  EXPECT_EQ(missing_command(app_),
            "error: trainyard needs a command; there are:\n"
            "  run          Run jobs\n"
            "  rust         Let jobs rust\n"
            "  checkpoints  Read checkpoints\n"
            "Try: trainyard COMMAND --help\n");
}

TEST_F(UsageErrors, NameTheOptionThatWasMeantOfTheCommandOrOfThoseAboveIt) {
  const auto said = [this](const std::string& word) { return unknown_argument(word, *ls_); };
  const std::string help = "Try: trainyard checkpoints ls --help\n";
  EXPECT_EQ(said("--ouptut=json"), "error: unknown option --ouptut; did you mean --output?\n" + help);
  EXPECT_EQ(said("--verbos"), "error: unknown option --verbos; did you mean --verbose?\n" + help);
  EXPECT_EQ(said("--only-n"), "error: unknown option --only-n; did you mean --only-in or --only-on?\n" + help);
}

TEST_F(UsageErrors, GuessNoOptionWhereNoneIsNear) {
  const std::string help = "Try: trainyard checkpoints ls --help\n";
  EXPECT_EQ(unknown_argument("--volume", *ls_), "error: unknown option --volume\n" + help);
  EXPECT_EQ(unknown_argument("-x", *ls_), "error: unknown option -x\n" + help);
  EXPECT_EQ(unknown_argument("a=b", *ls_), "error: unexpected argument a=b\n" + help);
}

TEST_F(UsageErrors, NameTheCommandWhoseHelpExplainsAWrongValue) {
  EXPECT_EQ(wrong_value("URI is required", *ls_), "error: URI is required\nTry: trainyard checkpoints ls --help\n");
}

TEST_F(UsageErrors, NameTheInnermostCommandThatWasGiven) {
  EXPECT_EQ(full_name(innermost_command(app_)), "trainyard");
  app_.parse("checkpoints ls");
  EXPECT_EQ(full_name(innermost_command(app_)), "trainyard checkpoints ls");
}

}  // namespace
}  // namespace trainyard::cli
