#include <algorithm>

#include "tests/simulation/job_life.hpp"

namespace trainyard::simulation {
namespace {

using api::Phase;
using builders::a_job;
using namespace std::chrono_literals;

TEST_F(JobLife, MayBeginSuspended) {
  world.apply(a_job().suspended().manifest());
  ASSERT_TRUE(reaches(Phase::suspended));
  EXPECT_TRUE(has_condition(plan::condition_suspended));
  EXPECT_EQ(world.pods(), Names{});
  world.edit({{"suspend", false}, {"replicas", 3}});
  ASSERT_TRUE(runs(1));
  EXPECT_EQ(world.status().ready, "3/3");
  EXPECT_FALSE(has_condition(plan::condition_suspended));
}

TEST_F(JobLife, DoesNotApproachItsDeadlineWhileSuspended) {
  start(a_job().deadline(60s));
  world.pass(40s);
  world.edit({{"suspend", true}});
  ASSERT_TRUE(reaches(Phase::suspended));
  world.pass(300s);
  EXPECT_TRUE(world.is_phase(Phase::suspended));
  world.edit({{"suspend", false}});
  ASSERT_TRUE(runs(2));
  world.pass(50s);
  EXPECT_TRUE(world.is_phase(Phase::running));
  world.pass(11s);
  EXPECT_TRUE(world.is_phase(Phase::failed));
  EXPECT_EQ(world.status().reason, "DeadlineExceeded");
}

TEST_F(JobLife, DoesNotMissItsDeadlineWhilePodsSaveToBeSuspended) {
  world.kubelet.set_stubborn([](const json&) { return true; });
  start(a_job().checkpoint().deadline(60s));
  world.pass(50s);
  world.edit({{"suspend", true}});
  world.pass(60s);
  EXPECT_TRUE(world.is_phase(Phase::suspending));
  world.edit({{"suspend", false}});
  ASSERT_TRUE(runs(2));
  world.pass(50s);
  EXPECT_TRUE(world.is_phase(Phase::running)) << "the clock began anew";
}

TEST_F(JobLife, IsSuspendedAlthoughAPodOnALostNodeNeverEnds) {
  world.kubelet.set_stubborn([&](const json& pod) { return pod.at("metadata").at("name") == world.pod_name(1, 1); });
  start();
  world.edit({{"suspend", true}});
  ASSERT_TRUE(reaches(Phase::suspending));
  world.lose_node(1);
  ASSERT_TRUE(world.run_until([&] { return world.is_phase(Phase::suspended); }, 10s));
}

TEST_F(JobLife, MayResumeWhilePodsStillLeave) {
  world.kubelet.set_stubborn([](const json&) { return true; });
  start();
  world.edit({{"suspend", true}});
  ASSERT_TRUE(reaches(Phase::suspending));
  world.edit({{"suspend", false}});
  ASSERT_TRUE(runs(2));
  EXPECT_EQ(world.status().restarts, api::RestartCounts{});
}

TEST_F(JobLife, EndsWellWhenAllRanksFinishWhileBeingSuspended) {
  world.kubelet.set_stubborn([](const json&) { return true; });
  start();
  world.edit({{"suspend", true}});
  ASSERT_TRUE(reaches(Phase::suspending));
  for (const std::int64_t rank : {0, 1}) world.end(1, rank, 0, R"({"reason": "Completed", "exitCode": 0})");
  EXPECT_TRUE(reaches(Phase::succeeded));
}

TEST_F(JobLife, IsSuspendedThoughContainersThatKnowNothingOfItEndWithZero) {
  world.kubelet.set_stubborn([](const json&) { return true; });
  start(a_job().without_training().container());
  world.edit({{"suspend", true}});
  ASSERT_TRUE(reaches(Phase::suspending));
  world.finish(1);
  ASSERT_TRUE(reaches(Phase::suspended));
  world.edit({{"suspend", false}});
  EXPECT_TRUE(runs(2));
}

// ---- Asked for a checkpoint before

using api::CheckpointRequest;
using api::RequestState;

/// A job that can save and has done its first step, in a cluster whose pods end at the end of their grace period.
class SavesBeforeItIsSuspended : public JobLife {
 protected:
  void train(const std::string& on_suspend = "request") {
    world.kubelet.set_stubborn([](const json&) { return true; });
    json manifest = a_job().checkpoint().manifest();
    manifest["spec"]["checkpoint"]["onSuspend"] = on_suspend;
    world.apply(manifest);
    ASSERT_TRUE(runs(1));
    world.report({.attempt = 1, .step = 12});
    ASSERT_TRUE(world.run_until([&] { return has_condition(plan::condition_training); }));
  }
  void suspend() {
    world.edit({{"suspend", true}});
    ASSERT_TRUE(reaches(Phase::suspending));
  }
  void report_request(CheckpointRequest request) {
    world.report({.attempt = 1, .step = 12, .requests = {std::move(request)}});
  }
  /// The pods that are being deleted.
  std::size_t leaving() {
    return static_cast<std::size_t>(std::ranges::count_if(
        world.kubelet.pods(), [](const json& pod) { return pod.at("metadata").contains("deletionTimestamp"); }));
  }
  void end_rank_0_preempted() {
    world.end(1, 0, 91, R"({"exitCode": 91, "reason": "Preempted", "progress": {"step": 13,
        "checkpoint": {"step": 13, "uri": "s3://models/smoke/step-13/g-1"},
        "checkpointRequest": {"id": "suspend-2", "state": "Done", "step": 13, "uri": "s3://models/smoke/step-13/g-1"}}})");
  }
  void end_rank_1_preempted() { world.end(1, 1, 91, R"({"exitCode": 91, "reason": "Preempted"})"); }
  void end_preempted() {
    end_rank_0_preempted();
    end_rank_1_preempted();
  }
};

