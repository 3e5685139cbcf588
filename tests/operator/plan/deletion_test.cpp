#include "operator/plan/deletion.hpp"

#include <gmock/gmock.h>

#include <functional>
#include <tuple>

#include "operator/manifest/names.hpp"
#include "operator/manifest/objects.hpp"
#include "operator/manifest/worker_pod.hpp"
#include "operator/plan/conditions.hpp"
#include "operator/plan/plan.hpp"
#include "tests/builders/action_words.hpp"
#include "tests/builders/an_observed.hpp"

namespace trainyard::plan {
namespace {

using api::Phase;
using builders::a_job;
using builders::an_observed;
using builders::later;
using builders::start;
using builders::words_of;
using testing::HasSubstr;
using namespace std::chrono_literals;

using Words = std::vector<std::string>;

const std::string clean_up_pod = "smoke-c0de-cleanup";

/// A job whose checkpoints are removed with it, deleted at `start`.
Observed deleted(Observed observed) {
  observed.job.metadata.deletion_time = start;
  observed.job.metadata.finalizers = {std::string{clean_up_finalizer}};
  return observed;
}

/// A deleted job whose deletion was first seen at `later`; it has no pods.
Observed cleaning() {
  Observed observed = deleted(an_observed(a_job().on_delete()));
  observed.pods.clear();
  const Plan plan = make_plan(observed, later);
  observed.job.status = *plan.status;
  return observed;
}

/// As `cleaning`, with the pod that cleans up.
Observed with_pod(const std::function<void(resource::Pod&)>& change = [](resource::Pod&) {}) {
  Observed observed = cleaning();
  resource::Pod pod = builders::a_pod(observed.job, 1, 0);
  pod.metadata.name = clean_up_pod;
  change(pod);
  observed.pods = {pod};
  observed.job.status.restart_not_before = later + 5s;
  return observed;
}

void end(resource::Pod& pod, int exit_code, std::string message) {
  pod.phase = exit_code == 0 ? resource::PodPhase::succeeded : resource::PodPhase::failed;
  pod.containers = {
      {.name = "worker",
       .terminated = resource::ContainerTermination{
           .exit_code = exit_code, .reason = "Error", .message = std::move(message), .finished_at = later}}};
}

std::string message_of(const Observed& observed, const Plan& plan) {
  return (plan.status ? *plan.status : observed.job.status).message;
}

TEST(PlanDeletion, RecordsItBeforeAnythingElse) {
  Observed observed = deleted(an_observed(a_job().on_delete()));
  observed.job.status.checkpoint_request = api::CheckpointRequest{.id = "lunch"};
  const Plan plan = make_plan(observed, later);
  ASSERT_TRUE(plan.status);
  EXPECT_EQ(plan.status->phase, Phase::deleting);
  EXPECT_EQ(plan.status->reason, "CleaningUp");
  EXPECT_EQ(plan.status->message, "the checkpoints under s3://models/smoke are removed with the job");
  EXPECT_EQ(plan.status->ready, "0/2");
  EXPECT_TRUE(is_condition_true(*plan.status, condition_cleaning_up));
  EXPECT_EQ(plan.status->attempts[0].message, "the job was deleted");
  EXPECT_EQ(plan.status->checkpoint_request->state, api::RequestState::failed) << "nobody waits for it in vain";
  EXPECT_TRUE(plan.actions.empty());
  EXPECT_TRUE(plan.events.empty());
  EXPECT_EQ(plan.requeue_after, 0ms);
}

TEST(PlanDeletion, RemovesTheFinalizerOfAJobWithNothingToCleanUp) {
  const std::vector<std::pair<std::string, Observed>> cases{
      {"never wanted", deleted(an_observed(a_job().checkpoint()))},
      {"no checkpoint any more", deleted(an_observed())},
      {"not wanted any more",
       [] {
         Observed observed = with_pod();
         observed.job.spec.checkpoint->on_delete = api::OnDelete::retain;
         return observed;
       }()},
      {"before its first attempt", deleted(builders::first_sight(a_job().on_delete()))}};
  for (const auto& [name, observed] : cases) {
    const Plan plan = make_plan(observed, later);
    EXPECT_EQ(words_of(plan.actions), Words{"remove finalizer"}) << name;
    EXPECT_TRUE(plan.events.empty()) << name;
  }
}

TEST(PlanDeletion, MakesThePodAsTheManifestSaysAndOnNoAvoidedNode) {
  Observed observed = cleaning();
  observed.job.status.avoided_nodes = {"node-1"};
  observed.nodes.at("node-1").host_name = "host-1";
  observed.settings.image_pull_secrets = {"registry"};
  nlohmann::json expected = manifest::build_clean_up_pod(observed.job, observed.settings);
  manifest::avoid_hosts(expected.at("spec"), {"host-1"});
  const Plan plan = make_plan(observed, later);
  ASSERT_EQ(plan.actions.size(), 1U);
  EXPECT_EQ(std::get<CreatePod>(plan.actions[0]).pod(), expected);
}

TEST(PlanDeletion, LeavesAJobAloneThatHasOnlyOthersFinalizers) {
  Observed observed = deleted(an_observed(a_job().on_delete()));
  observed.job.metadata.finalizers = {"other/finalizer"};
  const Plan plan = make_plan(observed, later);
  EXPECT_FALSE(plan.status);
  EXPECT_TRUE(plan.actions.empty());
}

TEST(PlanDeletion, EndsThePodsAndWaitsForThemBeforeItRemovesAnything) {
  Observed observed = cleaning();
  observed.pods = an_observed(a_job().on_delete()).build().pods;
  const Plan first = make_plan(observed, later);
  EXPECT_EQ(words_of(first.actions), (Words{"delete smoke-c0de-1-0", "delete smoke-c0de-1-1"}));
  EXPECT_EQ(message_of(observed, first),
            "waiting until the job's pods have ended (2 left); they may still save a checkpoint");
  for (resource::Pod& pod : observed.pods) pod.metadata.deletion_time = later + 120s;
  const Plan waiting = make_plan(observed, later);
  EXPECT_EQ(words_of(waiting.actions), Words{});
  EXPECT_EQ(waiting.requeue_after, 150s);
}

TEST(PlanDeletion, WaitsForNoPodThatHangsOrWasLostWithItsNode) {
  const std::vector<std::function<void(Observed&)>> cases{
      [](Observed& observed) { observed.pods[0].metadata.deletion_time = later - hung_pod_wait; },
      [](Observed& observed) {
        observed.pods[0].metadata.deletion_time = later + 120s;
        observed.nodes["node-0"] = {.metadata = {.name = "node-0"}, .is_ready = false, .is_unreachable = true};
      },
      [](Observed& observed) { observed.pods[0].phase = resource::PodPhase::failed; }};
  for (const auto& change : cases) {
    Observed observed = cleaning();
    observed.pods = {builders::a_pod(observed.job, 1, 0)};
    change(observed);
    EXPECT_EQ(words_of(make_plan(observed, later).actions), Words{"create " + clean_up_pod});
  }
}

TEST(PlanDeletion, RecordsEachTryBeforeItsPodIsMadeAndWaitsLongerEachTime) {
  const std::vector<std::pair<std::chrono::seconds, std::chrono::seconds>> tried_for_and_pause{
      {0s, 5s}, {10s, 5s}, {40s, 20s}, {300s, 60s}};
  for (const auto& [tried_for, pause] : tried_for_and_pause) {
    Observed observed = cleaning();
    observed.job.status.restart_not_before = later;
    const Plan plan = make_plan(observed, later + tried_for);
    EXPECT_EQ(words_of(plan.actions), Words{"create " + clean_up_pod});
    ASSERT_TRUE(plan.status);
    EXPECT_EQ(plan.status->restart_not_before, later + tried_for + pause);
    observed.job.status = *plan.status;
    const Plan again = make_plan(observed, later + tried_for + 1s);
    EXPECT_EQ(words_of(again.actions), Words{}) << "a pod that vanished at once is no reason for the next";
    EXPECT_EQ(again.requeue_after, pause - 1s);
  }
}

TEST(PlanDeletion, WaitsBrieflyAfterTheFirstTryHoweverLongTheJobsPodsTookToEnd) {
  EXPECT_EQ(make_plan(cleaning(), later + 130s).status->restart_not_before, later + 135s);
}

TEST(PlanDeletion, FollowsThePodToItsEnd) {
  struct Case {
    std::string name;
    std::function<void(resource::Pod&)> change;
    Words actions;
    std::string message;
  };
  const std::vector<Case> cases{
      {"runs", [](resource::Pod&) {}, {}, "pod smoke-c0de-cleanup removes the checkpoints"},
      {"starts",
       [](resource::Pod& pod) {
         pod.phase = resource::PodPhase::pending;
         pod.containers = {{.name = "worker", .waiting_reason = "ContainerCreating"}};
       },
       {},
       "pod smoke-c0de-cleanup, which removes the checkpoints, starts"},
      {"never starts",
       [](resource::Pod& pod) {
         pod.phase = resource::PodPhase::pending;
         pod.containers = {
             {.name = "worker", .waiting_reason = "ImagePullBackOff", .waiting_message = "no such image"}};
       },
       {},
       "pod smoke-c0de-cleanup, which removes the checkpoints, does not start: ImagePull: no such image"},
      {"is done", [](resource::Pod& pod) { end(pod, 0, ""); }, {"remove finalizer"}, ""},
      {"failed",
       [](resource::Pod& pod) { end(pod, 96, R"({"exitCode": 96, "message": "no route to s3"})"); },
       {},
       "removing the checkpoints failed, and is tried again: exit code 96: no route to s3"},
      {"was evicted",
       [](resource::Pod& pod) {
         pod.phase = resource::PodPhase::failed;
         pod.containers.clear();
         pod.reason = "Evicted";
       },
       {},
       "removing the checkpoints failed, and is tried again: Evicted"}};
  for (const Case& each : cases) {
    const Observed observed = with_pod(each.change);
    const Plan plan = make_plan(observed, later + 1s);
    EXPECT_EQ(words_of(plan.actions), each.actions) << each.name;
    if (!each.message.empty()) {
      EXPECT_EQ(message_of(observed, plan), each.message) << each.name;
    }
    EXPECT_TRUE(plan.events.empty()) << each.name;
  }
}

TEST(PlanDeletion, DeletesTheFailedPodOnceTheNextTryIsDue) {
  Observed observed = with_pod([](resource::Pod& pod) { end(pod, 96, "boom"); });
  EXPECT_EQ(make_plan(observed, later + 4s).requeue_after, 1s);
  EXPECT_EQ(words_of(make_plan(observed, later + 5s).actions), Words{"delete " + clean_up_pod});
  observed.pods[0].metadata.deletion_time = later + 5s;
  EXPECT_EQ(words_of(make_plan(observed, later + 6s).actions), Words{}) << "it is asked once";
}

/// Expects that the plan gives up: it says so, and the next plan removes the finalizer.
void expect_given_up(Observed observed, Time now, const std::string& why) {
  const Plan plan = make_plan(observed, now);
  EXPECT_EQ(words_of(plan.actions), Words{}) << why;
  ASSERT_TRUE(plan.status);
  EXPECT_EQ(plan.status->phase, Phase::deleting);
  EXPECT_EQ(plan.status->reason, "CheckpointsLeft");
  EXPECT_THAT(plan.status->message, HasSubstr("the checkpoints under s3://models/smoke stay: "));
  EXPECT_THAT(plan.status->message, HasSubstr(why));
  EXPECT_FALSE(is_condition_true(*plan.status, condition_cleaning_up));
  EXPECT_EQ(plan.events,
            (std::vector<Event>{
                {.reason = "Failed", .is_warning = true, .note = "CheckpointsLeft: " + plan.status->message}}));
  observed.job.status = *plan.status;
  const Plan next = make_plan(observed, now);
  EXPECT_EQ(words_of(next.actions), Words{"remove finalizer"});
  EXPECT_TRUE(next.events.empty()) << "reported once";
}

TEST(PlanDeletion, GivesUpAfterItsDeadlineWhateverItWaitsFor) {
  constexpr auto over = std::chrono::seconds{clean_up_deadline};
  Observed refused = cleaning();
  refused.refusal = Refusal{.message = "exceeded quota: small", .last = later};
  Observed wrong = cleaning();
  wrong.settings = {};
  const std::vector<std::pair<Observed, std::string>> cases{
      {with_pod(), "not be removed within 10 minutes: pod smoke-c0de-cleanup removes"},
      {with_pod([](resource::Pod& pod) { end(pod, 96, "no route to s3"); }), "no route to s3"},
      {refused, "cannot be made: exceeded quota: small"},
      {wrong, "the operator was installed without a worker image"}};
  for (const auto& [observed, why] : cases) {
    EXPECT_NE(make_plan(observed, later + over - 1s).status.value_or(observed.job.status).reason, "CheckpointsLeft");
    EXPECT_LE(*make_plan(observed, later + over - 1s).requeue_after, 1s) << why;
    expect_given_up(observed, later + over, why);
  }
}

TEST(PlanDeletion, MeasuresItsDeadlineFromWhenTheDeletionIsSeen) {
  Observed observed = cleaning();
  observed.job.metadata.deletion_time = later - 24h;
  EXPECT_EQ(words_of(make_plan(observed, later + 1min).actions), Words{"create " + clean_up_pod});
}

TEST(PlanDeletion, TakesTheFinalizerOffAtTheLastMomentWhereAllIsDone) {
  const Observed done = with_pod([](resource::Pod& pod) { end(pod, 0, ""); });
  const Plan plan = make_plan(done, later + clean_up_deadline + 1h);
  EXPECT_EQ(words_of(plan.actions), Words{"remove finalizer"});
  EXPECT_TRUE(plan.events.empty());
}

TEST(PlanDeletion, GivesUpAtOnceWhereAnotherTryCannotHelp) {
  Observed ending = cleaning();
  ending.refusal = Refusal{.message =
                               "create pods: pods is forbidden: unable to create new content in namespace research "
                               "because it is being terminated",
                           .last = later};
  expect_given_up(ending, later + 1s, "the namespace is being deleted");
  expect_given_up(with_pod([](resource::Pod& pod) {
                    end(pod, 93,
                        R"({"exitCode": 93, "message": "s3://models/smoke/ also holds generation 2 of job b"})");
                  }),
                  later + 1s, "also holds generation 2 of job b");
}

TEST(PlanDeletion, WritesNoStatusWhereNothingIsNew) {
  Observed observed = with_pod();
  const Plan plan = make_plan(observed, later + 1s);
  ASSERT_TRUE(plan.status);
  observed.job.status = *plan.status;
  EXPECT_FALSE(make_plan(observed, later + 2s).status);
}

TEST(PlanDeletion, WaitsForAPodThatMayStillSaveUntilItsGraceIsOverAndSomeMore) {
  const auto leaving = [](Time until) {
    Observed observed = cleaning();
    observed.pods = {builders::a_pod(observed.job, 1, 0)};
    observed.pods[0].metadata.deletion_time = until;
    return observed;
  };
  const auto actions_at = [&](Time now) { return words_of(make_plan(leaving(later + 60s), now).actions); };
  EXPECT_EQ(actions_at(later + 59s), Words{});
  EXPECT_EQ(actions_at(later + 60s), Words{}) << "its last save may be on its way, and its kubelet late";
  EXPECT_EQ(actions_at(later + 60s + hung_pod_wait - 1ms), Words{});
  EXPECT_EQ(make_plan(leaving(later + 60s), later + 60s + hung_pod_wait - 1ms).requeue_after, 1ms);
  EXPECT_EQ(actions_at(later + 60s + hung_pod_wait).size(), 1U) << "what hangs is fenced by the clean-up's claim";
}

}  // namespace
}  // namespace trainyard::plan
