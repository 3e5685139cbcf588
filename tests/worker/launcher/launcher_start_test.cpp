// How trainyard-worker takes its arguments, and how it ends where it cannot start a program.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "launcher_process.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/paths/paths.hpp"
#include "worker/launcher/process.hpp"

namespace trainyard::launcher {
namespace {

using nlohmann::json;
using testing::StartsWith;

class LauncherStart : public testing::Test {
 protected:
  /// Runs trainyard-worker by a shell, and returns its exit code.
  int run(const std::string& arguments, std::vector<std::string> environment = {}) {
    environment.push_back("TRAINYARD_TERMINATION_LOG=" + folder_.path() + "/termination-log");
    const std::string command = fmt::format("exec {0} {1} >{2}/output 2>{2}/log", paths::program("trainyard-worker"),
                                            arguments, folder_.path());
    const auto pid =
        start({.path = "/bin/sh", .arguments = {"-c", command}, .environment = environment, .inherited_file = {}});
    EXPECT_TRUE(pid) << pid.error().message;
    int status = 0;
    EXPECT_EQ(waitpid(*pid, &status, 0), *pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  [[nodiscard]] std::string text_of(const std::string& name) const {
    return fakes::text_of(folder_.path() + "/" + name);
  }
  [[nodiscard]] json termination_message() const { return json::parse(text_of("termination-log"), nullptr, false); }

  fakes::TemporaryFolder folder_;
};

TEST_F(LauncherStart, PrintsItsUsageOnItsOutputWhereAskedForHelp) {
  EXPECT_EQ(run("--help", {"WORLD_SIZE=two"}), 0);
  EXPECT_THAT(text_of("output"), StartsWith("usage: trainyard-worker "));
  EXPECT_EQ(text_of("termination-log"), "");
}

TEST_F(LauncherStart, EndsForGoodWhereItsArgumentsAreWrong) {
  EXPECT_EQ(run("--nproc 3"), 93);
  EXPECT_EQ(
      termination_message(),
      (json{{"reason", "InvalidEnvironment"},
            {"exitCode", 93},
            {"message", "'--nproc' is not an option of trainyard-worker; put the rank program's arguments after --"}}));
}

TEST_F(LauncherStart, EndsForGoodWhereAProgramIsMissing) {
  EXPECT_EQ(run("--rank-program /no/such/rank"), 93);
  EXPECT_EQ(
      termination_message(),
      (json{{"reason", "CannotStart"},
            {"exitCode", 93},
            {"rank", 0},
            {"message", "starting the rank program: /no/such/rank cannot be executed: No such file or directory"}}));
  EXPECT_EQ(run("--rank-program /bin/true --store-program /no/such/store",
                {"RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", fmt::format("TRAINYARD_STORE_PORT={}", free_port()),
                 fmt::format("TRAINYARD_PEER_PORT={}", free_port())}),
            93);
  EXPECT_EQ(termination_message().at("reason"), "CannotStart");
  EXPECT_EQ(termination_message().at("message"),
            "starting the rendezvous store: /no/such/store cannot be executed: No such file or directory");
  EXPECT_EQ(run("", {"TORCHELASTIC_USE_AGENT_STORE=True", "RANK=0", "WORLD_SIZE=1", "MASTER_ADDR=m",
                     "TRAINYARD_RANK_PROGRAM=/no/such/rank"}),
            93);
  EXPECT_EQ(termination_message(), (json{{"reason", "CannotStart"},
                                         {"exitCode", 93},
                                         {"message", "starting /no/such/rank: No such file or directory"}}));
}

TEST_F(LauncherStart, LogsJsonWhereAskedForIt) {
  EXPECT_EQ(run("--rank-program /bin/true", {"TRAINYARD_LOG_FORMAT=json"}), 0);
  const std::string log = text_of("log");
  const json first = json::parse(log.substr(0, log.find('\n')), nullptr, false);
  EXPECT_TRUE(first.is_object()) << log;
}

TEST_F(LauncherStart, GivesItsRankTheArgumentsAndNoInput) {
  EXPECT_EQ(run(R"(--rank-program /bin/sh -- -c 'echo "$1 of $#"; readlink /proc/self/fd/0' name 'a b' c)"), 0);
  EXPECT_EQ(text_of("output"), "a b of 2\n/dev/null\n");
}

}  // namespace
}  // namespace trainyard::launcher
