#include "operator/plan/suspension.hpp"

#include <gtest/gtest.h>

#include "operator/plan/conditions.hpp"
#include "tests/operator/plan/decision_case.hpp"

namespace trainyard::plan {
namespace {

using api::Cause;
using api::CheckpointRequest;
using api::Phase;
using api::RequestState;
using api::TrainingJobStatus;
using builders::a_job;
using builders::later;
using builders::ObservedBuilder;
using builders::start;
using namespace std::chrono_literals;

const std::string true_words = "spec.suspend is true";
const std::string by_signal = "spec.suspend is true: pods are asked to save and stop";
const std::string asked_words =
    "spec.suspend is true: the ranks are asked for a checkpoint before their pods are deleted";

constexpr auto without_token = [](Observed& observed) { observed.pods.at(0).request_token.clear(); };

builders::JobBuilder suspended_job() {
  return a_job().checkpoint().suspended();
}

/// The user has just set spec.suspend.
ObservedBuilder to_be_suspended(const builders::JobBuilder& job = suspended_job()) {
  return after_a_life(job);
}

std::optional<CheckpointRequest> asked_by_suspension(Time at = later) {
  return CheckpointRequest{.id = "suspend-4", .time = at};
}

std::optional<CheckpointRequest> answered(RequestState state, std::string message) {
  return CheckpointRequest{
      .id = "suspend-4", .state = state, .step = 512, .time = start + 8s, .message = std::move(message)};
}

/// The attempt has ended with the suspension, which waits for its pods.
ObservedBuilder suspending(const std::optional<CheckpointRequest>& request, bool is_still_wanted = true) {
  return after_a_life(suspended_job().suspended(is_still_wanted)).with([&](Observed& observed) {
    TrainingJobStatus& status = observed.job.status;
    expect_attempt_ended(status, Cause::suspended, true_words);
    expect_phase(status, Phase::suspending, "Suspended", "as it was");
    status.suspend_request = request;
    status.restart_not_before.reset();
    expect_condition(status, condition_training, false, "Suspended", "", start);
  });
}

/// No pod runs any more.
ObservedBuilder suspended(bool is_still_wanted) {
  return suspending(answered(RequestState::done, "saved"), is_still_wanted).with([](Observed& observed) {
    observed.pods.clear();
    TrainingJobStatus& status = observed.job.status;
    expect_phase(status, Phase::suspended, "Suspended", true_words);
    status.start_time.reset();
    expect_condition(status, condition_suspended, true, "Suspended", true_words, start);
  });
}

DecisionCase::Change begins_to_suspend(const std::optional<CheckpointRequest>& request, const std::string& message) {
  return [=](TrainingJobStatus& status) {
    expect_attempt_ended(status, Cause::suspended, true_words);
    expect_phase(status, Phase::suspending, "Suspended", message);
    status.suspend_request = request;
    status.restart_not_before.reset();
    expect_condition(status, condition_training, false, "Suspended");
  };
}

const std::vector<Event> told_suspended{{.reason = "Suspended", .note = "spec.suspend is true and no pod runs"}};

void is_suspended_now(TrainingJobStatus& status) {
  expect_phase(status, Phase::suspended, "Suspended", true_words);
  status.start_time.reset();
  expect_condition(status, condition_suspended, true, "Suspended", true_words);
}

DecisionCase::Change says(const std::string& message) {
  return [=](TrainingJobStatus& status) { status.message = message; };
}

TEST(DecideSuspension, BeginsOnceTheSpecAsksForIt) {
  const std::vector<DecisionCase> rows{
      {"nobody asks for it", after_a_life(), false},
      {"ranks that train and can save are asked first", to_be_suspended(), true,
       begins_to_suspend(asked_by_suspension(), asked_words)},
      {"those whose policy is to signal are not, and an earlier suspension's answer is forgotten",
       to_be_suspended().with(
           [](Observed& observed) { observed.job.spec.checkpoint->on_suspend = api::OnSuspend::signal; }),
       true, begins_to_suspend({}, by_signal)},
      {"nor are those that save nowhere",
       to_be_suspended().with([](Observed& observed) { observed.job.spec.checkpoint.reset(); }), true,
       begins_to_suspend({}, by_signal)},
      {"nor those that do not train yet", to_be_suspended().with([](Observed& observed) {
         expect_condition(observed.job.status, condition_training, false, "AttemptEnded", "", start);
       }),
       true,
       [](TrainingJobStatus& status) {
         begins_to_suspend({}, by_signal)(status);
         expect_condition(status, condition_training, false, "AttemptEnded", "", start);
       }},
      {"nor pods that take no requests", to_be_suspended().with(without_token), true, begins_to_suspend({}, by_signal)},
      {"nor a rank 0 that has ended", to_be_suspended().ended(0, 0), true, begins_to_suspend({}, by_signal)},
      {"nor a rank 0 that goes", to_be_suspended().leaving(0), true, begins_to_suspend({}, by_signal)},
      {"a job that never began is suspended at once", builders::first_sight(a_job().suspended()), true,
       is_suspended_now, told_suspended},
  };
  for (const DecisionCase& row : rows) expect_decision(row, decide_suspension);
}

TEST(DecideSuspension, WaitsForThePodsAndSaysWhatFor) {
  const auto saved = answered(RequestState::done, "saved");
  const auto failed = answered(RequestState::failed, "no space");
  const auto is_over = [](TrainingJobStatus& status) { is_suspended_now(status); };
  const std::vector<DecisionCase> rows{
      {"for nobody's answer", suspending({}), false, says(by_signal)},
      {"for rank 0's answer", suspending(asked_by_suspension(start + 6s)), false, says(asked_words)},
      {"for as long as that may still come", suspending(asked_by_suspension(start + 5s + 1ms)), false,
       says(asked_words)},
      {"no longer than five seconds where rank 0 takes no notice", suspending(asked_by_suspension(start + 5s)), false,
       says(by_signal)},
      {"for nothing more from a rank 0 that has ended", suspending(asked_by_suspension()).ended(0, 91), false,
       says(by_signal)},
      {"until the ranks that have saved end", suspending(saved), false,
       says("spec.suspend is true: step 512 is saved, the pods end")},
      {"for a signal's effect where the save failed", suspending(failed), false,
       says(by_signal + ", since no checkpoint was made on request: no space")},
      {"saying no more than a status holds", suspending(answered(RequestState::failed, std::string(2'000, 'x'))), false,
       says("... " + std::string(1'020, 'x'))},
      {"for one pod of two", suspending({}).ended(0, 91), false, says(by_signal)},
      {"for a pod of another attempt", suspending({}).missing(0).missing(1).with([](Observed& observed) {
         observed.pods.push_back(builders::a_pod(observed.job, 2, 1));
       }),
       false, says(by_signal)},
      {"for no pod that has ended", suspending(saved).ended(0, 91).ended(1, 91), true, is_over, told_suspended},
      {"for no pod that is gone", suspending(saved).missing(0).missing(1), true, is_over, told_suspended},
      {"for no pod on a lost node", suspending(saved).ended(0, 91).on_lost_node(1), true, is_over, told_suspended},
      {"and gives up an answer that cannot come any more", suspending(asked_by_suspension()).ended(0, 91).ended(1, 91),
       true,
       [](TrainingJobStatus& status) {
         is_suspended_now(status);
         status.suspend_request->state = RequestState::failed;
         status.suspend_request->message = "the pods ended without an answer";
         status.suspend_request->time = later;
       },
       told_suspended},
  };
  for (const DecisionCase& row : rows) expect_decision(row, decide_suspension);
}

TEST(DecideSuspension, ResumesWithANewAttempt) {
  const auto begins_anew = [](TrainingJobStatus& status) {
    status.start_time.reset();
    expect_next_attempt(status, 4);
    expect_phase(status, Phase::starting);
  };
  const std::vector<DecisionCase> rows{
      {"a suspended job stays so while the spec asks for it", suspended(true), false},
      {"it resumes when the spec does not", suspended(false), true, begins_anew},
      {"also one that was suspended in its first attempt", suspended(false).with([](Observed& observed) {
         observed.job.status.attempt = 1;
         observed.job.status.attempts.back().number = 1;
       }),
       true,
       [](TrainingJobStatus& status) {
         status.start_time.reset();
         expect_next_attempt(status, 2);
         expect_phase(status, Phase::starting);
       }},
      {"so it does before its pods have ended, and keeps the answer that came",
       suspending(answered(RequestState::done, "saved"), false), true, begins_anew},
      {"an answer that has not come is given up", suspending(asked_by_suspension(start + 6s), false), true,
       [=](TrainingJobStatus& status) {
         begins_anew(status);
         status.suspend_request->state = RequestState::failed;
         status.suspend_request->message = "the job was resumed before there was an answer";
         status.suspend_request->time = later;
       }},
      {"one that never began waits for its first attempt", ObservedBuilder{a_job()}.with([](Observed& observed) {
         observed = builders::first_sight();
         TrainingJobStatus& status = observed.job.status;
         expect_phase(status, Phase::suspended, "Suspended", true_words);
         expect_condition(status, condition_suspended, true, "Suspended", true_words, start);
       }),
       true,
       [](TrainingJobStatus& status) {
         expect_phase(status, Phase::pending);
         expect_condition(status, condition_suspended, false, "Resumed");
       }},
  };
  for (const DecisionCase& row : rows) expect_decision(row, decide_suspension);
}

TEST(TimeLeftToSave, IsFiveSecondsForAnAnswerAndTheGracePeriodForTheSave) {
  struct Row {
    std::string sentence;
    Observed observed;
    std::chrono::milliseconds left;
  };
  const auto reporting = [](std::int64_t attempt, const std::string& id) {
    return suspending(asked_by_suspension(start + 6s)).with([&](Observed& observed) {
      observed.progress = ProgressReport{.attempt = attempt, .requests = {{.id = "other"}, {.id = id}}};
    });
  };
  const std::vector<Row> rows{
      {"a request that nobody has taken", suspending(asked_by_suspension(start + 6s)), 1s},
      {"one that was not taken in time", suspending(asked_by_suspension(start + 4s)), 0s},
      {"one that is taken has the pods' grace period", reporting(3, "suspend-4"), 116s},
      {"another attempt's word is none", reporting(2, "suspend-4"), 1s},
      {"nor is the word about other requests", reporting(3, "suspend-3"), 1s},
      {"the template's grace period is the limit", reporting(3, "suspend-4").with([](Observed& observed) {
         observed.job.spec.pod_template = {{"spec", {{"terminationGracePeriodSeconds", 20}}}};
       }),
       16s},
      {"ranks that have saved end by themselves", suspending(answered(RequestState::done, "saved")), 118s},
      {"even where rank 0 has ended first", suspending(answered(RequestState::done, "saved")).ended(0, 91), 118s},
      {"nothing is waited for after a failure", suspending(answered(RequestState::failed, "no space")), 0s},
      {"nor where nobody was asked", suspending({}), 0s},
      {"nor of a rank 0 that is gone", suspending(asked_by_suspension(start + 6s)).missing(0), 0s},
      {"nor of one that takes no requests", suspending(asked_by_suspension(start + 6s)).with(without_token), 0s},
      {"nor of a request whose time is not known", suspending(CheckpointRequest{.id = "suspend-4"}), 0s},
      {"nor once the job is suspended", suspended(true), 0s},
      {"nor of a request that an earlier suspension left behind",
       after_a_life().with([](Observed& observed) { observed.job.status.suspend_request = asked_by_suspension(); }),
       0s},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(time_left_to_save(row.observed.job.status, row.observed, members_of(row.observed), later), row.left)
        << row.sentence;
  }
}

}  // namespace
}  // namespace trainyard::plan
