// `trainyard run -H` over a real sshd, which listens on two addresses of the loopback network: they are the hosts.
#include <gmock/gmock.h>
#include <signal.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/cli/program_fixture.hpp"
#include "tests/cli/ssh_server.hpp"
#include "tests/paths/paths.hpp"

namespace trainyard::cli {
namespace {

using fakes::text_of;
using testing::HasSubstr;
using testing::Not;
using Outcome = ProgramOutcome;

class SshRunTest : public ProgramTest {
 protected:
  static void SetUpTestSuite() {
    server_ = std::make_unique<SshServer>(std::vector<SshServer::Host>{{.addresses = {"127.0.0.2", "127.0.0.3"}}});
  }
  static void TearDownTestSuite() { server_.reset(); }

  static std::vector<std::string> with_hosts(const std::string& hosts, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"run", "-H", hosts, "--ssh-config", server_->config()});
    return arguments;
  }
  /// Runs `script` in a shell for each of `count` ranks on `hosts`, and shows their output with prefixes. "$$$$" is
  /// "$$" to the shell, as in a pod's command.
  static std::vector<std::string> shells(const std::string& hosts, int count, const std::string& script) {
    return with_hosts(hosts,
                      {"-np", std::to_string(count), "-t", "3", "--max-restarts", "1", "--", "sh", "-c", script});
  }
  /// True once no process with the number in the file `name` exists.
  [[nodiscard]] bool ends(const std::string& name) const {
    const int pid = std::stoi(text_of(folder_.file(name)));
    return comes_true([&] { return ::kill(pid, 0) != 0; });
  }

  static std::unique_ptr<SshServer> server_;
};

std::unique_ptr<SshServer> SshRunTest::server_;

TEST_F(SshRunTest, StartsEachRankOnItsHostWithItsPlaceAndPrintsItsLines) {
  const Outcome outcome =
      run(shells("127.0.0.2:2,127.0.0.3:1", 3,
                 "set -- $SSH_CONNECTION; echo $LOCAL_RANK $WORLD_SIZE $NODE_RANK $MASTER_ADDR on $3"));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("[rank0]: 0 3 0 127.0.0.2 on 127.0.0.2\n"));
  EXPECT_THAT(outcome.out, HasSubstr("[rank1]: 1 3 0 127.0.0.2 on 127.0.0.2\n"));
  EXPECT_THAT(outcome.out, HasSubstr("[rank2]: 0 3 1 127.0.0.2 on 127.0.0.3\n"));
}

TEST_F(SshRunTest, SendsACommandThatIsLongerThanAPipeHolds) {
  const std::string comment = "# " + std::string(100'000, 'x') + "\n";
  const Outcome outcome = run(shells("127.0.0.2", 1, comment + "echo all of it"));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("[rank0]: all of it\n"));
}

TEST_F(SshRunTest, EndsAllRanksWithTheOneThatFailsNamesItsHostAndRestartsWithinItsBudget) {
  const Outcome outcome = run(shells("127.0.0.2,127.0.0.3", 2,
                                     "if [ $RANK = 0 ]; then echo $$$$ >" + folder_.path() +
                                         "/pid0-$TRAINYARD_ATTEMPT; exec sleep 1000; fi; "
                                         "while [ ! -s " +
                                         folder_.path() + "/pid0-$TRAINYARD_ATTEMPT ]; do sleep 0.01; done; exit 7"));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("Attempt 1 ended: rank 1 on 127.0.0.3 failed: exit code 7"));
  EXPECT_THAT(outcome.err, HasSubstr("Failed: rank 1 on 127.0.0.3 ended with exit code 7; the one restart is used up"));
  EXPECT_TRUE(ends("pid0-1"));
  EXPECT_TRUE(ends("pid0-2"));
}

