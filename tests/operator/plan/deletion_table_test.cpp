#include <gtest/gtest.h>

#include <variant>

#include "operator/plan/conditions.hpp"
#include "operator/plan/deletion.hpp"
#include "tests/operator/plan/decision_case.hpp"

namespace trainyard::plan {
namespace {

using api::CheckpointRequest;
using api::Phase;
using api::RequestState;
using api::TrainingJobStatus;
using builders::a_job;
using builders::later;
using builders::ObservedBuilder;
using builders::start;
using resource::PodPhase;
using namespace std::chrono_literals;

const std::string remover = "smoke-c0de-cleanup";
const std::string removal_words = "the checkpoints under s3://m/smoke are removed with the job";
const std::string left_words = "the checkpoints under s3://m/smoke stay: ";
const std::string namespace_end_words = "pods is forbidden: the namespace is closed because it is being terminated";
constexpr auto removal_left = 9min + 50s;  // At `later`, of a clean-up that began at `start`.

/// A job with a history that is deleted, and whose checkpoints are to be removed with it. Its status is of an older
/// generation.
ObservedBuilder to_be_deleted() {
  return after_a_life(a_job().checkpoint("s3://m/smoke").on_delete()).with([](Observed& observed) {
    observed.job.metadata.deletion_time = start;
    observed.job.metadata.finalizers = {std::string{clean_up_finalizer}};
    observed.job.status.observed_generation = 3;
  });
}

/// As `to_be_deleted`, once that is recorded; its two pods are still there.
ObservedBuilder being_cleaned() {
  return to_be_deleted().with([](Observed& observed) {
    TrainingJobStatus& status = observed.job.status;
    expect_phase(status, Phase::deleting, "CleaningUp", removal_words);
    status.restart_not_before.reset();
    expect_condition(status, condition_cleaning_up, true, "JobDeleted", removal_words, start);
  });
}

/// As `being_cleaned`, once no pod is left.
ObservedBuilder after_the_pods() {
  return being_cleaned().with([](Observed& observed) { observed.pods.clear(); });
}

/// As `being_cleaned`, with the pod that removes the checkpoints alone; the next may be made ten seconds after `later`.
ObservedBuilder with_remover(const std::function<void(resource::Pod&)>& change) {
  return being_cleaned().with([&](Observed& observed) {
    observed.pods.resize(1);
    observed.pods[0].metadata.name = remover;
    observed.pods[0].metadata.uid = "uid-of-the-clean-up";
    observed.job.status.restart_not_before = later + 10s;
    change(observed.pods[0]);
  });
}

std::function<void(resource::Pod&)> removal_ended(int exit_code, const std::string& message) {
  return [=](resource::Pod& pod) {
    pod.phase = exit_code == 0 ? PodPhase::succeeded : PodPhase::failed;
    pod.containers.at(0).is_running = false;
    pod.containers.at(0).terminated = resource::ContainerTermination{
        .exit_code = exit_code, .reason = "Error", .message = message, .finished_at = later};
  };
}

/// The status that is expected as it was, but of the present generation.
DecisionCase::Change is_seen(const DecisionCase::Change& change = [](TrainingJobStatus&) {}) {
  return [=](TrainingJobStatus& status) {
    status.observed_generation = 4;
    change(status);
  };
}

DecisionCase::Change only_says(const std::string& message) {
  return is_seen([=](TrainingJobStatus& status) { status.message = message; });
}

/// A pod is made at `later`, ten seconds after the clean-up began: half of that is less than the shortest pause.
DecisionCase::Change makes_a_remover(const std::string& message) {
  return is_seen([=](TrainingJobStatus& status) {
    status.message = message;
    status.restart_not_before = later + 5s;
  });
}

DecisionCase::Change begins_clean_up(const DecisionCase::Change& change = [](TrainingJobStatus&) {}) {
  return is_seen([=](TrainingJobStatus& status) {
    expect_attempt_ended(status, {}, "the job was deleted");
    expect_phase(status, Phase::deleting, "CleaningUp", removal_words);
    expect_over(status, "JobDeleted");
    expect_condition(status, condition_cleaning_up, true, "JobDeleted", removal_words);
    change(status);
  });
}

DecisionCase::Change leaves_checkpoints(const std::string& why) {
  return is_seen([=](TrainingJobStatus& status) {
    expect_phase(status, Phase::deleting, "CheckpointsLeft", left_words + why);
    status.restart_not_before.reset();
    expect_condition(status, condition_cleaning_up, false, "CheckpointsLeft");
  });
}

std::vector<Event> told_checkpoints_left(const std::string& why) {
  return {{.reason = "Failed", .is_warning = true, .note = "CheckpointsLeft: " + left_words + why}};
}

std::optional<CheckpointRequest> unanswered_request(const std::string& id) {
  return CheckpointRequest{.id = id, .time = start};
}

void expect_deletion(const DecisionCase& row) {
  const Policy policy = [](const Observed& observed, const std::vector<Member>&, Time now, Draft& draft) {
    plan_deletion(observed, now, draft);
    return false;  // The policy has the last word, and answers nothing.
  };
  expect_decision(row, policy);
}

TEST(PlanDeletion, TakesOffTheFinalizerOrRecordsWhatBegins) {
  const std::vector<DecisionCase> rows{
      {.sentence = "what nobody wants removed stays",
       .observed = to_be_deleted().with(
           [](Observed& observed) { observed.job.spec.checkpoint->on_delete = api::OnDelete::retain; }),
       .change = is_seen(),
       .actions = {"remove finalizer"}},
      {.sentence = "before the first attempt there is nothing",
       .observed = to_be_deleted().with([](Observed& observed) { observed.job.status.attempt = 0; }),
       .change = is_seen(),
       .actions = {"remove finalizer"}},
      {.sentence = "a clean-up that was given up is over",
       .observed = being_cleaned().with([](Observed& observed) { observed.job.status.reason = "CheckpointsLeft"; }),
       .change = is_seen(),
       .actions = {"remove finalizer"}},
      {.sentence = "that reason of another phase is not the clean-up's",
       .observed = to_be_deleted().with([](Observed& observed) {
         expect_phase(observed.job.status, Phase::failed, "CheckpointsLeft", "a word of the pods");
       }),
       .change = begins_clean_up(),
       .requeue_after = 0ms},
      {.sentence = "the deletion is recorded before anything is done",
       .observed = to_be_deleted(),
       .change = begins_clean_up(),
       .requeue_after = 0ms},
      {.sentence = "nobody waits in vain for a checkpoint",
       .observed = to_be_deleted().with([](Observed& observed) {
         observed.job.status.checkpoint_request = unanswered_request("lunch");
         observed.job.status.suspend_request = unanswered_request("suspend-4");
       }),
       .change = begins_clean_up([](TrainingJobStatus& status) {
         for (auto* request : {&status.checkpoint_request, &status.suspend_request}) {
           (*request)->state = RequestState::failed;
           (*request)->message = "the job was deleted before the checkpoint was saved";
           (*request)->time = later;
         }
       }),
       .requeue_after = 0ms},
      {.sentence = "a record without its condition has no beginning, and is made again",
       .observed = being_cleaned().with([](Observed& observed) { observed.job.status.conditions.clear(); }),
       .change = begins_clean_up(),
       .requeue_after = 0ms},
      {.sentence = "a condition without the phase is no record",
       .observed = being_cleaned().with([](Observed& observed) { observed.job.status.phase = Phase::running; }),
       .change = begins_clean_up([](TrainingJobStatus& status) {
         expect_condition(status, condition_cleaning_up, true, "JobDeleted", removal_words, start);
       }),
       .requeue_after = 0ms},
  };
  for (const DecisionCase& row : rows) expect_deletion(row);
}

TEST(PlanDeletion, WaitsForThePodsThatMayStillSave) {
  const auto two_words =
      only_says("waiting until the job's pods have ended (2 left); they may still save a checkpoint");
  const auto one_words =
      only_says("waiting until the job's pods have ended (1 left); they may still save a checkpoint");
  const auto makes = makes_a_remover(removal_words);
  const std::vector<std::string> is_made{"create " + remover};
  const std::vector<DecisionCase> rows{
      {.sentence = "they are asked to end",
       .observed = being_cleaned(),
       .change = two_words,
       .requeue_after = removal_left,
       .actions = {"delete smoke-c0de-3-0", "delete smoke-c0de-3-1"}},
      {.sentence = "each is asked once, and the one that ends first is waited for",
       .observed = being_cleaned().leaving(0, later + 60s),
       .change = two_words,
       .requeue_after = 60s + hung_pod_wait,
       .actions = {"delete smoke-c0de-3-1"}},
      {.sentence = "a pod that has ended saves no more",
       .observed = being_cleaned().ended(0, 0),
       .change = one_words,
       .requeue_after = removal_left,
       .actions = {"delete smoke-c0de-3-1"}},
      {.sentence = "a pod that is being deleted on a lost node is not waited for",
       .observed = being_cleaned().ended(0, 0).leaving(1, later + 60s).on_lost_node(1),
       .change = makes,
       .requeue_after = removal_left,
       .actions = is_made},
      {.sentence = "a pod on a lost node is asked to end first",
       .observed = being_cleaned().ended(0, 0).on_lost_node(1),
       .change = one_words,
       .requeue_after = removal_left,
       .actions = {"delete smoke-c0de-3-1"}},
      {.sentence = "a pod that hangs is not waited for",
       .observed = being_cleaned().ended(0, 0).leaving(1, later - hung_pod_wait),
       .change = makes,
       .requeue_after = removal_left,
       .actions = is_made},
      {.sentence = "a pod that may yet end is",
       .observed = being_cleaned().ended(0, 0).leaving(1, later - hung_pod_wait + 1ms),
       .change = one_words,
       .requeue_after = 1ms},
      {.sentence = "the pod that removes the checkpoints is none of those",
       .observed = with_remover([](resource::Pod&) {}),
       .change = only_says("pod " + remover + " removes the checkpoints"),
       .requeue_after = removal_left},
  };
  for (const DecisionCase& row : rows) expect_deletion(row);
}

TEST(PlanDeletion, MakesThePodUnlessSomethingIsInTheWay) {
  const auto refused = [](ErrorKind kind, const std::string& message) {
    return after_the_pods().with([&](Observed& observed) {
      observed.refusal = Refusal{.kind = kind, .message = message, .count = 1, .last = start};
    });
  };
  const std::string cannot = "the pod that removes the checkpoints cannot be made: ";
  const std::string no_image =
      "no container is given and the operator was installed without a worker image for CPUs: name an image in "
      "spec.template, or set the chart's workerImages";
  const std::vector<std::string> is_made{"create " + remover};
  const std::string why_namespace = "the namespace is being deleted, so no pod that removes them can be created";
  const std::vector<DecisionCase> rows{
      {.sentence = "nothing is",
       .observed = after_the_pods(),
       .change = makes_a_remover(removal_words),
       .requeue_after = removal_left,
       .actions = is_made},
      {.sentence = "a pause that is not over is",
       .observed =
           after_the_pods().with([](Observed& observed) { observed.job.status.restart_not_before = later + 3s; }),
       .change = is_seen(),
       .requeue_after = 3s},
      {.sentence = "a refusal is told, and asked about again",
       .observed = refused(ErrorKind::forbidden, "exceeded quota: small"),
       .change = makes_a_remover(cannot + "exceeded quota: small"),
       .requeue_after = removal_left,
       .actions = is_made},
      {.sentence = "a refusal of now is waited for",
       .observed = refused(ErrorKind::forbidden, "exceeded quota: small").with([](Observed& observed) {
         observed.refusal->last = later;
       }),
       .change = only_says(cannot + "exceeded quota: small"),
       .requeue_after = 1s},
      {.sentence = "a server that fails is named",
       .observed = after_the_pods().with([](Observed& observed) {
         observed.create_failure = CreateFailure{.message = "the webhook timed out", .since = start};
       }),
       .change = makes_a_remover(cannot + "the webhook timed out"),
       .requeue_after = removal_left,
       .actions = is_made},
      {.sentence = "a refusal says more than a failure",
       .observed = refused(ErrorKind::forbidden, "exceeded quota: small").with([](Observed& observed) {
         observed.create_failure = CreateFailure{.message = "the webhook timed out", .since = start};
       }),
       .change = makes_a_remover(cannot + "exceeded quota: small"),
       .requeue_after = removal_left,
       .actions = is_made},
      {.sentence = "a template of which no pod can be made says more than a refusal, and ends the tries",
       .observed = refused(ErrorKind::forbidden, "exceeded quota: small").with([](Observed& observed) {
         observed.settings = {};
       }),
       .change = only_says(cannot + no_image),
       .requeue_after = removal_left},
      {.sentence = "a namespace that is being deleted ends the clean-up, whoever still runs in it",
       .observed = being_cleaned().with([](Observed& observed) {
         observed.job.status.restart_not_before = later + 3s;
         observed.refusal = Refusal{.message = namespace_end_words, .last = start};
       }),
       .change = leaves_checkpoints(why_namespace),
       .events = told_checkpoints_left(why_namespace)},
      {.sentence = "those words of another refusal are no such answer",
       .observed = refused(ErrorKind::invalid, namespace_end_words),
       .change = makes_a_remover(cannot + namespace_end_words),
       .requeue_after = removal_left,
       .actions = is_made},
  };
  for (const DecisionCase& row : rows) expect_deletion(row);
}

TEST(PlanDeletion, FollowsThePodAndTriesAgain) {
  const std::string again = "removing the checkpoints failed, and is tried again: ";
  const std::vector<std::string> is_deleted{"delete " + remover};
  const auto starting = [](const std::string& reason, const std::string& message) {
    return with_remover([&](resource::Pod& pod) {
      pod.phase = PodPhase::pending;
      pod.containers = {{.name = "worker", .waiting_reason = reason, .waiting_message = message}};
    });
  };
  const auto due = [](Observed& observed) { observed.job.status.restart_not_before = later; };
  const auto failed = with_remover(removal_ended(96, "no route"));
  const std::string refusal = "s3://m/smoke also holds generation 2 of job b";
  const std::vector<DecisionCase> rows{
      {.sentence = "it removes them",
       .observed = with_remover([](resource::Pod&) {}),
       .change = only_says("pod " + remover + " removes the checkpoints"),
       .requeue_after = removal_left},
      {.sentence = "it starts, and the job is requeued when that has taken long",
       .observed = starting("ContainerCreating", ""),
       .change = only_says("pod " + remover + ", which removes the checkpoints, starts"),
       .requeue_after = 20s},
      {.sentence = "it does not start",
       .observed = starting("ErrImagePull", "no such image"),
       .change =
           only_says("pod " + remover + ", which removes the checkpoints, does not start: ImagePull: no such image"),
       .requeue_after = removal_left},
      {.sentence = "it is done",
       .observed = with_remover(removal_ended(0, "")),
       .change = is_seen(),
       .actions = {"remove finalizer"}},
      {.sentence = "it failed, and its log is kept until the next is due",
       .observed = failed,
       .change = only_says(again + "exit code 96: no route"),
       .requeue_after = 10s},
      {.sentence = "the next is due",
       .observed = ObservedBuilder{failed}.with(due),
       .change = only_says(again + "exit code 96: no route"),
       .requeue_after = removal_left,
       .actions = is_deleted},
      {.sentence = "a time that was never written is due",
       .observed =
           ObservedBuilder{failed}.with([](Observed& observed) { observed.job.status.restart_not_before.reset(); }),
       .change = only_says(again + "exit code 96: no route"),
       .requeue_after = removal_left,
       .actions = is_deleted},
      {.sentence = "a pod that is being deleted is not deleted again",
       .observed = ObservedBuilder{failed}.with(due).with(
           [](Observed& observed) { observed.pods[0].metadata.deletion_time = later; }),
       .change = only_says(again + "exit code 96: no route"),
       .requeue_after = removal_left},
      {.sentence = "without a last word there is the kubelet's reason",
       .observed = with_remover(removal_ended(137, "")),
       .change = only_says(again + "exit code 137: Error"),
       .requeue_after = 10s},
      {.sentence = "an evicted pod has no exit code",
       .observed = with_remover([](resource::Pod& pod) {
         pod.phase = PodPhase::failed;
         pod.reason = "Evicted";
         pod.containers.clear();
       }),
       .change = only_says(again + "Evicted"),
       .requeue_after = 10s},
      {.sentence = "a refusal to remove them is the last word",
       .observed = with_remover(removal_ended(93, refusal)),
       .change = leaves_checkpoints(refusal),
       .events = told_checkpoints_left(refusal)},
  };
  for (const DecisionCase& row : rows) expect_deletion(row);
}

TEST(PlanDeletion, GivesUpAtItsDeadlineAndPlansNothingElseThen) {
  const Time deadline = start + clean_up_deadline;
  const std::string too_late = "they could not be removed within 10 minutes: ";
  const std::string running_words = "pod " + remover + " removes the checkpoints";
  const auto gives_up_then = [&](const std::string& why) {
    return [=](TrainingJobStatus& status) {
      leaves_checkpoints(why)(status);
      expect_condition(status, condition_cleaning_up, false, "CheckpointsLeft", "", deadline);
    };
  };
  const auto running = with_remover([](resource::Pod&) {});
  const std::vector<DecisionCase> rows{
      {.sentence = "not a moment before",
       .observed = running,
       .change = only_says(running_words),
       .requeue_after = 1ms,
       .now = deadline - 1ms},
      {.sentence = "a pod that still runs has had its time",
       .observed = running,
       .change = gives_up_then(too_late + running_words),
       .events = told_checkpoints_left(too_late + running_words),
       .now = deadline},
      {.sentence = "no other pod is made",
       .observed = after_the_pods(),
       .change = gives_up_then(too_late + removal_words),
       .events = told_checkpoints_left(too_late + removal_words),
       .now = deadline},
      {.sentence = "a pod that is done by then has done it",
       .observed = with_remover(removal_ended(0, "")),
       .change = is_seen(),
       .now = deadline,
       .actions = {"remove finalizer"}},
  };
  for (const DecisionCase& row : rows) expect_deletion(row);
}

TEST(PlanDeletion, PausesLongerBetweenTwoPodsTheLongerItIsTried) {
  const std::vector<std::pair<std::chrono::milliseconds, std::chrono::milliseconds>> tried_for_and_pause{
      {0s, 5s}, {10s, 5s}, {10s + 2ms, 5s + 1ms}, {120s, 60s}, {9min, 60s}};
  for (const auto& [tried_for, pause] : tried_for_and_pause) {
    const Time now = start + tried_for;
    expect_deletion(
        {.sentence = "after " + std::to_string(tried_for.count()) + " ms",
         .observed = after_the_pods().with([](Observed& observed) { observed.job.status.restart_not_before = start; }),
         .change = is_seen([&, pause = pause](TrainingJobStatus& status) { status.restart_not_before = now + pause; }),
         .requeue_after = clean_up_deadline - tried_for,
         .now = now,
         .actions = {"create " + remover}});
  }
}

TEST(PlanDeletion, DeletesNoOtherPodThatHasTheName) {
  for (const Observed& observed :
       {being_cleaned().build(), with_remover(removal_ended(96, "no route"))
                                     .with([](Observed& observed) { observed.job.status.restart_not_before.reset(); })
                                     .build()}) {
    Draft draft{.status = observed.job.status};
    plan_deletion(observed, later, draft);
    EXPECT_EQ(std::get<DeletePod>(draft.actions.at(0)).uid, observed.pods.at(0).metadata.uid);
  }
}

TEST(PlanDeletion, KeepsThePodOffTheNodesThatTheJobAvoids) {
  const Observed observed = after_the_pods();
  Draft draft{.status = observed.job.status};
  plan_deletion(observed, later, draft);
  const std::string pod = std::get<CreatePod>(draft.actions.at(0)).pod().dump();
  EXPECT_NE(pod.find("node-9"), std::string::npos) << pod;
}

}  // namespace
}  // namespace trainyard::plan