TEST_F(SavesBeforeItIsSuspended, AndIsChargedNothingForTheRanksEnd) {
  train();
  suspend();
  EXPECT_EQ(world.status().message,
            "spec.suspend is true: the ranks are asked for a checkpoint before their pods are deleted");
  EXPECT_EQ(world.status().suspend_request->id, "suspend-2");
  report_request({.id = "suspend-2"});
  world.pass(60s);
  EXPECT_EQ(leaving(), 0U);
  world.restart_operator();
  world.pass(10s);
  EXPECT_EQ(leaving(), 0U) << "another leader finishes it";
  end_preempted();
  ASSERT_TRUE(reaches(Phase::suspended));
  EXPECT_EQ(leaving(), 0U) << "they ended by themselves, and their logs stay";
  EXPECT_EQ(world.status().attempt, 1);
  EXPECT_EQ(world.status().restart_count, 0);
  EXPECT_EQ(world.status().restarts, api::RestartCounts{});
  EXPECT_EQ(world.status().checkpoint->step, 13);
  const auto request = world.status().suspend_request;
  EXPECT_EQ(request->state, RequestState::done);
  EXPECT_EQ(request->uri, "s3://models/smoke/step-13/g-1");
  world.edit({{"suspend", false}});
  ASSERT_TRUE(runs(2));
  EXPECT_EQ(world.status().restart_count, 0);
}

TEST_F(SavesBeforeItIsSuspended, AndLeavesTheOtherRanksToEndByThemselvesAfterRank0) {
  train();
  suspend();
  report_request({.id = "suspend-2"});
  world.pass(1s);
  end_rank_0_preempted();
  world.pass(5s);
  EXPECT_EQ(leaving(), 0U);
  end_rank_1_preempted();
  ASSERT_TRUE(reaches(Phase::suspended));
  EXPECT_EQ(leaving(), 0U);
}

TEST_F(SavesBeforeItIsSuspended, AndDeletesAPodThatDoesNotEndAfterRank0) {
  train();
  suspend();
  report_request({.id = "suspend-2"});
  end_rank_0_preempted();
  world.pass(115s);
  EXPECT_EQ(leaving(), 0U);
  world.pass(10s);
  EXPECT_EQ(leaving(), 1U);
}

