#include "worker/launcher/rank_process.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <variant>
#include <vector>

#include "api/contract.hpp"
#include "launcher_process.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/paths/paths.hpp"

namespace trainyard::launcher {
namespace {

class RankProcessTest : public testing::Test {
 protected:
  RankProcess start(const std::string& script) {
    const std::string program = folder_.path() + "/rank";
    std::ofstream{program} << "#!/bin/bash\n" << script << "\n";
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    Options options;
    options.rank_program = program;
    options.group.rank = 0;
    auto started = RankProcess::start(options, 0);
    EXPECT_TRUE(started) << started.error().message;
    return std::move(*started);
  }
  static void wait_until_ended(const RankProcess& rank) {
    siginfo_t info{};
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(rank.pid()), &info, WEXITED | WNOWAIT), 0);
  }
  /// The texts of the ends. The link's own thread may send Alive before a RankEnd and after it.
  static std::vector<std::string> ends_in(const std::vector<rank::RankMessage>& messages) {
    std::vector<std::string> ends;
    for (const rank::RankMessage& message : messages) {
      if (const auto* end = std::get_if<rank::RankEnd>(&message)) ends.push_back(end->message);
    }
    return ends;
  }

  fakes::TemporaryFolder folder_;
};

TEST(RankEnvironment, KeepsAVariableThatIsEmpty) {
  Options options;
  options.group.rank = 0;
  EXPECT_THAT(complete_rank_environment({"CUDA_VISIBLE_DEVICES=", "HOME=/root"}, options, 0, 1, 3),
              testing::IsSupersetOf({"CUDA_VISIBLE_DEVICES=", "HOME=/root"}));
}

TEST(RankEnvironment, TellsARankItsPlaceAndKeepsTheSecret) {
  Options options;
  options.folder = "/opt/bin";
  options.ranks.first_rank = 4;
  options.group.world_size = 8;
  options.group.local_world_size = 4;
  options.group.node_rank = 1;
  options.group.master_address = "m";
  options.group.master_port = 1;
  options.group.store_port = 2;
  options.group.peer_port = 3;
  const std::vector<std::string> base{"HOME=/root", "RANK=9", "RANKS=9", "TRAINYARD_REQUEST_TOKEN=5ecret"};
  const auto with = [](std::vector<std::string> common, std::vector<std::string> own) {
    common.insert(common.end(), own.begin(), own.end());
    return testing::UnorderedElementsAreArray(common);
  };
  const std::vector<std::string> common{"HOME=/root",
                                        "RANKS=9",
                                        "OMP_NUM_THREADS=5",
                                        "TRAINYARD_CHOSE_THREADS=1",
                                        "GLIBC_TUNABLES=glibc.malloc.hugetlb=1",
                                        "WORLD_SIZE=8",
                                        "LOCAL_WORLD_SIZE=4",
                                        "NODE_RANK=1",
                                        "GROUP_RANK=1",
                                        "MASTER_ADDR=m",
                                        "MASTER_PORT=1",
                                        "TRAINYARD_STORE_PORT=2",
                                        "TRAINYARD_PEER_PORT=3",
                                        "TRAINYARD_HAS_LAUNCHER=1",
                                        "TRAINYARD_LAUNCHER_FOLDER=/opt/bin",
                                        "TRAINYARD_RANK_LINK_FD=7"};
  EXPECT_THAT(complete_rank_environment(base, options, 2, 5, 7),
              with(common, {"RANK=6", "ROLE_RANK=6", "LOCAL_RANK=2"}));
  // A launcher for one rank beside those of the same machine.
  options.group.rank = 6;
  options.group.local_rank = 2;
  options.ranks.first_rank = 6;
  EXPECT_THAT(complete_rank_environment(base, options, 0, 5, 7),
              with(common, {"RANK=6", "ROLE_RANK=6", "LOCAL_RANK=2"}));
}

TEST(RankEnvironment, LeavesThreadsAndHeapToTheUserWhoSetsThem) {
  Options options;
  options.group.rank = 0;
  const auto own =
      complete_rank_environment({"OMP_NUM_THREADS=2", "GLIBC_TUNABLES=glibc.malloc.hugetlb=0"}, options, 0, 5, 7);
  EXPECT_THAT(own, testing::IsSupersetOf({"OMP_NUM_THREADS=2", "GLIBC_TUNABLES=glibc.malloc.hugetlb=0"}));
  EXPECT_THAT(own, testing::Not(testing::Contains("TRAINYARD_CHOSE_THREADS=1")));
  const auto empty = complete_rank_environment({"OMP_NUM_THREADS=", "GLIBC_TUNABLES="}, options, 0, 5, 7);
  EXPECT_THAT(empty, testing::IsSupersetOf({"OMP_NUM_THREADS=5", "GLIBC_TUNABLES=glibc.malloc.hugetlb=1"}));
  EXPECT_THAT(empty, testing::Not(testing::Contains("OMP_NUM_THREADS=")));
}

