#include "operator/plan/decide.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "operator/plan/conditions.hpp"
#include "operator/plan/deletion.hpp"
#include "tests/operator/plan/decision_case.hpp"

namespace trainyard::plan {
namespace {

using api::Cause;
using api::Phase;
using api::TrainingJobStatus;
using builders::a_job;
using builders::first_sight;
using builders::later;
using builders::ObservedBuilder;
using builders::start;
using namespace std::chrono_literals;

const std::string fault = "spec.template is wrong";
const std::string deadline_words = "the job was active for longer than spec.activeDeadlineSeconds (60)";
const std::string room_words = "no room for the group without node-9: avoided nodes are tried again";

// ---- Changes to after_a_life(), none of which it has yet

/// The API server refuses a pod of the job.
void refuse_pod(Observed& observed) {
  observed.refusal = Refusal{.kind = ErrorKind::invalid, .message = fault};
}
/// The job has been active for `so_far`, and may be so for a minute.
auto active_for(std::chrono::milliseconds so_far) {
  return [=](Observed& observed) {
    observed.job.spec.active_deadline = 60s;
    observed.job.status.start_time = later - so_far;
  };
}
void ask_for_suspension(Observed& observed) {
  observed.job.spec.is_suspended = true;
  observed.job.spec.checkpoint->on_suspend = api::OnSuspend::signal;
}
void edit_spec(Observed& observed) {
  observed.job.spec.training->max_steps = 300;
  observed.job.metadata.generation = 5;
  observed.job.status.observed_generation = 5;
}
/// The group finds no room without node-9 since `start`.
void find_no_room(Observed& observed) {
  observed.job.status.phase = Phase::pending;
  observed.job.status.reason = "Unschedulable";
}

ObservedBuilder group_forming() {
  return after_a_life().unformed();
}

ObservedBuilder a_new_job(const builders::JobBuilder& job = a_job()) {
  return ObservedBuilder{}.with([&](Observed& observed) {
    observed = first_sight(job);
    observed.is_template_accepted = true;
    observed.job.status.phase = Phase::pending;
    observed.job.status.observed_generation = 1;
  });
}

// ---- The statuses that are expected

DecisionCase::Change succeeds() {
  return [](TrainingJobStatus& status) {
    const bool is_ended = status.attempts.back().end.has_value();
    if (!is_ended) expect_attempt_ended(status, {}, "all pods ended with 0");
    status.is_formed = true;
    status.succeeded_ranks = {0, 1};
    expect_phase(status, Phase::succeeded);
    expect_over(status, "JobEnded");
    expect_condition(status, condition_complete, true, "AllRanksSucceeded", "all 2 pods ended with 0");
    status.completion_time = later;
  };
}
const std::vector<Event> told_success{{.reason = "Succeeded", .note = "all 2 pods ended with 0 in attempt 3"}};

DecisionCase::Change fails_for(const std::string& reason, const std::string& message) {
  return [=](TrainingJobStatus& status) {
    if (reason == "InvalidTemplate") expect_condition(status, condition_invalid_template, true, "Refused", message);
    if (!status.attempts.empty()) expect_attempt_ended(status, {}, message);
    expect_phase(status, Phase::failed, reason, message);
    status.completion_time = later;
    expect_over(status, "JobEnded");
    status.ready = fmt::format("0/{}", status.replicas.desired);
    expect_condition(status, condition_failed, true, reason, message);
  };
}
std::vector<Event> told_that(const std::string& reason, const std::string& message) {
  return {{.reason = "Failed", .is_warning = true, .note = fmt::format("{}: {}", reason, message)}};
}

void begins_to_suspend_by_signal(TrainingJobStatus& status) {
  expect_attempt_ended(status, Cause::suspended, "spec.suspend is true");
  expect_phase(status, Phase::suspending, "Suspended", "spec.suspend is true: pods are asked to save and stop");
  status.suspend_request.reset();
  status.restart_not_before.reset();
  expect_condition(status, condition_training, false, "Suspended");
}

DecisionCase::Change forms_anew_because(Cause cause, const std::string& message) {
  return [=](TrainingJobStatus& status) {
    expect_attempt_ended(status, cause, message);
    expect_next_attempt(status, 4);
    expect_phase(status, Phase::starting);
    if (cause == Cause::infrastructure) status.avoided_nodes.clear();
  };
}

void begins_first_attempt(TrainingJobStatus& status) {
  expect_next_attempt(status, 1);
  expect_phase(status, Phase::starting);
}

TEST(Decide, EndsTheJobAsSucceededOnceAllRanksHave) {
  const auto rank_0_has_succeeded = [](TrainingJobStatus& status) { status.succeeded_ranks = {0}; };
  const auto record_rank_0 = [](Observed& observed) { observed.job.status.succeeded_ranks = {0}; };
  const std::vector<DecisionCase> rows{
      {"none has ended", after_a_life(), false},
      {"one has", after_a_life().ended(0, 0), false, rank_0_has_succeeded},
      {"both have", after_a_life().ended(0, 0).ended(1, 0), true, succeeds(), told_success},
      {"so fast that nobody saw the group formed", group_forming().ended(0, 0).ended(1, 0), true, succeeds(),
       told_success},
      {"one of them before its pod went", after_a_life().missing(0).ended(1, 0).with(record_rank_0), true, succeeds(),
       told_success},
      {"a group of nobody has not succeeded",
       after_a_life().with([](Observed& observed) { observed.job.status.replicas = {}; }), false},
  };
  for (const DecisionCase& row : rows) expect_decision(row, decide);
}

TEST(Decide, EndsTheJobAtItsDeadline) {
  const auto fails = fails_for("DeadlineExceeded", deadline_words);
  const auto told = told_that("DeadlineExceeded", deadline_words);
  const std::vector<DecisionCase> rows{
      {.sentence = "which is looked at again when it comes",
       .observed = after_a_life().with(active_for(57s)),
       .requeue_after = 3s},
      {.sentence = "however soon that is",
       .observed = after_a_life().with(active_for(60s - 1ms)),
       .requeue_after = 1ms},
      {"to the second", after_a_life().with(active_for(60s)), true, fails, told},
      {"also before it has an attempt", a_new_job().with(active_for(61s)), true, fails, told},
      {"but not before it was ever seen", a_new_job().with([](Observed& observed) {
         observed.job.spec.active_deadline = 60s;
         observed.is_template_accepted = false;
       }),
       false},
      {"nor while its pods save for a suspension",
       after_a_life().phase(Phase::suspending).with(active_for(61s)).with(ask_for_suspension), false,
       [](TrainingJobStatus& status) {
         status.message = "spec.suspend is true: step 300 is saved, the pods end";
         status.suspend_request->step = 300;
       }},
      {"nor while it is suspended",
       after_a_life().phase(Phase::suspended).with(active_for(61s)).with(ask_for_suspension), false},
  };
  for (const DecisionCase& row : rows) expect_decision(row, decide);
}

TEST(Decide, EndsTheJobWhoseTemplateMakesNoPod) {
  const std::string no_program =
      "there is nothing to run: give spec.training, or a container in spec.template.spec.containers";
  const std::vector<DecisionCase> rows{
      {"as the operator sees by itself", a_new_job(a_job().without_training()), true,
       fails_for("InvalidTemplate", no_program), told_that("InvalidTemplate", no_program)},
      {"or the API server says", a_new_job().with(refuse_pod), true, fails_for("InvalidTemplate", fault),
       told_that("InvalidTemplate", fault)},
      {"also in a later attempt", group_forming().with(refuse_pod), true, fails_for("InvalidTemplate", fault),
       told_that("InvalidTemplate", fault)},
      {"what the operator sees comes before an older refusal", a_new_job(a_job().without_training()).with(refuse_pod),
       true, fails_for("InvalidTemplate", no_program), told_that("InvalidTemplate", no_program)},
      {"a refusal for another reason may pass",
       group_forming().with(refuse_pod).with([](Observed& observed) { observed.refusal->kind = ErrorKind::forbidden; }),
       false},
      {"a group that runs needs no template", after_a_life().with(refuse_pod), false},
      {"nor does a job that is suspended before it began",
       a_new_job(a_job().without_training().suspended()).phase(Phase::suspended, "Suspended"), false},
      {"or after", after_a_life().unformed().phase(Phase::suspended).with(refuse_pod).with(ask_for_suspension), false},
  };
  for (const DecisionCase& row : rows) expect_decision(row, decide);
}

TEST(Decide, TriesAvoidedNodesAgainAfterAMinuteWithoutRoom) {
  const std::vector<DecisionCase> rows{
      {.sentence = "which is waited for",
       .observed = group_forming().with(find_no_room),
       .requeue_after = 2s,
       .now = start + 58s},
      {"and is over then", group_forming().with(find_no_room).with([](Observed& observed) {
         observed.job.status.attempts.back().start = later - 60s;
         observed.job.status.restart_not_before.reset();
       }),
       true, forms_anew_because(Cause::infrastructure, room_words)},
      {"all of them are named", group_forming().with(find_no_room).with([](Observed& observed) {
         observed.job.status.attempts.back().start = later - 60s;
         observed.job.status.restart_not_before.reset();
         observed.job.status.avoided_nodes = {"node-8", "node-9"};
       }),
       true,
       forms_anew_because(Cause::infrastructure,
                          "no room for the group without node-8, node-9: avoided nodes are tried again")},
      {"a group that waits for something else waits on",
       group_forming().phase(Phase::pending, "ImagePull").with([](Observed& observed) {
         observed.job.status.attempts.back().start = later - 60s;
       }),
       false},
  };
  for (const DecisionCase& row : rows) expect_decision(row, decide);
}

TEST(Decide, BeginsTheFirstAttemptOnceItsPodsCanBeMade) {
  const std::vector<DecisionCase> rows{
      {"the API server takes its pods", a_new_job(), true, begins_first_attempt},
      {"it has not said so", a_new_job().with([](Observed& observed) { observed.is_template_accepted = false; }),
       false},
      {"the job is suspended", a_new_job(a_job().suspended()).phase(Phase::suspended, "Suspended"), false},
      {"what it saves would outlive it", a_new_job(a_job().on_delete()), false},
      {"what it saves is held with it", a_new_job(a_job().on_delete()).with([](Observed& observed) {
         observed.job.metadata.finalizers = {std::string{clean_up_finalizer}};
       }),
       true, begins_first_attempt},
      {"the first attempt is there", after_a_life(), false},
  };
  for (const DecisionCase& row : rows) expect_decision(row, decide);
}

TEST(Decide, TakesTheFirstOfSeveralReasonsInTheirOrder) {
  const auto wait_a_minute = [](Observed& observed) {
    observed.job.status.attempts.back().start = later - 60s;
    observed.job.status.restart_not_before.reset();
  };
  const ObservedBuilder lost_and_edited = group_forming().ended(1, 93).with(edit_spec);
  const std::string final_words = "exit code 93; not restarted, since the worker says that a restart cannot help";
  const std::vector<DecisionCase> rows{
      {"success before suspension, whose end of the attempt stays recorded",
       after_a_life()
           .ended(0, 0)
           .ended(1, 0)
           .with(ask_for_suspension)
           .phase(Phase::suspending)
           .with([](Observed& observed) {
             observed.job.status.attempts.back().end = start;
             observed.job.status.attempts.back().cause = Cause::suspended;
           }),
       true, succeeds(), told_success},
      {"success before the deadline", after_a_life().ended(0, 0).ended(1, 0).with(active_for(61s)), true, succeeds(),
       told_success},
      {"suspension before the deadline", after_a_life().with(active_for(61s)).with(ask_for_suspension), true,
       begins_to_suspend_by_signal},
      {"the deadline before the template", group_forming().with(active_for(61s)).with(refuse_pod), true,
       fails_for("DeadlineExceeded", deadline_words), told_that("DeadlineExceeded", deadline_words)},
      {"the template before a lost rank", group_forming().ended(1, 1).with(refuse_pod), true,
       fails_for("InvalidTemplate", fault), told_that("InvalidTemplate", fault)},
      {"a lost rank before an edit", lost_and_edited, true,
       [&](TrainingJobStatus& status) {
         expect_attempt_ended(status, Cause::application, "exit code 93");
         api::AttemptRecord& record = status.attempts.back();
         record.rank = 1;
         record.exit_code = 93;
         record.pod = "smoke-c0de-3-1";
         record.node = "node-1";
         status.attempts_without_progress = 2;
         expect_phase(status, Phase::failed, "DoNotRestart", final_words);
         status.completion_time = later;
         expect_over(status, "JobEnded");
         expect_condition(status, condition_failed, true, "DoNotRestart", final_words);
       },
       told_that("DoNotRestart", final_words)},
      {"an edit before avoided nodes", group_forming().with(edit_spec).with(find_no_room).with(wait_a_minute), true,
       forms_anew_because(Cause::spec_changed, "the spec was changed while the group formed")},
  };
  for (const DecisionCase& row : rows) expect_decision(row, decide);
}

}  // namespace
}  // namespace trainyard::plan
