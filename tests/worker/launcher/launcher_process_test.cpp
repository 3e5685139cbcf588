#include <gtest/gtest.h>
#include <httplib.h>

#include <chrono>
#include <csignal>
#include <iostream>
#include <nlohmann/json.hpp>

#include "launcher_process.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "worker/rank/tcp.hpp"

namespace trainyard::launcher {
namespace {

using nlohmann::json;

/// Time since construction, for readers of the tests' output. No check depends on it.
class Stopwatch {
 public:
  void print(const std::string& what) const {
    const auto passed = std::chrono::steady_clock::now() - start_;
    std::cout << what << ": " << std::chrono::duration<double>(passed).count() << " s\n";
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

bool is_together(const LauncherProcess& launcher) {
  return launcher.has_printed("linked rank is running") && launcher.has_printed("the group is together");
}

json peer_lost(std::int64_t rank, std::int64_t culprit, int culprit_exit_code, const std::string& message) {
  return {{"reason", "PeerLost"}, {"exitCode", 90},     {"rank", rank},
          {"culprit", culprit},   {"message", message}, {"culpritExitCode", culprit_exit_code}};
}

TEST(Launcher, EndsWithItsRanksAndSaysSo) {
  const TestGroup group;
  LauncherProcess zero{group, 0, "echo rank $RANK of $WORLD_SIZE here"};
  LauncherProcess one{group, 1, "echo rank $RANK of $WORLD_SIZE here"};
  EXPECT_EQ(zero.wait(), 0);
  EXPECT_EQ(one.wait(), 0);
  EXPECT_TRUE(one.has_printed("rank 1 of 2 here"));
  EXPECT_EQ(one.termination_message(), (json{{"reason", "Completed"}, {"exitCode", 0}, {"rank", 1}, {"message", ""}}));
}

TEST(Launcher, GivesEachRankOfAPodItsPlace) {
  TestGroup group{.world_size = 2, .variables = {{"RANK", ""}, {"NODE_RANK", "0"}, {"LOCAL_WORLD_SIZE", "2"}}};
  LauncherProcess pod{group, 0, "echo RANK=$RANK LOCAL_RANK=$LOCAL_RANK ROLE_RANK=$ROLE_RANK threads $OMP_NUM_THREADS"};
  EXPECT_EQ(pod.wait(), 0);
  EXPECT_TRUE(pod.has_printed("RANK=0 LOCAL_RANK=0 ROLE_RANK=0 threads"));
  EXPECT_TRUE(pod.has_printed("RANK=1 LOCAL_RANK=1 ROLE_RANK=1 threads"));
}

TEST(Launcher, EndsTheOtherRanksOfItsPodWithTheOneThatFails) {
  TestGroup group{.world_size = 2, .variables = {{"RANK", ""}, {"NODE_RANK", "0"}, {"LOCAL_WORLD_SIZE", "2"}}};
  LauncherProcess pod{group, 0, "if [ $RANK = 1 ]; then exit 7; fi; exec $LINKED_RANK deaf"};
  EXPECT_EQ(pod.wait(), 7);
  EXPECT_EQ(without_progress(pod.termination_message()),
            (json{{"reason", "Error"},
                  {"exitCode", 7},
                  {"rank", 1},
                  {"message", "rank 1 exited with code 7; its log says why"}}));
}

TEST(Launcher, KillsTheChildrenOfARankThatHasEndedWhileTheOthersOfItsPodRun) {
  TestGroup group{.world_size = 2, .variables = {{"RANK", ""}, {"NODE_RANK", "0"}, {"LOCAL_WORLD_SIZE", "2"}}};
  LauncherProcess pod{group, 0,
                      "if [ $RANK = 1 ]; then sleep 1000 & echo child $!; exit 0; fi; exec $LINKED_RANK train"};
  ASSERT_TRUE(
      eventually([&] { return pod.has_printed("rank ended  rank=1") && pod.has_printed("linked rank is running"); }));
  const std::string output = pod.output();
  const pid_t child = std::stoi(output.substr(output.find("child ") + 6));
  EXPECT_TRUE(eventually([&] { return !is_running(child); }));
  EXPECT_TRUE(is_running(pid_of_rank(pod, 0)));
  pod.send_signal(SIGTERM);
  EXPECT_EQ(pod.wait(), 91);
}

TEST(Launcher, PassesOnTheSignalsThatMeanSomethingToItsRanks) {
  TestGroup group{.world_size = 2, .variables = {{"RANK", ""}, {"NODE_RANK", "0"}, {"LOCAL_WORLD_SIZE", "2"}}};
  LauncherProcess pod{group, 0,
                      "for s in HUP USR1 USR2; do trap \"echo rank $RANK got $s\" $s; done; echo rank $RANK listens; "
                      "while true; do sleep 0.02; done"};
  ASSERT_TRUE(eventually([&] { return pod.has_printed("rank 0 listens") && pod.has_printed("rank 1 listens"); }));
  for (const auto& [signal, name] :
       {std::pair{SIGHUP, "HUP"}, std::pair{SIGUSR1, "USR1"}, std::pair{SIGUSR2, "USR2"}}) {
    pod.send_signal(signal);
    EXPECT_TRUE(eventually([&, name = std::string{name}] {
      return pod.has_printed("rank 0 got " + name) && pod.has_printed("rank 1 got " + name);
    })) << name;
  }
}

TEST(Launcher, EndsTheGroupWhenARankFailsAndPassesItsMessageOn) {
  const TestGroup group;
  LauncherProcess zero{group, 0, "exec $LINKED_RANK train"};
  LauncherProcess one{group, 1,
                      "until [ -e $TRAINYARD_TERMINATION_LOG.go ]; do sleep 0.02; done; exec $LINKED_RANK fail"};
  ASSERT_TRUE(eventually([&] { return zero.has_printed("linked rank is running"); }));
  const Stopwatch stopwatch;
  one.touch("termination-log.go");
  EXPECT_EQ(one.wait(), 93);
  EXPECT_EQ(zero.wait(), 90);
  stopwatch.print("rank 1 exits by itself, until rank 0's launcher has ended");
  EXPECT_EQ(one.termination_message(),
            (json{{"reason", "InvalidData"}, {"exitCode", 93}, {"rank", 1}, {"message", "rank 1: there is no data"}}));
  EXPECT_EQ(without_progress(zero.termination_message()), peer_lost(0, 1, 93, "rank 1: there is no data"));
}

TEST(Launcher, EndsTheGroupWhenARankIsKilled) {
  for (const std::int64_t victim : {0, 1}) {
    const TestGroup group;
    LauncherProcess zero{group, 0, "exec $LINKED_RANK train"};
    LauncherProcess one{group, 1, "exec $LINKED_RANK train"};
    LauncherProcess& killed = victim == 0 ? zero : one;
    LauncherProcess& other = victim == 0 ? one : zero;
    ASSERT_TRUE(eventually([&] { return is_together(zero) && is_together(one); }));
    const Stopwatch stopwatch;
    kill(pid_of_rank(killed, victim), SIGKILL);
    EXPECT_EQ(killed.wait(), 137);
    EXPECT_EQ(other.wait(), 90);
    stopwatch.print("rank " + std::to_string(victim) + " is killed, until the other's launcher has ended");
    const std::string message = "rank " + std::to_string(victim) + " was killed by signal 9 (SIGKILL)";
    EXPECT_EQ(without_progress(killed.termination_message()),
              (json{{"reason", "Killed"}, {"exitCode", 137}, {"rank", victim}, {"message", message}}));
    EXPECT_EQ(without_progress(other.termination_message()), peer_lost(1 - victim, victim, 137, message));
  }
}

TEST(Launcher, KillsProgramsThatKnowNothingOfItWithTheGroup) {
  const TestGroup group;
  LauncherProcess zero{group, 0, "echo here; trap '' TERM; while true; do sleep 0.1; done"};
  LauncherProcess one{group, 1, "until [ -e $TRAINYARD_TERMINATION_LOG.go ]; do sleep 0.02; done; exit 3"};
  ASSERT_TRUE(eventually([&] { return zero.has_printed("here"); }));
  const Stopwatch stopwatch;
  one.touch("termination-log.go");
  EXPECT_EQ(zero.wait(), 90);
  stopwatch.print("rank 1 exits, until a deaf rank 0 is killed and its launcher has ended");
  EXPECT_EQ(zero.termination_message(), peer_lost(0, 1, 3, "rank 1 exited with code 3; its log says why"));
}

TEST(Launcher, KillsARankThatIsStoppedAndNamesIt) {
  const TestGroup group{.world_size = 2, .variables = {{"TRAINYARD_HEARTBEAT_SECONDS", "3"}}};
  LauncherProcess zero{group, 0, "exec $LINKED_RANK train"};
  LauncherProcess one{group, 1, "exec $LINKED_RANK train"};
  ASSERT_TRUE(eventually([&] { return is_together(zero) && is_together(one); }));
  const Stopwatch stopwatch;
  kill(pid_of_rank(one, 1), SIGSTOP);
  EXPECT_EQ(one.wait(), 95);
  EXPECT_EQ(zero.wait(), 90);
  stopwatch.print("rank 1 is stopped, with a heartbeat deadline of 3 s, until all have ended");
  EXPECT_EQ(one.termination_message().at("reason"), "Hang");
  EXPECT_EQ(zero.termination_message().at("culprit"), 1);
}

TEST(Launcher, KillsARankThatLivesButMakesNoProgress) {
  const TestGroup group{.world_size = 2, .variables = {{"TRAINYARD_HANG_SECONDS", "2"}}};
  LauncherProcess zero{group, 0, "exec $LINKED_RANK train"};
  LauncherProcess one{group, 1, "exec $LINKED_RANK no-progress"};
  EXPECT_EQ(one.wait(), 95);
  EXPECT_EQ(zero.wait(), 90);
  EXPECT_EQ(one.termination_message(),
            (json{{"reason", "Hang"},
                  {"exitCode", 95},
                  {"rank", 1},
                  {"progress", {{"phase", "Training"}, {"step", 1}, {"totalSteps", 1'000'000}, {"loss", 1.0}}},
                  {"message", "rank 1 made no progress for 2 s; last seen in phase Training, after step 1"}}));
}

TEST(Launcher, NoticesWhenAWholePodFallsSilent) {
  const TestGroup group{.world_size = 2, .variables = {{"TRAINYARD_HEARTBEAT_SECONDS", "3"}}};
  for (const std::int64_t victim : {0, 1}) {
    TestGroup own = group;
    own.peer_port = free_port();
    own.store_port = free_port();
    LauncherProcess zero{own, 0, "exec $LINKED_RANK train"};
    LauncherProcess one{own, 1, "exec $LINKED_RANK train"};
    LauncherProcess& stopped = victim == 0 ? zero : one;
    LauncherProcess& other = victim == 0 ? one : zero;
    ASSERT_TRUE(eventually([&] { return is_together(zero) && is_together(one); }));
    const Stopwatch stopwatch;
    kill(pid_of_rank(stopped, victim), SIGSTOP);
    stopped.send_signal(SIGSTOP);
    EXPECT_EQ(other.wait(), 90);
    stopwatch.print("launcher " + std::to_string(victim) +
                    " is stopped, with a heartbeat deadline of 3 s, until the other has ended");
    EXPECT_EQ(other.termination_message().at("culprit"), victim);
  }
}

TEST(Launcher, NoticesWhenAWholePodIsKilled) {
  for (const std::int64_t victim : {0, 1}) {
    const TestGroup group;
    LauncherProcess zero{group, 0, "exec $LINKED_RANK train"};
    LauncherProcess one{group, 1, "exec $LINKED_RANK train"};
    LauncherProcess& killed = victim == 0 ? zero : one;
    LauncherProcess& other = victim == 0 ? one : zero;
    ASSERT_TRUE(eventually([&] { return is_together(zero) && is_together(one); }));
    const pid_t orphan = pid_of_rank(killed, victim);
    const Stopwatch stopwatch;
    killed.send_signal(SIGKILL);
    EXPECT_EQ(other.wait(), 90);
    stopwatch.print("launcher " + std::to_string(victim) + " is killed, until the other has ended");
    EXPECT_EQ(other.termination_message().at("culprit"), victim);
    EXPECT_TRUE(eventually([&] { return !is_running(orphan); })) << "a rank does not outlive its launcher";
  }
}

TEST(Launcher, TakesAlongEvenAProgramThatKnowsNothingOfItWhenItIsKilled) {
  const TestGroup group{.world_size = 1};
  LauncherProcess launcher{group, 0, "exec sleep 1000"};
  ASSERT_TRUE(eventually([&] { return launcher.has_printed("rank started"); }));
  const pid_t rank = pid_of_rank(launcher, 0);
  EXPECT_TRUE(is_running(rank));
  launcher.send_signal(SIGKILL);
  EXPECT_EQ(launcher.wait(), 137);
  EXPECT_TRUE(eventually([&] { return !is_running(rank); })) << "it would keep its GPU";
}

TEST(Launcher, SavesAndEndsPreemptedWhenAskedToStop) {
  const TestGroup group;
  LauncherProcess zero{group, 0, "exec $LINKED_RANK train"};
  LauncherProcess one{group, 1, "exec $LINKED_RANK train"};
  ASSERT_TRUE(eventually([&] { return is_together(zero) && is_together(one); }));
  one.send_signal(SIGTERM);
  EXPECT_EQ(one.wait(), 91);
  EXPECT_EQ(without_progress(one.termination_message()),
            (json{{"reason", "Preempted"}, {"exitCode", 91}, {"rank", 1}, {"message", "saved and stopped"}}));
  zero.send_signal(SIGTERM);
  EXPECT_EQ(zero.wait(), 91) << "a peer that stopped as asked is no loss";
}

TEST(Launcher, KillsWhatDoesNotStopWithinTheGracePeriod) {
  const TestGroup group{.world_size = 1, .variables = {{"TRAINYARD_GRACE_SECONDS", "2"}}};
  LauncherProcess launcher{group, 0, "exec $LINKED_RANK deaf"};
  ASSERT_TRUE(eventually([&] { return launcher.has_printed("linked rank is running"); }));
  launcher.send_signal(SIGTERM);
  EXPECT_EQ(launcher.wait(), 143);
  EXPECT_EQ(launcher.termination_message().at("reason"), "GraceExpired");
}

TEST(Launcher, EndsTheGroupAtOnceWhenTheRendezvousStoreDiesBeforeTheFirstStep) {
  const TestGroup group{.store_script = "exit 3"};
  LauncherProcess zero{group, 0, "exec sleep 1000"};
  LauncherProcess one{group, 1, "exec sleep 1000"};
  json expected{
      {"reason", "StoreLost"},
      {"exitCode", 94},
      {"rank", 0},
      {"message", "the rendezvous store ended with code 3 before the group had formed; rank 0's log says why"}};
  EXPECT_EQ(zero.wait(), 94);
  EXPECT_EQ(zero.termination_message(), expected);
  expected["rank"] = 1;
  EXPECT_EQ(one.wait(), 94);
  EXPECT_EQ(one.termination_message(), expected);
}

TEST(Launcher, ReapsOrphansAndLeavesNoChildBehind) {
  const TestGroup group{.world_size = 1};
  LauncherProcess launcher{
      group, 0,
      "(sleep 0.01 &); (sleep 1000 &); echo $$; until [ -e $TRAINYARD_TERMINATION_LOG.go ]; do sleep 0.02; done"};
  // The rank, one orphan, and sometimes the rank's sleep: no zombie stays.
  ASSERT_TRUE(eventually([&] { return launcher.has_printed("rank started"); }));
  EXPECT_TRUE(eventually([&] {
    const auto children = launcher.children();
    return children.size() >= 2 &&
           std::none_of(children.begin(), children.end(), [](const auto& child) { return child.second == 'Z'; });
  }));
  const auto children = launcher.children();
  launcher.touch("termination-log.go");
  EXPECT_EQ(launcher.wait(), 0);
  for (const auto& [pid, state] : children) EXPECT_TRUE(eventually([&, pid = pid] { return !is_running(pid); })) << pid;
}

TEST(Launcher, SaysWhichPortIsInUse) {
  TestGroup group;
  const std::uint16_t status_port = free_port();
  group.variables = {{"TRAINYARD_STATUS_PORT", std::to_string(status_port)}};
  const std::map<std::uint16_t, std::string> uses{{group.peer_port, "rank 0's launcher (TRAINYARD_PEER_PORT)"},
                                                  {group.store_port, "the rendezvous store (TRAINYARD_STORE_PORT)"},
                                                  {status_port, "/status (TRAINYARD_STATUS_PORT)"}};
  for (const auto& [port, use] : uses) {
    const auto taken = rank::listen_on(rank::Reach::loopback, port, "a test");
    ASSERT_TRUE(taken);
    LauncherProcess launcher{group, 0, "exec $LINKED_RANK train"};
    EXPECT_EQ(launcher.wait(), 94);
    EXPECT_EQ(
        launcher.termination_message(),
        (json{{"reason", "PortInUse"},
              {"exitCode", 94},
              {"rank", 0},
              {"message", "port " + std::to_string(port) + ", where " + use +
                              " was to listen, is in use by another program on this machine: end that program (ss "
                              "-ltnp lists it), or give the group another port"}}));
  }
}

TEST(Launcher, ServesStatusAndMetricsOfItsFirstRank) {
  TestGroup group{.world_size = 1};
  const std::uint16_t port = free_port();
  group.variables = {
      {"TRAINYARD_STATUS_PORT", std::to_string(port)}, {"TRAINYARD_JOB_UID", "u"}, {"TRAINYARD_ATTEMPT", "4"}};
  LauncherProcess launcher{group, 0, "exec $LINKED_RANK train"};
  httplib::Client client{"127.0.0.1", port};
  json status;
  ASSERT_TRUE(eventually([&] {
    const auto reply = client.Get("/status");
    if (!reply || reply->status != 200) return false;
    status = json::parse(reply->body);
    return status.value("step", 0) > 3;
  })) << status;
  EXPECT_EQ(status.at("uid"), "u");
  EXPECT_EQ(status.at("attempt"), 4);
  EXPECT_EQ(status.at("phase"), "Training");
  const auto metrics = client.Get("/metrics");
  ASSERT_TRUE(metrics);
  EXPECT_NE(metrics->body.find("trainyard_step{namespace=\"\",job=\"test\",attempt=\"4\",rank=\"0\"} "),
            std::string::npos);
  EXPECT_EQ(client.Get("/other")->status, 404);
  launcher.send_signal(SIGTERM);
  EXPECT_EQ(launcher.wait(), 91);
}

TEST(Launcher, EndsWithOneSentenceWhenItCannotStart) {
  struct Case {
    std::map<std::string, std::string> variables;
    std::string sentence;
  };
  const std::vector<Case> cases{
      {{{"RANK", "2"}},
       "the rank environment contradicts itself: RANK is 2, but WORLD_SIZE is 2: ranks are numbered from 0"},
      {{{"WORLD_SIZE", "two"}}, "the environment variable WORLD_SIZE is 'two', which is not a whole number"},
      {{{"MASTER_ADDR", ""}}, "WORLD_SIZE is 2, but MASTER_ADDR is not set: set it to the address of rank 0"},
  };
  for (const auto& [variables, sentence] : cases) {
    LauncherProcess launcher{TestGroup{}, 0, "true", variables};
    EXPECT_EQ(launcher.wait(), 93);
    EXPECT_EQ(launcher.termination_message(),
              (json{{"reason", "InvalidEnvironment"}, {"exitCode", 93}, {"message", sentence}}));
    EXPECT_TRUE(launcher.has_printed(sentence));
  }
}

TEST(Launcher, MakesWayForTheRankUnderTorchrun) {
  LauncherProcess launcher{
      TestGroup{}, 1, "echo rank $RANK runs as $$; exit 5", {{"TORCHELASTIC_USE_AGENT_STORE", "True"}}};
  EXPECT_EQ(launcher.wait(), 5);
  EXPECT_TRUE(launcher.has_printed("rank 1 runs as " + std::to_string(launcher.pid())));
}

TEST(Launcher, TellsTorchrunWhyItCannotStart) {
  const fakes::TemporaryFolder folder;
  const std::string file = folder.path() + "/error.json";
  LauncherProcess launcher{
      TestGroup{},
      1,
      "true",
      {{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"MASTER_ADDR", ""}, {"TORCHELASTIC_ERROR_FILE", file}}};
  EXPECT_EQ(launcher.wait(), 93);
  EXPECT_EQ(json::parse(fakes::text_of(file)).at("message").at("message"),
            "InvalidEnvironment: TORCHELASTIC_USE_AGENT_STORE is True, but MASTER_ADDR is not set: torchrun sets both");
}

TEST(Launcher, GivesARankItsPlaceInItsOwnWordsWhicheverLauncherHasStartedIt) {
  const std::string none;
  std::map<std::string, std::string> variables{{"RANK", none},
                                               {"WORLD_SIZE", none},
                                               {"MASTER_ADDR", none},
                                               {"TRAINYARD_STORE_PORT", none},
                                               {"TRAINYARD_PEER_PORT", none},
                                               {"SLURM_PROCID", "0"},
                                               {"SLURM_NTASKS", "1"},
                                               {"SLURM_LOCALID", "0"},
                                               {"SLURM_NODEID", "0"},
                                               {"SLURM_JOB_ID", "2"},
                                               {"SLURM_JOB_NODELIST", "localhost"}};
  LauncherProcess launcher{TestGroup{}, 0,
                           "echo $RANK $WORLD_SIZE $LOCAL_RANK $MASTER_ADDR $MASTER_PORT $TRAINYARD_STORE_PORT "
                           "$TRAINYARD_PEER_PORT.",
                           variables};
  EXPECT_EQ(launcher.wait(), 0);
  EXPECT_TRUE(launcher.has_printed("0 1 0 localhost 15006 15007 15008.\n"));
}

}  // namespace
}  // namespace trainyard::launcher
