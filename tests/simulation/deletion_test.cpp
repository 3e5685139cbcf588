#include "tests/simulation/job_life.hpp"

#include <algorithm>

#include "operator/plan/deletion.hpp"

namespace trainyard::simulation {
namespace {

using api::Phase;
using builders::a_job;
using fakes::ApiCall;
using fakes::Fault;
using namespace std::chrono_literals;

/// A job whose checkpoints are deleted with it.
class JobDeletion : public JobLife {
 protected:
  bool is_gone_within(std::chrono::seconds limit) {
    return world.run_until([&] { return !world.job(); }, limit);
  }
  /// The message of the job's event with this reason.
  std::string event(const std::string& reason) {
    const auto events = world.api.list(kube::core_events, {})->items;
    const auto found = std::ranges::find_if(events, [&](const json& each) { return each.at("reason") == reason; });
    return found == events.end() ? "" : found->at("message").get<std::string>();
  }
  bool is_clean_up_pod(const json& pod) { return pod.at("metadata").at("name") == world.clean_up_pod_name(); }
};

TEST_F(JobDeletion, RemovesNothingWhileARankMayStillSave) {
  world.kubelet.set_stubborn([](const json&) { return true; });
  start(a_job().on_delete());
  world.delete_job();
  world.pass(60s);
  EXPECT_TRUE(world.is_phase(Phase::deleting));
  EXPECT_EQ(world.status().message,
            "waiting until the job's pods have ended (2 left); they may still save a checkpoint");
  EXPECT_EQ(world.live_pods(), pods({{"1-0", "Running"}, {"1-1", "Running"}}));
  world.end(1, 0, 91);
  world.end(1, 1, 91);
  ASSERT_TRUE(world.run_until([&] { return world.is_cleaning_up(); }, 2s));
  EXPECT_EQ(world.status().message, fmt::format("pod {} removes the checkpoints", world.clean_up_pod_name()));
  world.end_clean_up(0);
  ASSERT_TRUE(is_gone_within(1s));
  world.pass(120s);
  EXPECT_EQ(world.pods(), Names{});
  EXPECT_EQ(world.events(), (Names{"Running"})) << "what was asked for needs no event";
}

TEST_F(JobDeletion, IsHeldUpBrieflyIfTheReplyToTheRecordOfItsFirstTryIsLost) {
  world.kubelet.set_stubborn([](const json&) { return true; });
  start(a_job().on_delete());
  world.delete_job();
  world.pass(110s);
  ASSERT_EQ(world.live_pods().size(), 2U);
  bool is_lost = false;
  world.faulty.set_schedule([&](const ApiCall& call) -> std::optional<Fault> {
    if (is_lost || call.verb != "update status" || !world.live_pods().empty()) return std::nullopt;
    is_lost = true;
    return Fault{.kind = Fault::Kind::reply_lost, .error = {ErrorKind::timeout, "no reply"}};
  });
  ASSERT_TRUE(world.run_until([&] { return is_lost; }, 20s));
  EXPECT_TRUE(world.run_until([&] { return world.is_cleaning_up(); }, 6s)) << world.status().message;
}

TEST_F(JobDeletion, LetsTheJobGoAtOnceBeforeItsFirstAttempt) {
  world.apply(a_job().on_delete().suspended().manifest());
  ASSERT_TRUE(reaches(Phase::suspended));
  world.delete_job();
  ASSERT_TRUE(is_gone_within(1s));
}

TEST_F(JobDeletion, LetsTheJobGoWithoutItsCheckpointsWhenItsPodNeverStarts) {
  world.kubelet.hold([&](const json& pod) { return is_clean_up_pod(pod); }, "0/3 nodes are available");
  start(a_job().on_delete());
  world.end(1, 0, 93);
  ASSERT_TRUE(reaches(Phase::failed));
  world.delete_job();
  EXPECT_FALSE(is_gone_within(590s));
  EXPECT_EQ(world.status().message,
            fmt::format("pod {}, which removes the checkpoints, does not start: Unschedulable: 0/3 nodes are available",
                        world.clean_up_pod_name()));
  ASSERT_TRUE(is_gone_within(15s));
  world.pass(5s);
  EXPECT_EQ(world.pods(), Names{});
  EXPECT_EQ(event("Failed"),
            fmt::format("CheckpointsLeft: the checkpoints under s3://models/smoke stay: they could not be "
                        "removed within 10 minutes: pod {}, which removes the checkpoints, does not start: "
                        "Unschedulable: 0/3 nodes are available",
                        world.clean_up_pod_name()));
  EXPECT_LE(world.events().size(), 6U);
}

TEST_F(JobDeletion, TriesAgainMoreAndMoreSlowlyWhereTheStorageFails) {
  start(a_job().on_delete());
  world.delete_job();
  int tries = 0;
  const auto begun = world.clock.now();
  while (world.job() && world.clock.now() < begun + 700s) {
    if (world.is_cleaning_up()) {
      ++tries;
      world.end_clean_up(96, R"({"exitCode": 96, "message": "no route to s3"})");
    }
    world.pass(1s);
  }
  EXPECT_FALSE(world.job());
  EXPECT_GE(tries, 8);
  EXPECT_LE(tries, 20);
  EXPECT_NE(event("Failed").find("no route to s3"), std::string::npos) << event("Failed");
}

TEST_F(JobDeletion, GivesUpWhereItsNamespaceIsBeingDeleted) {
  start(a_job().on_delete());
  world.faulty.set_schedule([](const ApiCall& call) -> std::optional<Fault> {
    if (call.verb != "create") return std::nullopt;
    return Fault{.error = {ErrorKind::forbidden,
                           "unable to create new content in namespace research because it is "
                           "being terminated"}};
  });
  world.delete_job();
  ASSERT_TRUE(is_gone_within(5s));
  world.pass(5s);
  EXPECT_EQ(world.pods(), Names{});
}

TEST_F(JobDeletion, KeepsTheCheckpointsIfOnDeleteBecomesRetainMeanwhile) {
  start(a_job().on_delete());
  world.delete_job();
  ASSERT_TRUE(world.run_until([&] { return world.is_cleaning_up(); }));
  world.edit({{"checkpoint", {{"onDelete", "Retain"}}}});
  ASSERT_TRUE(is_gone_within(1s));
}

TEST_F(JobDeletion, IsTriedForAsLongAfterAnOutageOfTheOperator) {
  start(a_job().on_delete());
  bool is_out = true;
  world.faulty.set_schedule([&](const ApiCall&) {
    return is_out ? std::optional{Fault{.error = {ErrorKind::unavailable, "no connection"}}} : std::nullopt;
  });
  world.delete_job();
  world.pass(3600s);
  is_out = false;
  ASSERT_TRUE(world.run_until([&] { return world.is_cleaning_up(); }, 600s));
  world.end_clean_up(0);
  ASSERT_TRUE(is_gone_within(1s));
}

TEST_F(JobDeletion, NeverTakesAForeignPodOfTheNameForItsOwn) {
  start(a_job().on_delete());
  const json foreign{{"metadata", {{"name", world.clean_up_pod_name()}}},
                     {"spec", {{"containers", json::array({{{"name", "other"}, {"image", "other"}}})}}}};
  ASSERT_TRUE(world.api.create(kube::pods, "research", foreign));
  world.delete_job();
  world.pass(60s);
  EXPECT_TRUE(world.is_phase(Phase::deleting));
  EXPECT_NE(world.status().message.find("belongs to somebody else"), std::string::npos) << world.status().message;
  ASSERT_TRUE(world.api.remove(kube::pods, "research", world.clean_up_pod_name()));
  ASSERT_TRUE(world.run_until([&] { return world.job() && world.is_cleaning_up(); }, 120s));
}

TEST_F(JobDeletion, ReportsCheckpointsThatStayInTheEventFailed) {
  start(a_job().on_delete());
  world.end(1, 0, 93, R"({"exitCode": 93, "reason": "InvalidData", "message": "no such path"})");
  ASSERT_TRUE(reaches(Phase::failed));
  EXPECT_NE(event("Failed").find("no such path"), std::string::npos);
  world.delete_job();
  ASSERT_TRUE(world.run_until([&] { return world.is_cleaning_up(); }));
  world.end_clean_up(93, R"({"exitCode": 93, "message": "s3://models/smoke/ also holds generation 1 of job a"})");
  ASSERT_TRUE(is_gone_within(5s));
  EXPECT_EQ(event("Failed"),
            "CheckpointsLeft: the checkpoints under s3://models/smoke stay: "
            "s3://models/smoke/ also holds generation 1 of job a");
  EXPECT_EQ(world.events(), (Names{"Failed", "Running"}));
}

}  // namespace
}  // namespace trainyard::simulation
