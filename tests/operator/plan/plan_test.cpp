#include "operator/plan/plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "operator/plan/conditions.hpp"
#include "operator/plan/deletion.hpp"
#include "tests/builders/action_words.hpp"
#include "tests/builders/an_observed.hpp"

namespace trainyard::plan {
namespace {

using api::Phase;
using builders::a_job;
using builders::an_observed;
using builders::first_sight;
using builders::later;
using builders::start;
using builders::words_of;
using namespace std::chrono_literals;

using Words = std::vector<std::string>;

TEST(MakePlan, ChecksTheTemplateBeforeTheFirstAttempt) {
  const Plan plan = make_plan(first_sight(), later);
  EXPECT_EQ(words_of(plan.actions), Words{"check pod"});
  EXPECT_EQ(std::get<CheckPod>(plan.actions[0]).pod.at("metadata").at("name"), "smoke-c0de-1-0");
  ASSERT_TRUE(plan.status);
  EXPECT_EQ(plan.status->phase, Phase::pending);
  EXPECT_EQ(plan.status->attempt, 0);
}

TEST(MakePlan, RecordsTheFirstAttemptBeforeItMakesAnything) {
  Observed observed = first_sight();
  observed.is_template_accepted = true;
  const Plan plan = make_plan(observed, later);
  EXPECT_TRUE(plan.actions.empty());
  ASSERT_TRUE(plan.status);
  EXPECT_EQ(plan.status->attempt, 1);
  EXPECT_EQ(plan.status->worker_image, "trainyard-worker:cpu");
  EXPECT_EQ(plan.status->replicas, (api::ReplicaCounts{.desired = 2, .pending = 2}));
  EXPECT_EQ(plan.requeue_after, 0ms);
}

TEST(MakePlan, MakesTheServiceThenRankZeroThenTheOthers) {
  const Plan plan = make_plan(
      an_observed().unformed().missing(0).missing(1).with([](Observed& observed) { observed.service.reset(); }), later);
  EXPECT_EQ(words_of(plan.actions),
            (Words{"create service", "create pod 0", "create pod 1", "select pods of attempt 1"}));
}

TEST(MakePlan, RecordsThatTheAttemptIsFormedOnceAllPodsAreThere) {
  const Plan plan = make_plan(an_observed().unformed().waiting(0).waiting(1), later);
  ASSERT_TRUE(plan.status);
  EXPECT_TRUE(plan.status->is_formed);
  EXPECT_EQ(plan.status->phase, Phase::starting);
  EXPECT_TRUE(plan.actions.empty());
}

TEST(MakePlan, FindsNothingToDoForAJobThatRuns) {
  const Observed observed = an_observed();
  Plan plan = make_plan(observed, later);
  EXPECT_FALSE(plan.status);
  EXPECT_TRUE(plan.actions.empty());
  EXPECT_TRUE(plan.events.empty());
  EXPECT_FALSE(plan.requeue_after);
}

TEST(MakePlan, RaisesTheAttemptAndTouchesNoPodWhenARankFails) {
  const Plan plan = make_plan(an_observed().ended(1, 1, "boom"), later);
  ASSERT_TRUE(plan.status);
  EXPECT_EQ(plan.status->attempt, 2);
  EXPECT_FALSE(plan.status->is_formed);
  EXPECT_EQ(plan.status->phase, Phase::restarting);
  EXPECT_EQ(plan.status->restarts, (api::RestartCounts{.application = 1}));
  EXPECT_TRUE(plan.actions.empty());
  ASSERT_EQ(plan.status->attempts.size(), 2U);
  const api::AttemptRecord& record = plan.status->attempts[0];
  EXPECT_EQ(record.cause, api::Cause::application);
  EXPECT_EQ(record.rank, 1);
  EXPECT_EQ(record.pod, "smoke-c0de-1-1");
  EXPECT_EQ(record.node, "node-1");
  EXPECT_EQ(record.exit_code, 1);
  EXPECT_EQ(record.message, "exit code 1: boom");
  EXPECT_EQ(plan.events,
            (std::vector<Event>{{.reason = "Restarting",
                                 .is_warning = true,
                                 .note = "attempt 2 begins because pod 1 was lost (Application): exit code 1: boom"}}));
}

TEST(MakePlan, RecordsAtTheEndHowEachPodEnded) {
  const std::vector<std::pair<Observed, api::ReplicaCounts>> cases{
      {an_observed().ended(0, 0).ended(1, 0), {.desired = 2, .succeeded = 2}},
      {an_observed().ended(0, 0).ended(1, 93), {.desired = 2, .succeeded = 1, .failed = 1}},
      {an_observed().ended(1, 93), {.desired = 2, .failed = 1}},
      {an_observed(a_job().deadline(5s)), {.desired = 2}}};
  for (const auto& [observed, counts] : cases) {
    const Plan plan = make_plan(observed, later);
    ASSERT_TRUE(plan.status && plan.status->completion_time);
    EXPECT_EQ(plan.status->replicas, counts);
    EXPECT_EQ(plan.status->ready, "0/2");
  }
}

TEST(MakePlan, FollowsEditsOfAFinishedJob) {
  const auto observed = an_observed(a_job().generation(3)).phase(Phase::failed).with([](Observed& changed) {
    changed.job.status.observed_generation = 2;
  });
  EXPECT_EQ(make_plan(observed, later).status->observed_generation, 3);
}

TEST(MakePlan, SaysWhichPodsAndWhichGenerationOfTheSpecTheStatusIsAbout) {
  const Plan plan = make_plan(first_sight(a_job().generation(3)), later);
  ASSERT_TRUE(plan.status);
  EXPECT_EQ(plan.status->observed_generation, 3);
  EXPECT_EQ(plan.status->selector, an_observed().build().job.status.selector);
}

TEST(MakePlan, LeavesNoLivePodOfAFinishedJob) {
  const Plan plan = make_plan(an_observed().phase(Phase::failed), later);
  EXPECT_EQ(words_of(plan.actions), (Words{"delete smoke-c0de-1-0", "delete smoke-c0de-1-1", "delete service"}));
}

TEST(MakePlan, WaitsAndChargesNoRestartWhenRanksGaveUpOnOneThatHasNoPlaceYet) {
  const Plan plan =
      make_plan(an_observed().phase(Phase::pending, "Unschedulable").ended(0, 94).unscheduled(1, "no room"), later);
  ASSERT_TRUE(plan.status);
  EXPECT_EQ(plan.status->attempt, 2);
  EXPECT_EQ(plan.status->restart_count, 0);
  EXPECT_EQ(plan.status->restarts, api::RestartCounts{});
  EXPECT_EQ(plan.events,
            (std::vector<Event>{
                {.reason = "Pending",
                 .is_warning = true,
                 .note = "there was no room for the whole group yet, attempt 2 waits for it: exit code 94"}}));
}

TEST(MakePlan, RemovesLivePodsOfOlderAttemptsAtOnceButMakesNoneBeforeBackoffEnds) {
  const auto observed = an_observed().with([](Observed& changed) {
    changed.job.status.attempt = 2;
    changed.job.status.is_formed = false;
    changed.job.status.phase = Phase::restarting;
    changed.job.status.restart_not_before = later + 3s;
  });
  const Plan waiting = make_plan(observed, later);
  EXPECT_EQ(words_of(waiting.actions), (Words{"select no pods", "delete smoke-c0de-1-0", "delete smoke-c0de-1-1"}));
  EXPECT_EQ(waiting.requeue_after, 3s);
  const Plan ready = make_plan(observed, later + 3s);
  EXPECT_EQ(words_of(ready.actions), (Words{"select no pods", "delete smoke-c0de-1-0", "delete smoke-c0de-1-1",
                                            "create pod 0", "create pod 1", "select pods of attempt 2"}));
}

TEST(MakePlan, DeletesNoPodTwice) {
  const auto observed = an_observed().leaving(0).leaving(1).with([](Observed& changed) {
    changed.job.status.attempt = 2;
    changed.job.status.is_formed = false;
  });
  EXPECT_EQ(words_of(make_plan(observed, later).actions),
            (Words{"create pod 0", "create pod 1", "select pods of attempt 2"}));
}

TEST(MakePlan, IsStaleWhenPodsAreAheadOfTheStatus) {
  const auto observed = an_observed().attempt(3).with([](Observed& changed) { changed.job.status.attempt = 2; });
  const Plan plan = make_plan(observed, later);
  EXPECT_TRUE(plan.is_stale);
  EXPECT_FALSE(plan.status);
  EXPECT_TRUE(plan.actions.empty());
}

TEST(MakePlan, LeavesAJobThatIsBeingDeletedAlone) {
  const Plan plan = make_plan(
      an_observed().missing(1).with([](Observed& observed) { observed.job.metadata.deletion_time = start; }), later);
  EXPECT_FALSE(plan.status);
  EXPECT_TRUE(plan.actions.empty());
}

TEST(MakePlan, AddsTheFinalizerBeforeTheFirstAttemptIfCheckpointsAreRemovedWithTheJob) {
  Observed observed = first_sight(a_job().on_delete());
  EXPECT_EQ(words_of(make_plan(observed, later).actions), (Words{"check pod", "add finalizer"}));
  observed.is_template_accepted = true;
  const Plan unheld = make_plan(observed, later);
  EXPECT_EQ(words_of(unheld.actions), Words{"add finalizer"});
  EXPECT_EQ(unheld.status->attempt, 0);
  observed.job.metadata.finalizers = {"other/finalizer", std::string{clean_up_finalizer}};
  EXPECT_EQ(make_plan(observed, later).status->attempt, 1);
}

TEST(MakePlan, FollowsOnDeleteAtAnyTime) {
  for (const Phase phase : {Phase::running, Phase::succeeded, Phase::suspended}) {
    const bool is_suspended = phase == Phase::suspended;
    Observed observed = an_observed(a_job().on_delete().suspended(is_suspended)).phase(phase);
    if (phase != Phase::running) observed.pods.clear();
    observed.service.reset();
    EXPECT_EQ(words_of(make_plan(observed, later).actions).back(), "add finalizer") << to_string(phase);
    observed.job.metadata.finalizers = {std::string{clean_up_finalizer}};
    EXPECT_NE(words_of(make_plan(observed, later).actions), Words{"add finalizer"}) << to_string(phase);
    observed.job.spec.checkpoint->on_delete = api::OnDelete::retain;
    EXPECT_EQ(words_of(make_plan(observed, later).actions).back(), "remove finalizer") << to_string(phase);
  }
}

TEST(MakePlan, AsksForTheFinalizerWithBackoffWhereThatIsRefused) {
  Observed observed = first_sight(a_job().on_delete());
  observed.is_template_accepted = true;
  observed.refusal = Refusal{.kind = ErrorKind::forbidden, .message = "cannot patch", .count = 3, .last = later};
  const Plan plan = make_plan(observed, later);
  EXPECT_EQ(words_of(plan.actions), Words{});
  EXPECT_EQ(plan.requeue_after, 4s);
  EXPECT_EQ(plan.status->message, "cannot patch");
}

TEST(MakePlan, NamesThePodsThatItsDecisionTakesForGone) {
  EXPECT_EQ(make_plan(an_observed().missing(1), later).pods_believed_gone, Words{"smoke-c0de-1-1"});
}

TEST(MakePlan, ShowsEachReasonToWaitAsPending) {
  const Plan plan = make_plan(an_observed().unformed().unscheduled(1, "0/2 nodes are available"), later);
  ASSERT_TRUE(plan.status);
  EXPECT_EQ(plan.status->phase, Phase::pending);
  EXPECT_EQ(plan.status->reason, "Unschedulable");
  EXPECT_EQ(plan.status->message, "pod 1: 0/2 nodes are available");
  EXPECT_EQ(plan.status->ready, "1/2");
  EXPECT_EQ(plan.events.size(), 1U);
}

TEST(MakePlan, StaysRunningOnceAllRanksHaveRun) {
  const Plan plan = make_plan(an_observed().ended(0, 0), later);
  ASSERT_TRUE(plan.status);
  EXPECT_EQ(plan.status->phase, Phase::running);
  EXPECT_EQ(plan.status->succeeded_ranks, std::vector<std::int64_t>{0});
  EXPECT_EQ(plan.status->replicas, (api::ReplicaCounts{.desired = 2, .ready = 1, .succeeded = 1}));
}

TEST(MakePlan, StaysRunningWhileTheCauseOfALossIsStillWaitedFor) {
  // Two seconds, for a better witness than one that has lost a peer.
  const auto observed = an_observed().phase(Phase::running).ended(1, 90, R"({"reason": "Said", "exitCode": 90})");
  const Plan plan = make_plan(observed, builders::start + 1s);
  EXPECT_EQ(plan.status.value_or(api::TrainingJobStatus{.phase = Phase::running}).phase, Phase::running);
}

TEST(MakePlan, TakesACheckpointThatIsReportedWithTheLossIntoAccount) {
  const auto observed = an_observed(a_job().checkpoint()).ended(1, 1).with([](Observed& changed) {
    changed.job.status.attempts_without_progress = 2;
    changed.progress = ProgressReport{.attempt = 1, .checkpoint = api::CheckpointStatus{.step = 5}};
  });
  EXPECT_EQ(make_plan(observed, later).status->phase, Phase::restarting);
}

TEST(MakePlan, DeletesTheJobWhenItsTimeToLiveIsOver) {
  const Observed observed = an_observed(a_job().ttl(60s)).phase(Phase::failed).with([](Observed& changed) {
    changed.job.status.completion_time = start;
  });
  EXPECT_EQ(make_plan(observed, start + 59s).requeue_after, 1s);
  const Plan over = make_plan(observed, start + 60s);
  ASSERT_EQ(words_of(over.actions), Words{"delete job"});
  EXPECT_EQ(std::get<DeleteJob>(over.actions[0]).uid, observed.job.metadata.uid) << "and no other job of its name";
}

TEST(MakePlan, SuspendsByRecordingItFirst) {
  Observed observed = an_observed(a_job().suspended());
  const Plan decided = make_plan(observed, later);
  ASSERT_TRUE(decided.status);
  EXPECT_EQ(decided.status->phase, Phase::suspending);
  EXPECT_EQ(decided.status->attempts[0].cause, api::Cause::suspended);
  EXPECT_TRUE(decided.actions.empty());
  observed.job.status = *decided.status;
  EXPECT_EQ(words_of(make_plan(observed, later).actions), (Words{"delete smoke-c0de-1-0", "delete smoke-c0de-1-1"}));
}

TEST(MakePlan, KeepsMessagesShort) {
  const Plan plan = make_plan(an_observed().ended(1, 1, std::string(100'000, 'x')), later);
  EXPECT_LE(plan.status->message.size(), 1024U);
  EXPECT_LE(plan.status->attempts[0].message.size(), 1024U);
}

TEST(MakePlan, IsEqualForEqualInput) {
  const std::vector<Observed> cases{an_observed().ended(1, 1), first_sight(), an_observed().leaving(0)};
  for (const Observed& observed : cases) {
    const Plan first = make_plan(observed, later);
    const Plan second = make_plan(observed, later);
    EXPECT_EQ(first.status, second.status);
    EXPECT_EQ(words_of(first.actions), words_of(second.actions));
    EXPECT_EQ(first.events, second.events);
  }
}

}  // namespace
}  // namespace trainyard::plan