TEST_F(SshRunTest, PassesTheStopOnAndWaitsForTheRanks) {
  auto group = start(
      shells("127.0.0.2,127.0.0.3", 2,
             "trap 'echo saved; exit 0' TERM; touch " + folder_.path() + "/up$RANK; while :; do sleep 0.01; done"));
  const pid_t pid = pid_of(group);
  ASSERT_TRUE(appears("up0") && appears("up1"));
  ::kill(pid, SIGINT);
  const Outcome outcome = end_of(group);
  EXPECT_EQ(outcome.exit_code, 130);
  EXPECT_THAT(outcome.out, HasSubstr("[rank0]: saved\n"));
  EXPECT_THAT(outcome.out, HasSubstr("[rank1]: saved\n"));
}

TEST_F(SshRunTest, TakesItsRanksWithItWhenItIsKilled) {
  auto group = start(shells("127.0.0.2", 1, "echo $$$$ >" + folder_.path() + "/pid; exec sleep 1000"));
  const pid_t pid = pid_of(group);
  ASSERT_TRUE(comes_true([&] { return !text_of(folder_.file("pid")).empty(); }));
  ::kill(pid, SIGKILL);
  EXPECT_EQ(end_of(group).exit_code, 137);
  EXPECT_TRUE(ends("pid"));
}

TEST_F(SshRunTest, SaysWhichHostDoesNotAnswerAfterWhichTimeAndWhatSshPrinted) {
  const Outcome outcome = run(shells("127.0.0.2,127.0.0.4", 2, "sleep 1000"));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("Attempt 1 ended: rank 1 on 127.0.0.4 failed"));
  EXPECT_THAT(outcome.err,
              HasSubstr("host 127.0.0.4 is not reached: ssh ended with exit code 255 after 0 s and wrote: "));
  EXPECT_THAT(outcome.err, HasSubstr("Connection refused"));
}

TEST_F(SshRunTest, TheCommandOfThePageThatTriesAHostShowsWhetherItIsReached) {
  std::string command = "ssh -o BatchMode=yes HOST true";
  ASSERT_THAT(text_of(paths::source("docs/troubleshooting.md")), HasSubstr("`" + command + "`"));
  command.replace(command.find("HOST"), 4, "\"$1\"");
  const auto exit_code = [&](const std::string& host) {
    auto group =
        start_program({"sh", "-c", "ssh() { /usr/bin/ssh -F \"$0\" \"$@\"; }\n" + command, server_->config(), host});
    return end_of(group).exit_code;
  };
  EXPECT_EQ(exit_code("127.0.0.2"), 0);
  EXPECT_EQ(exit_code("127.0.0.4"), 255);
}

TEST_F(SshRunTest, RunsTheLaunchersOfATrainingJobAsOneGroup) {
  const auto script = [&](const std::string& name, const std::string& text) {
    const auto file = folder_.write(name, "#!/bin/sh\n" + text + "\n");
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    return file.string();
  };
  const std::string worker = paths::program("trainyard-worker");
  const std::string command = "[" + worker + ", --rank-program, " +
                              script("rank", "echo trained $RANK of $WORLD_SIZE") + ", --store-program, " +
                              script("store", "exec sleep 1000") + "]";
  std::string job = text_of(shell_job("true", 1));
  job.replace(job.find("[sh, -c, \"true\"]"), 16, command);
  folder_.write("job.yaml", job);
  const Outcome outcome = run(with_hosts("127.0.0.2,127.0.0.3", {"job.yaml", "-np", "2"}));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("job: 2 processes on 127.0.0.2:1, 127.0.0.3:1, in "));
  EXPECT_THAT(run({"logs", "job", "--rank", "0"}).out, HasSubstr("trained 0 of 2\n"));
  const std::string log = run({"logs", "job", "--rank", "1"}).out;
  EXPECT_THAT(log, HasSubstr("trained 1 of 2\n"));
  EXPECT_THAT(log, Not(HasSubstr("trainyard-end-"))) << "the end's own line is no output";
}

}  // namespace
}  // namespace trainyard::cli
