#include "operator/plan/transition.hpp"

#include <gtest/gtest.h>

#include "operator/plan/conditions.hpp"
#include "tests/operator/plan/decision_case.hpp"

namespace trainyard::plan {
namespace {

using api::Cause;
using api::Phase;
using api::TrainingJobStatus;
using builders::a_job;
using builders::later;
using builders::start;

/// As after_a_life(), with every field set that an attempt may set.
Observed a_marked_job(const builders::JobBuilder& job = a_job().checkpoint()) {
  return after_a_life(job).with([](Observed& observed) {
    TrainingJobStatus& status = observed.job.status;
    status.succeeded_ranks = {0, 1};
    status.attempt_generation = 3;
    expect_condition(status, condition_suspended, true, "Before", "as it was", start);
  });
}

void expect_status(const TrainingJobStatus& status, const TrainingJobStatus& expected, const std::string& sentence) {
  EXPECT_EQ(api::to_json(status).dump(1), api::to_json(expected).dump(1)) << sentence;
  EXPECT_TRUE(status == expected) << sentence;
}

TEST(BeginAttempt, ForgetsTheLastAttemptAndKeepsTheJobsHistory) {
  struct Row {
    std::string sentence;
    Observed observed;
    DecisionCase::Change change = [](TrainingJobStatus&) {};  ///< Beside the next attempt.
  };
  const auto ten_attempts = [](Observed observed) {
    observed.job.status.attempts.clear();
    for (std::int64_t number = -6; number <= 3; ++number) {
      observed.job.status.attempts.push_back({.number = number, .start = start});
    }
    return observed;
  };
  const auto nine_attempts = [&](Observed observed) {
    observed = ten_attempts(observed);
    observed.job.status.attempts.erase(observed.job.status.attempts.begin());
    return observed;
  };
  const auto unstarted = [](Observed observed) {
    observed.job.status.start_time.reset();
    return observed;
  };
  const std::vector<Row> rows{
      {"the start stays", a_marked_job()},
      {"a resumed job starts again", unstarted(a_marked_job())},
      {"the oldest of ten records goes", ten_attempts(a_marked_job()),
       [](TrainingJobStatus& status) { status.attempts.erase(status.attempts.begin()); }},
      {"ten records are kept", nine_attempts(a_marked_job())},
      {"the image is the installed release's for GPUs", a_marked_job(a_job().gpus_per_pod(1)),
       [](TrainingJobStatus& status) { status.worker_image = "trainyard-worker:cuda"; }},
      {"no image of ours is used beside the user's", a_marked_job(a_job().container()),
       [](TrainingJobStatus& status) { status.worker_image.clear(); }},
  };
  for (const Row& row : rows) {
    TrainingJobStatus status = row.observed.job.status;
    TrainingJobStatus expected = status;
    begin_attempt(status, row.observed, later);
    expect_next_attempt(expected, 4);
    row.change(expected);
    expect_status(status, expected, row.sentence);
  }
}

TEST(EndAttempt, ClosesTheOpenRecordOfTheCurrentAttemptAlone) {
  const AttemptEnd end{.cause = Cause::deleted,
                       .pod_index = 1,
                       .pod = "smoke-c0de-3-1",
                       .node = "node-1",
                       .exit_code = 137,
                       .message = std::string(2'000, 'x')};
  const std::string cut = "... " + std::string(1'020, 'x');
  const TrainingJobStatus open = a_marked_job().job.status;
  TrainingJobStatus status = open;
  TrainingJobStatus expected = open;
  end_attempt(status, end, later);
  expected.attempts.back() = {.number = 3,
                              .start = start,
                              .end = later,
                              .cause = Cause::deleted,
                              .rank = 1,
                              .pod = "smoke-c0de-3-1",
                              .node = "node-1",
                              .exit_code = 137,
                              .message = cut};
  expect_status(status, expected, "of one that was lost");

  status = expected = open;
  end_attempt(status, std::string(2'000, 'x'), later);
  expected.attempts.back() = {.number = 3, .start = start, .end = later, .message = cut};
  expect_status(status, expected, "of one that nobody is blamed for");

  const std::vector<std::pair<std::string, DecisionCase::Change>> rows{
      {"it is closed", [](TrainingJobStatus& changed) { changed.attempts.back().end = start; }},
      {"it is another attempt's", [](TrainingJobStatus& changed) { changed.attempts.back().number = 2; }},
      {"there is none", [](TrainingJobStatus& changed) { changed.attempts.clear(); }},
  };
  for (const auto& [sentence, change] : rows) {
    TrainingJobStatus stored = open;
    change(stored);
    for (const bool is_lost : {true, false}) {
      status = stored;
      is_lost ? end_attempt(status, end, later) : end_attempt(status, "it ended", later);
      expect_status(status, stored, sentence);
    }
  }
}

TEST(PreviousAttempt, IsTheRecordOfTheOneBefore) {
  TrainingJobStatus status = a_marked_job().job.status;
  ASSERT_NE(previous_attempt(status), nullptr);
  EXPECT_EQ(previous_attempt(status)->number, 2);
  status.attempt = 5;
  EXPECT_EQ(previous_attempt(status), nullptr);
}

TEST(IsActive, IsAJobWhosePodsAreWantedAndIsFinishedOneThatHasEnded) {
  const std::vector<Phase> active{Phase::pending, Phase::starting, Phase::running, Phase::restarting};
  const std::vector<Phase> inactive{Phase::none, Phase::suspending, Phase::suspended, Phase::deleting};
  const std::vector<Phase> finished{Phase::succeeded, Phase::failed};
  const auto with_phase = [](Phase phase, std::int64_t attempt) {
    TrainingJobStatus status;
    status.phase = phase;
    status.attempt = attempt;
    return status;
  };
  for (const auto& phases : {active, inactive, finished}) {
    for (const Phase phase : phases) {
      EXPECT_EQ(is_active(with_phase(phase, 1)), phases == active) << to_string(phase);
      EXPECT_FALSE(is_active(with_phase(phase, 0))) << to_string(phase);
      EXPECT_EQ(is_finished(with_phase(phase, 1)), phases == finished) << to_string(phase);
    }
  }
}

TEST(ClearRunningState, ClearsWhatOnlyARunningJobHas) {
  TrainingJobStatus status = a_marked_job().job.status;
  status.replicas = {.desired = 2, .ready = 1, .pending = 1, .succeeded = 3, .failed = 4};
  TrainingJobStatus expected = status;
  clear_running_state(status, "Deleted", later);
  expect_over(expected, "Deleted");
  expect_status(status, expected, "with progress");

  status.progress.reset();
  expected = status;
  clear_running_state(status, "Deleted", later + std::chrono::seconds{1});
  expect_status(status, expected, "without, and once more");
}

}  // namespace
}  // namespace trainyard::plan
