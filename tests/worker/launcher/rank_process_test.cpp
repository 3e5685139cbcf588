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
