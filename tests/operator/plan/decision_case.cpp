#include "tests/operator/plan/decision_case.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "operator/plan/conditions.hpp"
#include "tests/builders/action_words.hpp"

namespace trainyard::plan {
namespace {

using api::Cause;
using api::RequestState;
using api::TrainingJobStatus;
using builders::later;
using builders::start;
using namespace std::chrono_literals;

api::Condition* find_condition(TrainingJobStatus& status, std::string_view type) {
  const auto found = std::ranges::find(status.conditions, type, &api::Condition::type);
  return found == status.conditions.end() ? nullptr : &*found;
}

void expect_cleared(TrainingJobStatus& status, std::string_view type, std::string reason) {
  const api::Condition* condition = find_condition(status, type);
  if (condition != nullptr && condition->is_true) expect_condition(status, type, false, std::move(reason));
}

}  // namespace

void expect_decision(const DecisionCase& row, const Policy& policy) {
  Draft draft{.status = row.observed.job.status};
  const bool is_decided = policy(row.observed, members_of(row.observed), row.now, draft);
  EXPECT_EQ(is_decided, row.is_decided) << row.sentence;
  TrainingJobStatus expected = row.observed.job.status;
  row.change(expected);
  EXPECT_EQ(api::to_json(draft.status).dump(1), api::to_json(expected).dump(1)) << row.sentence;
  EXPECT_TRUE(draft.status == expected) << row.sentence;  // Compares times to the millisecond.
  std::vector<std::string> notes;
  for (const Event& event : draft.events) notes.push_back(event.reason + ": " + event.note);
  EXPECT_EQ(draft.events, row.events) << row.sentence << ", with the events " << testing::PrintToString(notes);
  EXPECT_EQ(draft.requeue_after, row.requeue_after) << row.sentence;
  EXPECT_EQ(draft.pods_believed_gone, row.pods_believed_gone) << row.sentence;
  EXPECT_EQ(builders::words_of(draft.actions), row.actions) << row.sentence;
}

builders::ObservedBuilder after_a_life(const builders::JobBuilder& job) {
  builders::JobBuilder edited = job;
  return builders::an_observed(edited.generation(4)).attempt(3).with([](Observed& observed) {
    observed.pods.front().request_token = "token";
    TrainingJobStatus& status = observed.job.status;
    status.message = "rank 0 reads its data";
    status.step_text = "512/900";
    status.restart_count = 2;
    status.progress =
        api::Progress{.epoch = 1, .step = 512, .total_steps = 900, .loss = 0.5, .estimated_end = start + 60s};
    status.checkpoint = api::CheckpointStatus{.step = 500, .uri = "s3://m/step-500/g-2", .time = start};
    status.checkpoint_request = api::CheckpointRequest{
        .id = "lunch", .state = RequestState::done, .step = 500, .time = start, .message = "saved"};
    status.suspend_request = api::CheckpointRequest{
        .id = "suspend-2", .state = RequestState::done, .step = 300, .time = start - 1h, .message = "saved"};
    status.restarts = {.application = 1, .infrastructure = 1};
    status.attempts_without_progress = 1;
    status.restart_not_before = start;
    status.avoided_nodes = {"node-9"};
    status.start_time = start - 2h;
    status.attempts = {{.number = 2, .start = start - 1h, .end = start, .cause = Cause::application, .rank = 1},
                       {.number = 3, .start = start}};
    for (const std::string_view type :
         {condition_training, condition_spec_pending, condition_progress_unavailable, condition_checkpoint_failing}) {
      status.conditions.push_back({.type = std::string{type},
                                   .is_true = true,
                                   .reason = "Before",
                                   .message = "as it was",
                                   .last_transition = start,
                                   .observed_generation = 3});
    }
  });
}

void expect_condition(TrainingJobStatus& status, std::string_view type, bool is_true, std::string reason,
                      std::string message, Time at) {
  api::Condition expected{.type = std::string{type},
                          .is_true = is_true,
                          .reason = std::move(reason),
                          .message = std::move(message),
                          .last_transition = at,
                          .observed_generation = status.observed_generation};
  api::Condition* condition = find_condition(status, type);
  if (condition == nullptr) {
    status.conditions.push_back(std::move(expected));
  } else {
    *condition = std::move(expected);
  }
}

void expect_next_attempt(TrainingJobStatus& status, std::int64_t number) {
  status.attempt = number;
  status.attempt_generation = status.observed_generation;
  status.is_formed = false;
  status.succeeded_ranks = {};
  status.replicas = {.desired = 2, .pending = 2};
  status.ready = "0/2";
  status.worker_image = "trainyard-worker:cpu";
  if (!status.start_time) status.start_time = later;
  status.attempts.push_back({.number = number, .start = later});
  expect_cleared(status, condition_training, "AttemptEnded");
  expect_cleared(status, condition_progress_unavailable, "AttemptEnded");
  expect_cleared(status, condition_suspended, "Resumed");
  expect_cleared(status, condition_spec_pending, "Applied");
}

void expect_attempt_ended(TrainingJobStatus& status, std::optional<Cause> cause, std::string message) {
  api::AttemptRecord& record = status.attempts.back();
  record.end = later;
  record.cause = cause;
  record.message = std::move(message);
}

void expect_over(TrainingJobStatus& status, std::string reason) {
  status.restart_not_before = {};
  if (status.progress) status.progress->estimated_end = {};
  status.replicas.ready = 0;
  status.replicas.pending = 0;
  status.ready = "0/2";
  expect_cleared(status, condition_training, reason);
  expect_cleared(status, condition_spec_pending, reason);
  expect_cleared(status, condition_progress_unavailable, reason);
}

void expect_phase(TrainingJobStatus& status, api::Phase phase, std::string reason, std::string message) {
  status.phase = phase;
  status.reason = std::move(reason);
  status.message = std::move(message);
}

}  // namespace trainyard::plan