TEST_F(RankProcessTest, SaysWhyAProgramCannotBeExecuted) {
  Options options;
  options.rank_program = folder_.path() + "/nothing";
  options.group.rank = 0;
  const auto started = RankProcess::start(options, 0);
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().kind, ErrorKind::not_found);
  EXPECT_EQ(started.error().message,
            "starting the rank program: " + options.rank_program + " cannot be executed: No such file or directory");
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "no process stays";
}

TEST_F(RankProcessTest, StartsARankWithoutItsOwnSettingsOfSignals) {
  // As under nohup, and as the launcher itself blocks what it reads from a descriptor.
  const auto before = std::signal(SIGHUP, SIG_IGN);
  sigset_t blocked;
  sigset_t mask;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  sigprocmask(SIG_BLOCK, &blocked, &mask);
  RankProcess rank = start("exec grep -E '^Sig(Blk|Ign):' /proc/self/status >" + folder_.path() + "/signals");
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  std::signal(SIGHUP, before);
  wait_until_ended(rank);
  EXPECT_EQ(rank.reap().death, Death{});
  EXPECT_EQ(fakes::text_of(folder_.path() + "/signals"), "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

TEST_F(RankProcessTest, ForgetsTheLinkThatTheRankHasClosed) {
  RankProcess rank = start("true");
  wait_until_ended(rank);
  EXPECT_GE(rank.file(), 0);
  EXPECT_TRUE(rank.receive().empty());
  EXPECT_LT(rank.file(), 0) << "a loop that waits for it would never rest";
  rank.tell(rank::Alive{});
  EXPECT_EQ(rank.reap().death, Death{});
}

TEST_F(RankProcessTest, SendsASignalToTheRankAndNotToItsChildren) {
  const std::string got = folder_.path() + "/got";
  const std::string listens = folder_.path() + "/listens";
  RankProcess rank = start("trap 'exit 3' HUP\n(trap 'echo HUP >>" + got + "' HUP; trap 'echo TERM >>" + got +
                           "; exit' TERM; echo $BASHPID >" + listens + "; while true; do sleep 0.02; done) &\nwait");
  ASSERT_TRUE(eventually([&] { return fakes::text_of(listens).ends_with("\n"); }));
  const pid_t child = std::stoi(fakes::text_of(listens));
  EXPECT_TRUE(rank.send_signal(SIGHUP));
  wait_until_ended(rank);
  kill(child, SIGTERM);
  ASSERT_TRUE(eventually([&] { return !is_running(child); }));
  EXPECT_EQ(fakes::text_of(got), "TERM\n") << "the rank decides what becomes of its children";
  EXPECT_EQ(rank.reap().death, (Death{.exit_code = 3}));
}

TEST_F(RankProcessTest, ReturnsTheLastMessageWithTheEndHoweverLateItCame) {
  RankProcess rank = start("exec " + paths::build("tests/worker/launcher/linked_rank") + " fail");
  wait_until_ended(rank);
  const RankExit exit = rank.reap();
  EXPECT_EQ(exit.death, (Death{.exit_code = contract::exit_do_not_restart}));
  EXPECT_THAT(ends_in(exit.last_words), testing::ElementsAre("there is no data"));
}

TEST_F(RankProcessTest, ReturnsTheLongestMessageThatARankSends) {
  constexpr std::size_t message_bytes = rank::rank_message_bytes_max / 8;
  RankProcess rank =
      start(fmt::format("exec {} fail {}", paths::build("tests/worker/launcher/linked_rank"), message_bytes));
  wait_until_ended(rank);
  EXPECT_THAT(ends_in(rank.reap().last_words), testing::ElementsAre(std::string(message_bytes, 'x')));
}

TEST_F(RankProcessTest, TakesItsChildrenAlongAndSendsNothingToItsNumberAfterThat) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // The orphan stays unreaped, so that its process group still exists.
  RankProcess rank = start("sleep 1000 & echo $! >" + folder_.path() + "/child; exit 3");
  wait_until_ended(rank);
  const pid_t child = std::stoi(fakes::text_of(folder_.path() + "/child"));
  EXPECT_TRUE(is_running(child));
  EXPECT_TRUE(rank.send_signal(SIGHUP)) << "a process that has ended but was not reaped keeps its number";
  EXPECT_EQ(rank.reap().death, (Death{.exit_code = 3}));
  EXPECT_TRUE(eventually([&] { return !is_running(child); }));
  EXPECT_TRUE(rank.is_reaped());
  EXPECT_EQ(kill(-rank.pid(), 0), 0) << "the group is there";
  EXPECT_FALSE(rank.send_signal(SIGKILL));
  waitpid(child, nullptr, 0);
  prctl(PR_SET_CHILD_SUBREAPER, 0);
}

}  // namespace
}  // namespace trainyard::launcher
