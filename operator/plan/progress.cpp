#include "operator/plan/progress.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

#include "operator/plan/conditions.hpp"
#include "operator/plan/transition.hpp"

namespace trainyard::plan {
namespace {

/// `number` with six significant digits, for people; empty if it is not finite.
std::optional<double> readable(const std::optional<double>& number) {
  if (!number || !std::isfinite(*number)) return std::nullopt;
  return std::strtod(fmt::format("{:.6g}", *number).c_str(), nullptr);
}

void take_checkpoint(api::TrainingJobStatus& status, const api::CheckpointStatus& checkpoint) {
  const std::int64_t last_step = status.checkpoint ? status.checkpoint->step : 0;
  if (checkpoint.step > last_step) {
    status.restarts.infrastructure = 0;
    status.attempts_without_progress = 0;
  }
  status.checkpoint = checkpoint;
  status.checkpoint->duration_seconds = readable(checkpoint.duration_seconds);
}

void update_loss_condition(api::TrainingJobStatus& status, const ProgressReport& report, Time now) {
  if (!report.loss) return;
  if (std::isfinite(*report.loss)) {
    clear_condition(status, condition_non_finite_loss, "LossIsFinite", now);
  } else if (!is_condition_true(status, condition_non_finite_loss)) {
    raise_condition(status, condition_non_finite_loss, std::isnan(*report.loss) ? "NaN" : "Infinite",
                    fmt::format("the loss was {} at step {}", *report.loss, report.step.value_or(0)), now);
  }
}

void update_saving_condition(api::TrainingJobStatus& status, const ProgressReport& report, Time now) {
  if (report.checkpoint_error.empty()) {
    clear_condition(status, condition_checkpoint_failing, "NoneFailed", now);
  } else {
    raise_condition(status, condition_checkpoint_failing, "SaveFailed", report.checkpoint_error, now);
  }
}

/// The estimated end, rounded to whole intervals and kept while the step is the same: estimates of an equal pace differ
/// a little from poll to poll.
std::optional<Time> steady_end(const api::TrainingJobStatus& status, const ProgressReport& report,
                               std::chrono::milliseconds interval) {
  if (!report.estimated_end) return std::nullopt;
  const auto& last = status.progress;
  if (last && last->estimated_end && last->step == report.step) return last->estimated_end;
  const auto since_epoch = report.estimated_end->time_since_epoch();
  return Time{(since_epoch + interval / 2) / interval * interval};
}

void take_report(api::TrainingJobStatus& status, const ProgressReport& report, std::chrono::milliseconds interval,
                 Time now) {
  if (report.step) {
    status.progress = api::Progress{.epoch = report.epoch.value_or(0),
                                    .step = *report.step,
                                    .total_steps = report.total_steps,
                                    .loss = readable(report.loss),
                                    .accuracy = readable(report.accuracy),
                                    .samples_per_second = readable(report.samples_per_second),
                                    .estimated_end = steady_end(status, report, interval)};
    status.step_text = step_text(*status.progress);
  }
  if (report.checkpoint) take_checkpoint(status, *report.checkpoint);
  update_loss_condition(status, report, now);
  update_saving_condition(status, report, now);
}

void raise_training_condition(api::TrainingJobStatus& status, Time now) {
  if (!status.progress || status.progress->step < 1 || is_condition_true(status, condition_training)) return;
  raise_condition(status, condition_training, "FirstStepDone", fmt::format("attempt {} trains", status.attempt), now);
}

void update_availability_condition(api::TrainingJobStatus& status, const Observed& observed, Time now) {
  const std::string& problem = observed.progress->unavailable_because;
  // A user's own container need not serve /status.
  if (problem.empty() || !observed.job.spec.training) {
    clear_condition(status, condition_progress_unavailable, "Available", now);
  } else {
    raise_condition(status, condition_progress_unavailable, "Unreachable", problem, now);
  }
}

}  // namespace

void take_reports(api::TrainingJobStatus& status, const Observed& observed, const std::vector<Member>& members,
                  Time now) {
  // A job that is being suspended may save a checkpoint before its pods are deleted.
  if (!is_active(status) && status.phase != api::Phase::suspending) return;
  if (observed.progress && observed.progress->attempt == status.attempt) {
    take_report(status, *observed.progress, observed.settings.progress_interval, now);
    if (is_active(status)) {
      if (observed.progress->step) raise_training_condition(status, now);
      update_availability_condition(status, observed, now);
    }
  }
  // Rank 0's termination message is newer than every poll.
  if (!members.empty() && members.front().ending && members.front().ending->progress) {
    take_report(status, *members.front().ending->progress, observed.settings.progress_interval, now);
  }
}

std::string step_text(const api::Progress& progress) {
  return progress.total_steps ? fmt::format("{}/{}", progress.step, *progress.total_steps)
                              : fmt::format("{}", progress.step);
}

}  // namespace trainyard::plan
