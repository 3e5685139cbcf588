#include "operator/plan/refused_status.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "api/validation/validate.hpp"
#include "operator/plan/conditions.hpp"
#include "operator/plan/plan.hpp"
#include "tests/builders/an_observed.hpp"

namespace trainyard::plan {
namespace {

using api::TrainingJobStatus;
using builders::a_job;
using builders::an_observed;
using builders::later;
using builders::start;
using namespace std::chrono_literals;

/// A status that has every text and measurement which the server may refuse.
TrainingJobStatus a_full_status() {
  TrainingJobStatus status = an_observed(a_job().checkpoint()).attempt(4).build().job.status;
  const std::string text(40'000, 'x');
  status.reason = "Deleted";
  status.message = text;
  status.step_text = text;
  status.restart_count = 3;
  status.restarts = {.application = 1, .infrastructure = 2};
  status.attempts_without_progress = 1;
  status.restart_not_before = later;
  status.succeeded_ranks = {1};
  status.progress = api::Progress{.step = 7};
  status.checkpoint = api::CheckpointStatus{.step = 50, .uri = text, .time = start};
  status.checkpoint_request = api::CheckpointRequest{.id = "r1", .uri = text, .time = start, .message = text};
  status.suspend_request = api::CheckpointRequest{
      .id = "suspend-2", .state = api::RequestState::done, .step = 50, .uri = text, .time = start, .message = text};
  status.avoided_nodes = {text};
  status.attempts[0].cause = api::Cause::deleted;
  status.attempts[0].node = text;
  status.attempts[0].pod = "smoke-c0de-4-0";
  status.attempts[0].message = text;
  status.conditions = {{.type = "CheckpointFailing", .is_true = true, .reason = "SaveFailed", .message = text}};
  return status;
}

TEST(StatusDespiteRefusal, KeepsDecisionsAndCountersAndNoText) {
  const TrainingJobStatus wanted = a_full_status();
  ASSERT_FALSE(api::validate_status(api::to_json(wanted)).empty());
  const TrainingJobStatus written = status_despite_refusal(wanted, {}, "status.message: Too long", later);
  EXPECT_TRUE(api::validate_status(api::to_json(written)).empty());
  EXPECT_EQ(written.phase, wanted.phase);
  EXPECT_EQ(written.reason, wanted.reason);
  EXPECT_EQ(written.attempt, wanted.attempt);
  EXPECT_EQ(written.is_formed, wanted.is_formed);
  EXPECT_EQ(written.succeeded_ranks, wanted.succeeded_ranks);
  EXPECT_EQ(written.restart_count, wanted.restart_count);
  EXPECT_EQ(written.restarts, wanted.restarts);
  EXPECT_EQ(written.attempts_without_progress, wanted.attempts_without_progress);
  EXPECT_EQ(written.restart_not_before, wanted.restart_not_before);
  EXPECT_EQ(written.worker_image, wanted.worker_image);
  EXPECT_EQ(written.checkpoint->step, 50) << "the same step once more is no progress";
  EXPECT_EQ(written.checkpoint_request, (api::CheckpointRequest{.id = "r1", .time = start}));
  EXPECT_EQ(written.suspend_request,
            (api::CheckpointRequest{.id = "suspend-2", .state = api::RequestState::done, .step = 50, .time = start}));
  EXPECT_FALSE(written.progress);
  EXPECT_EQ(written.attempts[0].pod, "smoke-c0de-4-0");
  EXPECT_TRUE(is_condition_true(written, condition_checkpoint_failing));
  EXPECT_TRUE(is_condition_true(written, condition_status_refused));
  EXPECT_NE(written.conditions.back().message.find("status.message: Too long"), std::string::npos);
}

TEST(StatusDespiteRefusal, MakesUpNothingThatWasNotThere) {
  TrainingJobStatus wanted = an_observed().build().job.status;
  wanted.avoided_nodes = {"node-1"};
  TrainingJobStatus stored = wanted;
  stored.avoided_nodes = {"node-2"};
  TrainingJobStatus expected = wanted;
  expected.avoided_nodes = {"node-2"};
  expected.conditions.push_back({.type = std::string{condition_status_refused},
                                 .is_true = true,
                                 .reason = "Invalid",
                                 .message = "the API server refused the whole status, so only decisions and counters "
                                            "are stored: Too long",
                                 .last_transition = later,
                                 .observed_generation = 1});
  EXPECT_EQ(status_despite_refusal(wanted, stored, "Too long", later), expected);
}

TEST(StatusDespiteRefusal, IsTheSameWhenTheSameIsRefusedAgain) {
  const TrainingJobStatus first = status_despite_refusal(a_full_status(), {}, "Too long", later);
  // The next plan is made from what is stored, and tries the whole status again.
  TrainingJobStatus wanted = a_full_status();
  wanted.conditions = first.conditions;
  wanted.conditions[0].message = "fails";
  clear_condition(wanted, condition_status_refused, "Accepted", later + 60s);
  EXPECT_EQ(api::to_json(status_despite_refusal(wanted, first, "Too long", later + 60s)), api::to_json(first));
}

TEST(StatusDespiteRefusal, BoundsTheRefusal) {
  const auto written = status_despite_refusal(a_full_status(), {}, std::string(100'000, 'x'), later);
  EXPECT_TRUE(api::validate_status(api::to_json(written)).empty());
}

TEST(MakePlan, TakesStatusRefusedBackWithEachWholeStatus) {
  const auto observed = an_observed().with([](Observed& changed) {
    raise_condition(changed.job.status, condition_status_refused, "Invalid", "Too long", start);
  });
  const Plan plan = make_plan(observed, later);
  ASSERT_TRUE(plan.status);
  EXPECT_FALSE(is_condition_true(*plan.status, condition_status_refused));
}

}  // namespace
}  // namespace trainyard::plan
