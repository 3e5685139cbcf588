#include <gmock/gmock.h>

#include "tests/cli/program_fixture.hpp"
#include "tests/skips.hpp"

/// `trainyard completion` in bash and zsh. The tests run the shells, so that a syntax error in a script is found.
namespace trainyard::cli {
namespace {

using testing::HasSubstr;
using testing::UnorderedElementsAre;
using Outcome = ProgramOutcome;

class ProgramCompletionTest : public ProgramTest {
 protected:
  ProgramCompletionTest() {
    folder_.write("job.yaml", "");
    folder_.write("notes.txt", "");
    std::filesystem::create_directories(folder_.file("my jobs"));
    std::filesystem::create_directories(folder_.file("trainyard-runs/smoke/logs"));
    std::filesystem::create_directory_symlink("20261121T100000.000", folder_.file("trainyard-runs/smoke/logs/latest"));
  }
  std::vector<std::string> lines_of(const std::vector<std::string>& command) {
    auto group = start_program(command);
    const Outcome outcome = end_of(group);
    EXPECT_EQ(outcome.err, "");
    std::vector<std::string> lines;
    for (std::size_t begin = 0; begin < outcome.out.size();) {
      const auto end = outcome.out.find('\n', begin);
      lines.push_back(outcome.out.substr(begin, end - begin));
      begin = end == std::string::npos ? outcome.out.size() : end + 1;
    }
    return lines;
  }
  /// The completions of bash for `words`, which are split as readline splits them.
  std::vector<std::string> bash(const std::string& words) {
    return lines_of({"bash", "--norc", "-c",
                     "source <(\"$0\" completion bash); COMP_WORDS=(trainyard " + words +
                         "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _trainyard \"$0\"; "
                         "((${#COMPREPLY[@]})) && printf '%s\\n' \"${COMPREPLY[@]}\"",
                     paths::program("trainyard")});
  }
  /// The completions that the script passes to zsh for `words`: words with descriptions, and the kind of files.
  std::vector<std::string> zsh(const std::string& words) {
    return lines_of({"zsh", "-f", "-c",
                     "compdef() { }; compset() { print compset $2 }; _describe() { print -l -- \"${(@P)2}\" }; "
                     "_files() { print files $@ }; program=$1; source <(\"$1\" completion zsh); words=(\"$1\" " +
                         words + "); CURRENT=$#words; PREFIX=$words[CURRENT]; _trainyard",
                     "zsh", paths::program("trainyard")});
  }
};

TEST_F(ProgramCompletionTest, BashOffersCommandsOptionsChoicesAndRuns) {
  EXPECT_THAT(bash("che"), UnorderedElementsAre("checkpoint", "checkpoints"));
  EXPECT_THAT(bash("checkpoints ls --out"), UnorderedElementsAre("--output"));
  EXPECT_THAT(bash("checkpoints ls -o ''"), UnorderedElementsAre("table", "json", "yaml"));
  EXPECT_THAT(bash("snapshots history --output = ''"), UnorderedElementsAre("csv", "json", "yaml"));
  EXPECT_THAT(bash("ps --output='j'"), UnorderedElementsAre("--output=json")) << "where bash does not cut at =";
  EXPECT_THAT(bash("run job.yaml --max"), UnorderedElementsAre("--max-restarts"));
  EXPECT_THAT(bash("completion z"), UnorderedElementsAre("zsh"));
  EXPECT_THAT(bash("logs ''"), UnorderedElementsAre("smoke"));
}

TEST_F(ProgramCompletionTest, BashOffersFilesOfTheKindThatIsExpected) {
  EXPECT_THAT(bash("run ''"), UnorderedElementsAre("job.yaml", "my jobs", "trainyard-runs"));
  EXPECT_THAT(bash("run --dir m"), UnorderedElementsAre("my jobs"));
  EXPECT_THAT(bash("run --secret s3 = n"), UnorderedElementsAre("notes.txt"));
  EXPECT_THAT(bash("run --nproc 2 -- n"), UnorderedElementsAre("notes.txt"));
  EXPECT_THAT(bash("nonsense ''"), testing::SizeIs(testing::Gt(5U))) << "commands";
}

TEST_F(ProgramCompletionTest, ZshOffersTheSameWithDescriptions) {
  if (!std::filesystem::exists("/usr/bin/zsh")) return tests::cannot_run("zsh is not installed: scripts/setup test");
  EXPECT_THAT(zsh("rend"),
              UnorderedElementsAre("render:Print the pods and the service that the operator would create, as YAML"));
  EXPECT_THAT(zsh("checkpoints ls --output=j"), UnorderedElementsAre("compset *=", "json:"));
  EXPECT_THAT(zsh("run ''"), UnorderedElementsAre("files -g *.(yaml|yml)"));
  EXPECT_THAT(zsh("run --dir ''"), UnorderedElementsAre("files -/"));
  EXPECT_THAT(zsh("run --worker ''"), UnorderedElementsAre("files"));
  EXPECT_THAT(zsh("status ''"), UnorderedElementsAre("smoke:"));
}

TEST_F(ProgramCompletionTest, AnUnknownShellIsWrongUsage) {
  const Outcome outcome = run({"completion", "fish"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("fish not in {bash,zsh}"));
}

}  // namespace
}  // namespace trainyard::cli
