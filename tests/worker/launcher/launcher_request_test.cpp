// Requests for checkpoints, over HTTP to the launcher and over the link to its rank.
#include <gtest/gtest.h>
#include <httplib.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "launcher_process.hpp"

namespace trainyard::launcher {
namespace {

using nlohmann::json;

/// A group whose launchers have the token and a checkpoint.uri. Each has a status port of its own.
TestGroup a_group_that_saves(std::int64_t world_size) {
  return {.world_size = world_size,
          .variables = {{"TRAINYARD_REQUEST_TOKEN", "5ecret"},
                        {"TRAINYARD_SPEC", R"({"training": {}, "checkpoint": {"uri": "s3://m"}})"}}};
}

class AskedLauncher {
 public:
  AskedLauncher(const TestGroup& group, std::int64_t rank, const std::string& script)
      : launcher{group, rank, script, {{"TRAINYARD_STATUS_PORT", std::to_string(port_)}}} {}

  /// Sends a request once the launcher listens, and returns the answer's status and object.
  [[nodiscard]] std::pair<int, json> ask(const json& request) {
    std::pair<int, json> answer{0, nullptr};
    const bool is_answered = eventually([&] {
      const auto reply = httplib::Client{"127.0.0.1", port_}.Post(
          "/checkpoint", httplib::Headers{{"Authorization", "Bearer 5ecret"}}, request.dump(), "application/json");
      if (reply) answer = {reply->status, json::parse(reply->body)};
      return static_cast<bool>(reply);
    });
    EXPECT_TRUE(is_answered);
    return answer;
  }
  /// The request in /status.
  [[nodiscard]] json record() const {
    const auto reply = httplib::Client{"127.0.0.1", port_}.Get("/status");
    return reply ? json::parse(reply->body).value("checkpointRequest", json{}) : json{};
  }
  [[nodiscard]] bool is_done(const std::string& id) const {
    return eventually([&] {
      const json shown = record();
      return shown.is_object() && shown.at("id") == id && shown.at("state") == "Done";
    });
  }

 private:
  std::uint16_t port_ = free_port();

 public:
  LauncherProcess launcher;
};

TEST(LauncherOnRequest, AsksItsRankAndReportsTheOutcomeAlsoInItsTerminationMessage) {
  AskedLauncher asked{a_group_that_saves(1), 0, "echo token=$TRAINYARD_REQUEST_TOKEN.; exec $LINKED_RANK train"};
  EXPECT_EQ(asked.ask({{"id", "a"}}), (std::pair{202, json{{"id", "a"}, {"state", "Pending"}}}));
  ASSERT_TRUE(asked.is_done("a"));
  const json done = asked.record();
  EXPECT_EQ(done, (json{{"id", "a"},
                        {"then", "continue"},
                        {"state", "Done"},
                        {"step", done.at("step")},
                        {"uri", "memory://step-" + done.at("step").dump()}}));
  EXPECT_EQ(asked.ask({{"id", "a"}}), (std::pair{200, done})) << "any number of times";

  EXPECT_EQ(asked.ask({{"id", "b"}}).first, 202);
  ASSERT_TRUE(asked.is_done("b"));
  const json second = asked.record();
  EXPECT_GT(second.at("step"), done.at("step"));
  asked.launcher.send_signal(SIGTERM);
  EXPECT_EQ(asked.launcher.wait(), 91);
  EXPECT_EQ(asked.launcher.termination_message().at("progress").at("checkpointRequest"), second);
  EXPECT_TRUE(asked.launcher.has_printed("token=.")) << "the rank does not get the token";
  EXPECT_FALSE(asked.launcher.has_printed("5ecret"));
}

TEST(LauncherOnRequest, EndsWithItsRankWhereThatIsAskedFor) {
  AskedLauncher asked{a_group_that_saves(1), 0, "exec $LINKED_RANK train"};
  EXPECT_EQ(asked.ask({{"id", "bye"}, {"then", "exit"}}).first, 202);
  EXPECT_EQ(asked.launcher.wait(), 91);
  const json message = asked.launcher.termination_message();
  EXPECT_EQ(message.at("reason"), "Preempted");
  const json record = message.at("progress").at("checkpointRequest");
  EXPECT_EQ(record, (json{{"id", "bye"},
                          {"then", "exit"},
                          {"state", "Done"},
                          {"step", record.at("step")},
                          {"uri", "memory://step-" + record.at("step").dump()}}));
}

TEST(LauncherOnRequest, KeepsARequestForARankThatIsNotThereYet) {
  AskedLauncher asked{a_group_that_saves(1), 0,
                      "until [ -e $TRAINYARD_TERMINATION_LOG.go ]; do sleep 0.02; done; exec $LINKED_RANK train"};
  EXPECT_EQ(asked.ask({{"id", "a"}}).first, 202);
  const json pending{{"id", "a"}, {"then", "continue"}, {"state", "Pending"}};
  EXPECT_EQ(asked.record(), pending);
  EXPECT_EQ(asked.ask({{"id", "a"}}), (std::pair{200, pending}));
  EXPECT_EQ(asked.ask({{"id", "b"}}), (std::pair{409, json{{"error", "the request a is still pending"}, {"id", "a"}}}));
  asked.launcher.touch("termination-log.go");
  EXPECT_TRUE(asked.is_done("a"));
}

TEST(LauncherOnRequest, AsksRank0OfAPodOfSeveral) {
  TestGroup group = a_group_that_saves(2);
  group.variables.insert({{"RANK", ""}, {"NODE_RANK", "0"}, {"LOCAL_WORLD_SIZE", "2"}});
  // Rank 1 would end as well if it got the request.
  AskedLauncher asked{group, 0, "exec $LINKED_RANK train"};
  // A rank that gets SIGTERM before its handler is installed ends without saving.
  ASSERT_TRUE(eventually([&] { return asked.launcher.has_printed("linked rank is running", 2); }));
  EXPECT_EQ(asked.ask({{"id", "bye"}, {"then", "exit"}}).first, 202);
  EXPECT_TRUE(asked.is_done("bye"));
  ASSERT_TRUE(eventually([&] { return asked.launcher.has_printed("rank ended"); }));
  EXPECT_TRUE(asked.launcher.has_printed("rank ended  rank=0  exitCode=91"));
  EXPECT_FALSE(asked.launcher.has_printed("rank ended  rank=1"));
  asked.launcher.send_signal(SIGTERM);
  EXPECT_EQ(asked.launcher.wait(), 91);
  EXPECT_EQ(asked.launcher.termination_message().at("progress").at("checkpointRequest").at("state"), "Done");
}

TEST(LauncherOnRequest, IsNotForOtherRanksLaunchers) {
  const TestGroup group = a_group_that_saves(2);
  AskedLauncher one{group, 1, "exec $LINKED_RANK train"};
  const auto [status, answer] = one.ask({{"id", "a"}});
  EXPECT_EQ(status, 409);
  EXPECT_EQ(answer.at("error"), "this is not rank 0's pod: rank 0 takes requests for checkpoints");
}

TEST(LauncherOnRequest, LeavesItPendingWhereTheRankDies) {
  AskedLauncher asked{a_group_that_saves(1), 0, "exec $LINKED_RANK deaf"};
  ASSERT_TRUE(eventually([&] { return asked.launcher.has_printed("linked rank is running"); }));
  EXPECT_EQ(asked.ask({{"id", "a"}}).first, 202);
  ASSERT_TRUE(eventually([&] { return asked.launcher.has_printed("checkpoint asked for  id=a  then=continue"); }));
  for (const auto& [pid, state] : asked.launcher.children()) kill(pid, SIGKILL);
  EXPECT_EQ(asked.launcher.wait(), 137);
  EXPECT_EQ(asked.launcher.termination_message().at("progress").at("checkpointRequest"),
            (json{{"id", "a"}, {"then", "continue"}, {"state", "Pending"}}));
}

}  // namespace
}  // namespace trainyard::launcher
