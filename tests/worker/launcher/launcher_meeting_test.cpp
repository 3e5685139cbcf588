// How launchers connect, which peers they wait for, and which they refuse.
#include <gtest/gtest.h>
#include <httplib.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "launcher_process.hpp"

namespace trainyard::launcher {
namespace {

using nlohmann::json;

void expect_that_they_train(LauncherProcess& zero, LauncherProcess& one) {
  ASSERT_TRUE(eventually(
      [&] { return zero.has_printed("linked rank is running") && one.has_printed("linked rank is running"); }));
  one.send_signal(SIGTERM);
  zero.send_signal(SIGTERM);
  EXPECT_EQ(one.wait(), 91);
  EXPECT_EQ(zero.wait(), 91);
}

/// The log line about the wait comes in a later round of the loop than the end of its ranks.
bool waits_on_after_its_ranks(const LauncherProcess& launcher) {
  const std::string output = launcher.output();
  const auto ended = output.find("rank ended");
  return ended != std::string::npos && output.find("waiting for the group", ended) != std::string::npos;
}

TEST(LaunchersThatMeet, WaitsForTheOthersToComeBeforeItLeaves) {
  const TestGroup hub_first;
  const TestGroup spoke_first;
  // All launchers wait at the same time, so that the test takes one first_wait_log_after.
  LauncherProcess zero{hub_first, 0, "echo done"};
  LauncherProcess one{spoke_first, 1, "echo done"};
  ASSERT_TRUE(eventually([&] { return waits_on_after_its_ranks(zero) && waits_on_after_its_ranks(one); }));
  LauncherProcess late_one{hub_first, 1, "echo done"};
  LauncherProcess late_zero{spoke_first, 0, "echo done"};
  EXPECT_EQ(zero.wait(), 0);
  EXPECT_EQ(one.wait(), 0);
  EXPECT_EQ(late_one.wait(), 0);
  EXPECT_EQ(late_zero.wait(), 0);
}

TEST(LaunchersThatMeet, WaitsForNobodyOnceItIsAskedToStop) {
  const TestGroup group;
  LauncherProcess alone{group, 0, "echo done"};
  ASSERT_TRUE(eventually([&] { return alone.has_printed("rank ended"); }));
  alone.send_signal(SIGTERM);
  EXPECT_EQ(alone.wait(), 0);
}

TEST(LaunchersThatMeet, SendsLatecomersTheFailureThatBrokeTheGroup) {
  const TestGroup group{.world_size = 2, .variables = {{"TRAINYARD_FAREWELL_SECONDS", "60"}}};
  LauncherProcess zero{group, 0, "exit 3"};
  ASSERT_TRUE(eventually([&] { return zero.has_printed("group failed"); }));
  LauncherProcess one{group, 1, "exec $LINKED_RANK train"};
  EXPECT_EQ(one.wait(), 90);
  EXPECT_EQ(one.termination_message().at("culprit"), 0);
  EXPECT_EQ(zero.wait(), 3) << "nobody is missing any more";
}

TEST(LaunchersThatMeet, SaysWhoHasNotComeAndGivesUpAtTheDeadline) {
  const TestGroup group{.world_size = 3, .variables = {{"TRAINYARD_RENDEZVOUS_SECONDS", "4"}}};
  LauncherProcess zero{group, 0, "exec $LINKED_RANK train"};
  LauncherProcess two{group, 2, "exec $LINKED_RANK train"};
  EXPECT_EQ(zero.wait(), 94);
  EXPECT_EQ(two.wait(), 94);
  EXPECT_TRUE(zero.has_printed("waiting for the group  rank=0  waitingFor=rank 1 of 3 has not come ("))
      << zero.output();
  EXPECT_TRUE(two.has_printed("waiting for the group  rank=2  waitingFor=rank 1 of 3 has not come (")) << two.output();
  const json message = without_progress(zero.termination_message());
  EXPECT_EQ(message.at("reason"), "Rendezvous");
  EXPECT_EQ(message.at("message"),
            "the group did not come together in time: waiting for rank 1 of 3 has not come (4 s)");
}

TEST(LaunchersThatMeet, SaysWhomItWaitsForInItsStatus) {
  TestGroup group;
  const std::uint16_t port = free_port();
  LauncherProcess zero{group, 0, "exec $LINKED_RANK train", {{"TRAINYARD_STATUS_PORT", std::to_string(port)}}};
  httplib::Client client{"127.0.0.1", port};
  std::string first;
  EXPECT_TRUE(eventually([&] {
    const auto reply = client.Get("/status");
    if (reply) first = json::parse(reply->body).value("waitingFor", "");
    return !first.empty();
  }));
  EXPECT_EQ(first.find("rank 1 of 2 has not come ("), 0U) << first;
  EXPECT_EQ(first.find("(0 s)"), std::string::npos) << "most groups are together by then";
}

TEST(LaunchersThatMeet, SaysAtOnceThatRank0IsNotThere) {
  const TestGroup group{.world_size = 2, .variables = {{"TRAINYARD_RENDEZVOUS_SECONDS", "3"}}};
  LauncherProcess refused{group, 1, "exec $LINKED_RANK train"};
  LauncherProcess unresolved{group, 1, "exec $LINKED_RANK train", {{"MASTER_ADDR", "no-such-host.invalid"}}};
  EXPECT_EQ(refused.wait(), 94);
  EXPECT_TRUE(refused.has_printed("Connection refused")) << refused.output();
  EXPECT_EQ(unresolved.wait(), 94);
  EXPECT_TRUE(unresolved.has_printed("the name no-such-host.invalid does not resolve (")) << unresolved.output();
  EXPECT_EQ(unresolved.termination_message().at("reason"), "Rendezvous");
}

TEST(LaunchersThatMeet, RefusesAnOlderAttemptByName) {
  TestGroup group;
  group.variables = {{"TRAINYARD_JOB_UID", "u"}, {"TRAINYARD_ATTEMPT", "2"}, {"TRAINYARD_STATUS_PORT", ""}};
  const auto own_status = [] {
    return std::map<std::string, std::string>{{"TRAINYARD_STATUS_PORT", std::to_string(free_port())}};
  };
  LauncherProcess zero{group, 0, "exec $LINKED_RANK train", own_status()};
  auto old = own_status();
  old["TRAINYARD_ATTEMPT"] = "1";
  LauncherProcess stray{group, 1, "exec $LINKED_RANK train", old};
  EXPECT_EQ(stray.wait(), 92);
  EXPECT_EQ(
      without_progress(stray.termination_message()).at("message"),
      "this is attempt 1, but attempt 2 of the same job is running at 127.0.0.1:" + std::to_string(group.peer_port));
  EXPECT_TRUE(
      zero.has_printed("peer refused  error=rank 1 of job test (u), attempt 1 has come to job test (u), attempt 2"));
  LauncherProcess one{group, 1, "exec $LINKED_RANK train", own_status()};
  expect_that_they_train(zero, one);
}

TEST(LaunchersThatMeet, IsNotDisturbedByStrangersOnItsPort) {
  const TestGroup group;
  LauncherProcess zero{group, 0, "exec $LINKED_RANK train"};
  httplib::Client stranger{"127.0.0.1", group.peer_port};
  ASSERT_TRUE(eventually([&] {
    const auto reply = stranger.Get("/");
    return reply.error() != httplib::Error::Connection;
  }));
  LauncherProcess one{group, 1, "exec $LINKED_RANK train"};
  expect_that_they_train(zero, one);
}

}  // namespace
}  // namespace trainyard::launcher
