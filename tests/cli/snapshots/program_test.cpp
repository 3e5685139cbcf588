#include <gmock/gmock.h>
#include <sys/wait.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tests/cli/snapshots/shelf_folder.hpp"
#include "tests/paths/paths.hpp"

/// `trainyard snapshots` as a user runs it.
namespace trainyard::cli {
namespace {

using testing::HasSubstr;

struct Outcome {
  int exit_code = -1;
  std::string out;
  std::string err;
};

class SnapshotsProgram : public ShelfFolder {
 protected:
  /// Runs the shell command `line` in the test's folder; $T is the program.
  Outcome run(const std::string& line) {
    const std::string command = "cd " + folder.path() + " && T=" + paths::program("trainyard") + " && { " + line +
                                "; } < /dev/null > out 2> err";
    const int status = std::system(command.c_str());
    return {.exit_code = WEXITSTATUS(status),
            .out = fakes::text_of(folder.file("out")),
            .err = fakes::text_of(folder.file("err"))};
  }
};

TEST_F(SnapshotsProgram, HelpOfEachCommandSaysItsExitCodes) {
  for (const std::string command : {"ls", "get", "history"}) {
    const Outcome help = run("$T snapshots " + command + " --help");
    EXPECT_EQ(help.exit_code, 0) << command;
    EXPECT_THAT(help.out, HasSubstr("Exit code: 0"));
    EXPECT_THAT(help.out, HasSubstr("--endpoint"));
  }
}

TEST_F(SnapshotsProgram, WrongUsageIsExitCode2AndSaysWhatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"$T snapshots", "error: trainyard snapshots needs a command; there are:\n  ls  "},
      {"$T snapshots list file:///run",
       "error: list is not a command of trainyard snapshots; there are ls, get, history\n"},
      {"$T snapshots get file:///run 5 -o five", "error: unknown option -o"},
      {"$T snapshots history file:///run -o table", "--output: table not in {csv,json,yaml}"},
      {"$T snapshots ls", "error: URI is required\nTry: trainyard snapshots ls --help\n"},
      {"$T snapshots get file:///run", "STEP is required"},
      {"$T snapshots get file:///run x", "error: STEP: 'x' is no step: write a whole number, such as 600"},
      {"$T snapshots ls file:///run -o csv", "--output: csv not in {table,json,yaml}"},
  };
  for (const auto& [line, sentence] : cases) {
    const Outcome outcome = run(line);
    EXPECT_EQ(outcome.exit_code, 2) << line << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(sentence)) << line;
  }
}

TEST_F(SnapshotsProgram, ListsGetsAndPrintsHistory) {
  EXPECT_THAT(run("$T snapshots ls " + uri()).out, HasSubstr("superseded"));
  EXPECT_EQ(run("$T snapshots get " + uri() + " 20").exit_code, 0);
  EXPECT_THAT(fakes::text_of(folder.file("snapshot-20/metrics.csv")), HasSubstr("20,loss,steps,1\n"));
  EXPECT_EQ(run("$T snapshots get " + uri() + " 10 ten").exit_code, 0);
  EXPECT_THAT(fakes::text_of(folder.file("ten/val_a.png")), testing::StartsWith("\x89PNG"));
  EXPECT_THAT(run("$T snapshots history " + uri()).out, HasSubstr("\n30,loss,steps,2,2\n"));
  EXPECT_EQ(nlohmann::json::parse(run("$T snapshots history " + uri() + " -o json").out).back(),
            nlohmann::json::parse(R"({"step": 30, "name": "loss", "over": "steps", "value": 2.0, "generation": 2})"));
}

}  // namespace
}  // namespace trainyard::cli
