#include "operator/plan/progress.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "operator/plan/conditions.hpp"
#include "operator/plan/plan.hpp"
#include "tests/builders/an_observed.hpp"

namespace trainyard::plan {
namespace {

using api::Phase;
using builders::a_job;
using builders::an_observed;
using builders::later;
using builders::start;
using namespace std::chrono_literals;

constexpr const char* last_words =
    R"({"reason":"Completed","exitCode":0,"rank":0,"message":"trained 900 steps","progress":)"
    R"({"phase":"Done","epoch":3,"step":900,"totalSteps":900,"loss":0.3123456789,)"
    R"("accuracy":0.9,"samplesPerSecond":2400,"checkpoint":)"
    R"({"step":900,"uri":"s3://m/step-900/g-1","time":"2026-01-01T00:00:00Z","bytes":7,"durationSeconds":1.23456789}}})";

ProgressReport polled(std::int64_t step) {
  return {.attempt = 1, .epoch = 1, .step = step, .total_steps = 900, .loss = 0.5, .estimated_end = later + 60s};
}

api::TrainingJobStatus status_after(const Observed& observed) {
  return make_plan(observed, later).status.value_or(observed.job.status);
}

TEST(TakeReports, KeepsWhatWasPolledLast) {
  const auto status = status_after(an_observed().with([](Observed& observed) { observed.progress = polled(512); }));
  EXPECT_EQ(status.progress,
            (api::Progress{.epoch = 1, .step = 512, .total_steps = 900, .loss = 0.5, .estimated_end = later + 60s}));
  EXPECT_EQ(status.step_text, "512/900");
  EXPECT_TRUE(is_condition_true(status, condition_training));
}

/// A job whose status has step 500 since `written`, while rank 0 reports step 512.
Observed advanced(Time written) {
  Observed observed = an_observed(a_job().checkpoint()).with([](Observed& changed) { changed.progress = polled(500); });
  observed.job.status = status_after(observed);
  observed.status_written = written;
  observed.progress = polled(512);
  return observed;
}

TEST(TakeReports, GivesBudgetsBackForALaterCheckpointAndNotForTheSameOneAgain) {
  struct Row {
    std::int64_t saved_step;
    std::int64_t charged;
  };
  for (const Row& row : {Row{49, 2}, Row{50, 2}, Row{51, 0}}) {
    const auto status = status_after(an_observed(a_job().checkpoint()).with([&](Observed& observed) {
      observed.job.status.checkpoint = api::CheckpointStatus{.step = 50};
      observed.job.status.restarts.infrastructure = 2;
      observed.job.status.attempts_without_progress = 2;
      observed.progress = polled(row.saved_step);
      observed.progress->checkpoint = api::CheckpointStatus{.step = row.saved_step};
    }));
    EXPECT_EQ(status.restarts.infrastructure, row.charged) << "step " << row.saved_step;
    EXPECT_EQ(status.attempts_without_progress, row.charged) << "step " << row.saved_step;
  }
}

TEST(TakeReports, GivesBudgetsBackForTheFirstCheckpointWhateverItsStep) {
  const auto status = status_after(an_observed(a_job().checkpoint()).with([](Observed& observed) {
    observed.job.status.restarts.infrastructure = 2;
    observed.progress = polled(1);
    observed.progress->checkpoint = api::CheckpointStatus{.step = 1};
  }));
  EXPECT_EQ(status.restarts.infrastructure, 0);
}

TEST(TakeReports, ShowsTheStepAloneWhereNobodyKnowsTheTotal) {
  const auto status = status_after(
      an_observed().with([](Observed& observed) { observed.progress = ProgressReport{.attempt = 1, .step = 512}; }));
  EXPECT_EQ(status.step_text, "512");
  EXPECT_EQ(status.progress, (api::Progress{.step = 512}));
}

TEST(TakeReports, WritesMereProgressSeldomAndNewsAtOnce) {
  const Plan kept_back = make_plan(advanced(later), later + 4s);
  EXPECT_FALSE(kept_back.status);
  EXPECT_EQ(kept_back.requeue_after, 6s);
  EXPECT_EQ(make_plan(advanced(later), later + 10s).status->progress->step, 512);

  Observed with_checkpoint = advanced(later);
  with_checkpoint.progress->checkpoint = api::CheckpointStatus{.step = 512};
  EXPECT_EQ(make_plan(with_checkpoint, later + 4s).status->progress->step, 512);

  Observed lost = advanced(later);
  lost.pods.pop_back();
  EXPECT_EQ(make_plan(lost, later + 4s).status->progress->step, 512);

  Observed of_another_leader = advanced(later);
  of_another_leader.status_written.reset();
  EXPECT_EQ(make_plan(of_another_leader, later + 4s).status->progress->step, 512);
}

TEST(TakeReports, MovesTheEndWithTheStepsAndByWholeIntervals) {
  Observed observed = an_observed().with([](Observed& changed) {
    changed.progress = polled(512);
    changed.progress->estimated_end = start + 64s;
  });
  const auto end_after = [&] { return status_after(observed).progress->estimated_end; };
  EXPECT_EQ(end_after(), start + 60s);
  observed.job.status = status_after(observed);
  observed.progress->estimated_end = start + 66s;
  EXPECT_EQ(end_after(), start + 60s) << "no step was done";
  EXPECT_FALSE(make_plan(observed, later + 1h).status);
  observed.progress->step = 513;
  EXPECT_EQ(end_after(), start + 70s);
}

TEST(TakeReports, SaysOnceThatTheLossIsNotFinite) {
  Observed observed = an_observed().with([](Observed& changed) {
    changed.progress = polled(512);
    changed.progress->loss = std::nan("");
  });
  observed.job.status = status_after(observed);
  const auto conditions = observed.job.status.conditions;
  observed.progress->step = 513;
  EXPECT_EQ(status_after(observed).conditions, conditions);
}

TEST(TakeReports, SaysThatCheckpointsFailUntilOneSucceeds) {
  Observed observed = an_observed(a_job().checkpoint()).with([](Observed& changed) {
    changed.progress = polled(512);
    changed.progress->checkpoint_error = "rank 1: the bucket is away";
  });
  observed.job.status = status_after(observed);
  ASSERT_TRUE(is_condition_true(observed.job.status, condition_checkpoint_failing));
  const auto failing = [](const api::TrainingJobStatus& status) {
    return *std::ranges::find(status.conditions, condition_checkpoint_failing, &api::Condition::type);
  };
  EXPECT_EQ(failing(observed.job.status).reason, "SaveFailed");
  EXPECT_EQ(failing(observed.job.status).message, "rank 1: the bucket is away");
  observed.progress->checkpoint_error.clear();
  const api::TrainingJobStatus saved = status_after(observed);
  EXPECT_FALSE(is_condition_true(saved, condition_checkpoint_failing));
  EXPECT_EQ(failing(saved).reason, "NoneFailed");
}

TEST(TakeReports, IgnoresAnotherAttemptsReport) {
  const auto status = status_after(an_observed().with([](Observed& observed) {
    observed.progress = polled(512);
    observed.progress->attempt = 2;
  }));
  EXPECT_FALSE(status.progress);
}

TEST(TakeReports, EndsWithWhatRankZeroWroteLastAndNotWithTheLastPoll) {
  const auto status =
      status_after(an_observed(a_job().checkpoint()).ended(0, 0, last_words).ended(1, 0).with([](Observed& observed) {
        observed.progress = polled(512);
      }));
  EXPECT_EQ(status.phase, Phase::succeeded);
  EXPECT_EQ(status.progress, (api::Progress{.epoch = 3,
                                            .step = 900,
                                            .total_steps = 900,
                                            .loss = 0.312346,
                                            .accuracy = 0.9,
                                            .samples_per_second = 2400.0,
                                            .estimated_end = {}}));
  EXPECT_EQ(status.step_text, "900/900");
  ASSERT_TRUE(status.checkpoint);
  EXPECT_EQ(status.checkpoint->step, 900);
  EXPECT_EQ(status.checkpoint->uri, "s3://m/step-900/g-1");
  EXPECT_EQ(status.checkpoint->duration_seconds, 1.23457);
}

TEST(TakeReports, TakesACheckpointThatALostRankZeroReportedBeforeItsLossIsCharged) {
  const auto observed = an_observed(a_job().checkpoint()).ended(0, 1, last_words).with([](Observed& changed) {
    changed.job.status.attempts_without_progress = 2;
  });
  const auto status = status_after(observed);
  EXPECT_EQ(status.phase, Phase::restarting);
  EXPECT_EQ(status.checkpoint->step, 900);
}

TEST(TakeReports, TakesWhatIsSavedWhileTheJobIsBeingSuspended) {
  const auto status = status_after(
      an_observed(a_job().checkpoint().suspended()).phase(Phase::suspending, "Suspended").ended(0, 91, last_words));
  ASSERT_TRUE(status.checkpoint);
  EXPECT_EQ(status.checkpoint->step, 900);
}

TEST(TakeReports, RoundsToWhatAColumnHoldsAndLeavesOutWhatIsNotFinite) {
  const auto status = status_after(an_observed().with([](Observed& observed) {
    observed.progress = polled(512);
    observed.progress->loss = std::nan("");
    observed.progress->accuracy = 0.123456789;
    observed.progress->samples_per_second = 12345.678901;
    observed.progress->checkpoint = api::CheckpointStatus{.step = 1, .duration_seconds = HUGE_VAL};
  }));
  EXPECT_FALSE(status.progress->loss);
  EXPECT_EQ(status.progress->accuracy, 0.123457);
  EXPECT_EQ(status.progress->samples_per_second, 12345.7);
  EXPECT_FALSE(status.checkpoint->duration_seconds);
  EXPECT_TRUE(is_condition_true(status, condition_non_finite_loss));
}

TEST(TakeReports, LeavesOutEveryNumberThatIsNotFinite) {
  const auto status = status_after(an_observed().with([](Observed& observed) {
    observed.progress = polled(512);
    observed.progress->accuracy = std::nan("");
    observed.progress->samples_per_second = HUGE_VAL;
  }));
  EXPECT_FALSE(status.progress->accuracy);
  EXPECT_FALSE(status.progress->samples_per_second);
  EXPECT_FALSE(is_condition_true(status, condition_non_finite_loss)) << "the loss is finite";
}

TEST(TakeReports, WritesTheFirstProgressAtOnce) {
  Observed observed = an_observed();
  observed.status_written = later;
  observed.progress = polled(0);
  const Plan plan = make_plan(observed, later + 1s);
  ASSERT_TRUE(plan.status);
  EXPECT_EQ(plan.status->progress->step, 0);
}

TEST(TakeReports, SaysThatRankZeroDoesNotAnswerUntilItDoes) {
  const auto raised = [](const Observed& observed) -> std::optional<api::Condition> {
    api::TrainingJobStatus status = observed.job.status;
    take_reports(status, observed, members_of(observed), later);
    const auto found = std::ranges::find(status.conditions, condition_progress_unavailable, &api::Condition::type);
    return found == status.conditions.end() ? std::nullopt : std::optional{*found};
  };
  const auto silent = [](const builders::JobBuilder& job = a_job()) {
    return an_observed(job).with([](Observed& observed) {
      observed.progress = polled(512);
      observed.progress->unavailable_because = "connection refused";
    });
  };
  const auto before = [](Observed& observed) {
    raise_condition(observed.job.status, condition_progress_unavailable, "Unreachable", "timed out", start);
  };
  api::Condition expected{.type = std::string{condition_progress_unavailable},
                          .is_true = true,
                          .reason = "Unreachable",
                          .message = "connection refused",
                          .last_transition = later,
                          .observed_generation = 1};
  EXPECT_EQ(raised(silent()), expected);
  EXPECT_EQ(raised(silent(a_job().without_training().container())), std::nullopt) << "it need not serve /status";
  EXPECT_EQ(raised(silent().phase(Phase::suspending)), std::nullopt) << "its pods are on their way out";
  expected.last_transition = start;
  EXPECT_EQ(raised(silent().with(before)), expected);
  const Observed answers = an_observed().with(before).with([](Observed& observed) { observed.progress = polled(1); });
  EXPECT_EQ(raised(answers), (api::Condition{.type = std::string{condition_progress_unavailable},
                                             .reason = "Available",
                                             .last_transition = later,
                                             .observed_generation = 1}));
}

TEST(TakeReports, SaysThatTheGroupTrainsOnceItHasDoneAStepInThisAttempt) {
  const auto trains = [](const Observed& observed) {
    api::TrainingJobStatus status = observed.job.status;
    take_reports(status, observed, members_of(observed), later);
    return is_condition_true(status, condition_training);
  };
  const auto reported = [](std::optional<std::int64_t> step) {
    return an_observed().with([=](Observed& observed) {
      observed.job.status.progress = api::Progress{.step = 512};
      observed.progress = ProgressReport{.attempt = 1, .step = step};
    });
  };
  EXPECT_TRUE(trains(reported(1)));
  const auto conditions = status_after(reported(1)).conditions;
  EXPECT_EQ(conditions, (std::vector<api::Condition>{{.type = std::string{condition_training},
                                                      .is_true = true,
                                                      .reason = "FirstStepDone",
                                                      .message = "attempt 1 trains",
                                                      .last_transition = later,
                                                      .observed_generation = 1}}));
  EXPECT_FALSE(trains(reported(0)));
  EXPECT_FALSE(trains(reported({}))) << "step 512 was the attempt's before";
  EXPECT_FALSE(trains(reported(1).phase(Phase::suspending)));
}

TEST(TakeReports, LeavesAJobAloneWhosePodsAreNotWanted) {
  for (const Phase phase : {Phase::suspended, Phase::succeeded, Phase::failed}) {
    const Observed observed = an_observed(a_job().checkpoint()).ended(0, 0, last_words).phase(phase);
    api::TrainingJobStatus status = observed.job.status;
    take_reports(status, observed, members_of(observed), later);
    EXPECT_EQ(status, observed.job.status) << to_string(phase);
  }
}

TEST(TakeReports, SaysInWhichWayTheLossIsNotFiniteAndThatItIsAgain) {
  const auto condition_after = [](std::optional<double> loss, bool is_raised) {
    Observed observed = an_observed().with([&](Observed& changed) {
      if (is_raised) raise_condition(changed.job.status, condition_non_finite_loss, "NaN", "before", start);
      changed.progress = polled(7);
      changed.progress->loss = loss;
    });
    api::TrainingJobStatus status = observed.job.status;
    take_reports(status, observed, members_of(observed), later);
    const auto found = std::ranges::find(status.conditions, condition_non_finite_loss, &api::Condition::type);
    return found == status.conditions.end() ? "" : found->reason + ": " + found->message;
  };
  EXPECT_EQ(condition_after(HUGE_VAL, false), "Infinite: the loss was inf at step 7");
  EXPECT_EQ(condition_after(std::nan(""), false), "NaN: the loss was nan at step 7");
  EXPECT_EQ(condition_after(HUGE_VAL, true), "NaN: before") << "reported once";
  EXPECT_EQ(condition_after(0.5, true), "LossIsFinite: ");
  EXPECT_EQ(condition_after({}, true), "NaN: before") << "nothing was said of the loss";
}

TEST(ReadProgressReport, EstimatesTheEndFromWhatIsLeftUnlessThatIsAbsurd) {
  const auto end = [](const nlohmann::json& eta) { return read_progress_report({{"etaSeconds", eta}}, 1, later); };
  EXPECT_EQ(end(1.5).estimated_end, later + 1500ms);
  EXPECT_EQ(end(0).estimated_end, later);
  EXPECT_FALSE(end(-1).estimated_end);
  EXPECT_FALSE(end(nullptr).estimated_end);
  EXPECT_FALSE(end("1").estimated_end);
  EXPECT_EQ(end(315'360'000).estimated_end, later + 315'360'000s) << "ten years";
  EXPECT_FALSE(end(315'360'001).estimated_end);
  EXPECT_FALSE(end(4e8).estimated_end);
}

TEST(ReadProgressReport, TakesTheTimesOfACheckpointThatAStatusCanHold) {
  const auto time_of = [](const char* time) {
    return read_progress_report({{"checkpoint", {{"step", 1}, {"time", time}}}}, 1, later).checkpoint->time;
  };
  EXPECT_EQ(time_of("1970-01-01T00:00:00Z"), Time{});
  EXPECT_FALSE(time_of("1969-12-31T23:59:59Z"));
  EXPECT_TRUE(time_of("9999-12-30T23:59:59Z"));
  EXPECT_FALSE(time_of("9999-12-31T00:00:00Z"));
}

TEST(ReadProgressReport, ReadsAllThatTheContractNames) {
  const auto report = read_progress_report(nlohmann::json::parse(R"({"epoch": 1, "step": 2, "totalSteps": 3,
      "loss": 0.5, "accuracy": 0.25, "samplesPerSecond": 7.5, "etaSeconds": 60, "checkpointError": "no space",
      "waitingFor": "its data", "checkpoint": {"step": 2, "uri": "s3://m/step-2/g-1", "time": "2026-01-01T00:00:00Z",
      "bytes": 9, "durationSeconds": 1.25}, "checkpointRequest": {"id": "a", "state": "Done", "step": 2,
      "uri": "s3://m/step-2/g-1", "message": "saved"}})"),
                                           3, later);
  const Time new_year{std::chrono::sys_days{std::chrono::year{2026} / 1 / 1}};
  const std::string uri = "s3://m/step-2/g-1";
  EXPECT_EQ(
      report,
      (ProgressReport{
          .attempt = 3,
          .epoch = 1,
          .step = 2,
          .total_steps = 3,
          .loss = 0.5,
          .accuracy = 0.25,
          .samples_per_second = 7.5,
          .estimated_end = later + 60s,
          .checkpoint =
              api::CheckpointStatus{.step = 2, .uri = uri, .time = new_year, .bytes = 9, .duration_seconds = 1.25},
          .checkpoint_error = "no space",
          .waiting_for = "its data",
          .requests = {{.id = "a", .state = api::RequestState::done, .step = 2, .uri = uri, .message = "saved"}}}));
}

TEST(ReadRequestRecord, IsNothingWhereTheIdOrTheStateIsNone) {
  EXPECT_TRUE(read_request_record({{"id", "a"}, {"state", "Pending"}}));
  EXPECT_FALSE(read_request_record({{"id", "a b"}, {"state", "Pending"}}));
  EXPECT_FALSE(read_request_record({{"id", "a"}, {"state", "Perhaps"}}));
  EXPECT_FALSE(read_request_record({{"state", "Pending"}}));
  EXPECT_FALSE(read_request_record({{"id", "a"}}));
  EXPECT_FALSE(read_request_record("a"));
}

TEST(ReadProgressReport, TakesNullForANumberThatIsNotFiniteAndForgivesOtherTypes) {
  const auto report =
      read_progress_report({{"loss", nullptr}, {"step", "x"}, {"checkpoint", {{"step", -1}}}}, 3, later);
  EXPECT_EQ(report.attempt, 3);
  EXPECT_TRUE(std::isnan(*report.loss));
  EXPECT_FALSE(report.step);
  EXPECT_FALSE(report.checkpoint);
  EXPECT_EQ(read_progress_report({{"step", 0}}, 3, later).step, 0);
}

}  // namespace
}  // namespace trainyard::plan