TEST_F(SavesBeforeItIsSuspended, UnlessOnSuspendIsSignal) {
  train("signal");
  suspend();
  EXPECT_FALSE(world.status().suspend_request);
  EXPECT_EQ(leaving(), 2U);
}

TEST_F(SavesBeforeItIsSuspended, UnlessItDoesNotTrainYet) {
  world.kubelet.set_stubborn([](const json&) { return true; });
  start(a_job().checkpoint());
  suspend();
  EXPECT_FALSE(world.status().suspend_request);
  EXPECT_EQ(leaving(), 2U);
}

TEST_F(SavesBeforeItIsSuspended, UnlessNobodyAnswersForFiveSeconds) {
  train();
  suspend();
  EXPECT_EQ(leaving(), 0U);
  world.pass(6s);
  EXPECT_EQ(leaving(), 2U);
  EXPECT_EQ(world.status().message, "spec.suspend is true: pods are asked to save and stop");
  world.pass(130s);
  EXPECT_TRUE(world.is_phase(Phase::suspended));
  EXPECT_EQ(world.status().suspend_request->message, "the pods ended without an answer");
}

TEST_F(SavesBeforeItIsSuspended, UnlessRank0DoesNotTakeTheRequest) {
  train();
  suspend();
  report_request({.id = "suspend-2", .state = RequestState::failed, .message = "training has ended"});
  world.pass(1s);
  EXPECT_EQ(leaving(), 2U);
  EXPECT_EQ(world.status().message,
            "spec.suspend is true: pods are asked to save and stop, since no checkpoint was made on request: training "
            "has ended");
}

TEST_F(SavesBeforeItIsSuspended, ForNoLongerThanAPodsGracePeriod) {
  train();
  suspend();
  report_request({.id = "suspend-2"});
  world.pass(115s);
  EXPECT_EQ(leaving(), 0U);
  world.pass(6s);
  EXPECT_EQ(leaving(), 2U);
  end_preempted();
  ASSERT_TRUE(reaches(Phase::suspended));
  EXPECT_EQ(world.status().suspend_request->state, RequestState::done) << "the last words still count";
}

TEST_F(SavesBeforeItIsSuspended, AndIsSuspendedWhenTheGroupBreaksMeanwhile) {
  train();
  suspend();
  report_request({.id = "suspend-2"});
  world.vanish(1, 1);
  world.end(1, 0, 90, R"({"exitCode": 90, "reason": "PeerLost"})");
  ASSERT_TRUE(reaches(Phase::suspended));
  EXPECT_EQ(world.status().attempt, 1);
  EXPECT_EQ(world.status().suspend_request->state, RequestState::failed);
}

TEST_F(SavesBeforeItIsSuspended, AndMayBeResumedBeforeItIsDone) {
  train();
  suspend();
  report_request({.id = "suspend-2"});
  world.pass(2s);
  world.edit({{"suspend", false}});
  ASSERT_TRUE(runs(2));
  EXPECT_EQ(world.status().restarts, api::RestartCounts{});
  EXPECT_EQ(world.status().suspend_request->message, "the job was resumed before there was an answer");
}

TEST_F(SavesBeforeItIsSuspended, AndKeepsItsUsersRequestForTheNextAttempt) {
  train();
  world.annotate("trainyard.dev/checkpoint-request", "lunch");
  world.pass(1s);
  suspend();
  report_request({.id = "suspend-2"});
  end_preempted();
  ASSERT_TRUE(reaches(Phase::suspended));
  EXPECT_EQ(world.status().checkpoint_request->state, RequestState::pending);
  EXPECT_EQ(world.status().checkpoint_request->message,
            "the job does not run: the request is sent when it trains again");
  world.edit({{"suspend", false}});
  ASSERT_TRUE(runs(2));
  EXPECT_EQ(world.status().checkpoint_request->message, "waiting for rank 0 to accept the request");
  world.report({.attempt = 2,
                .step = 14,
                .requests = {CheckpointRequest{.id = "lunch", .state = RequestState::done, .step = 14}}});
  world.pass(1s);
  EXPECT_EQ(world.status().checkpoint_request->state, RequestState::done);
}

}  // namespace
}  // namespace trainyard::simulation
