#include "cli/job_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/progress_text.hpp"
#include "cli/text/table.hpp"
#include "common/rfc3339.hpp"
#include "operator/plan/progress.hpp"

namespace trainyard::cli {
namespace {

using api::AttemptRecord;
using api::TrainingJobStatus;

constexpr const char* unknown = "-";

std::string age(const std::optional<Time>& since, Time now) {
  return since ? format_span(std::max(now - *since, Time::duration{0})) : unknown;
}

std::string number(const auto& value) {
  return value ? fmt::format("{}", *value) : unknown;
}

std::string time_text(Time time, Time now) {
  return fmt::format("{} ({} ago)", format_rfc3339(time), age(time, now));
}

std::string restarts_text(const TrainingJobStatus& status) {
  if (status.restart_count == 0) return "0";
  return fmt::format("{} (charged: {} to the application, {} to the infrastructure)", status.restart_count,
                     status.restarts.application, status.restarts.infrastructure);
}

std::string checkpoint_text(const api::CheckpointStatus& checkpoint, Time now) {
  std::string text = fmt::format("step {} in {}", checkpoint.step, plain_path(checkpoint.uri));
  if (checkpoint.time) text += fmt::format(" ({} ago)", age(checkpoint.time, now));
  return printable(text);
}

std::string reason_text(const JobReport& job) {
  if (job.phase == interrupted)
    return "the run's process died; the same `trainyard run` resumes from the last checkpoint";
  const TrainingJobStatus& status = job.status;
  if (status.reason.empty() || status.message.empty()) return one_line(status.reason + status.message);
  return one_line(fmt::format("{}: {}", status.reason, status.message));
}

/// The job's progress, without an estimated end if the job is interrupted.
std::string progress_text(const JobReport& job, Time now) {
  api::TrainingJob shown{.metadata = {}, .spec = {}, .status = job.status};
  shown.status.checkpoint.reset();
  if (job.phase == interrupted && shown.status.progress) shown.status.progress->estimated_end.reset();
  return progress_line(shown, now);
}

std::string attempts_text(const TrainingJobStatus& status) {
  std::vector<Row> rows = {{"ATTEMPT", "CAUSE OF ITS END", "RANK", "EXIT CODE", "MESSAGE"}};
  for (const AttemptRecord& attempt : status.attempts) {
    if (!attempt.cause) continue;
    const std::string message = one_line(attempt.message);
    rows.push_back({fmt::format("{}", attempt.number), std::string{to_string(*attempt.cause)}, number(attempt.rank),
                    number(attempt.exit_code), message.empty() ? unknown : message});
  }
  return rows.size() == 1 ? std::string{} : "\n" + table(rows, {true, false, true, true, false});
}

}  // namespace

JobReport report_of(const LocalRun& run) {
  return {.name = run.name,
          .phase = phase_of(run),
          .folder = run.folder.string(),
          .logs = run.logs.string(),
          .start = run.start,
          .status = run.status.value_or(TrainingJobStatus{})};
}

JobReport report_of(const api::TrainingJob& job) {
  const bool has_phase = job.status.phase != api::Phase::none;
  return {.name = job.metadata.name,
          .phase = has_phase ? std::string{to_string(job.status.phase)} : "Pending",
          .name_space = job.metadata.name_space,
          .start = job.status.start_time,
          .status = job.status};
}

std::string jobs_table(std::span<const JobReport> jobs, Time now) {
  std::vector<Row> rows = {{"NAME", "PHASE", "ATTEMPT", "STEP", "AGE"}};
  for (const JobReport& job : jobs) {
    const auto& progress = job.status.progress;
    rows.push_back({printable(job.name), job.phase,
                    job.status.attempt > 0 ? fmt::format("{}", job.status.attempt) : unknown,
                    progress ? plan::step_text(*progress) : unknown, age(job.start, now)});
  }
  return table(rows, {false, false, true, true, true});
}

std::string job_text(const JobReport& job, Time now) {
  const TrainingJobStatus& status = job.status;
  std::vector<Row> rows = {{"Name", printable(job.name)}};
  const auto add = [&rows](const std::string& name, const std::string& value) {
    if (!value.empty()) rows.push_back({name, value});
  };
  add("Namespace", printable(job.name_space));
  add("Folder", printable(job.folder));
  add("Phase", job.phase);
  add("Reason", reason_text(job));
  if (job.start) add("Started", time_text(*job.start, now));
  if (status.completion_time) add("Ended", time_text(*status.completion_time, now));
  if (status.attempt > 0) {
    add("Attempt", fmt::format("{}", status.attempt));
    add("Restarts", restarts_text(status));
  }
  if (job.phase == "Starting" || job.phase == "Running") add("Ranks ready", status.ready);
  add("Progress", progress_text(job, now));
  if (status.checkpoint) add("Checkpoint", checkpoint_text(*status.checkpoint, now));
  add("Logs", printable(job.logs));
  return table(rows, {false, false}) + attempts_text(status);
}

nlohmann::json job_json(const JobReport& job) {
  const bool is_told = job.status != TrainingJobStatus{};
  nlohmann::json object = is_told ? to_json(job.status) : nlohmann::json::object();
  object["name"] = job.name;
  object["phase"] = job.phase;
  const auto put = [&object](const char* name, const std::string& value) {
    if (!value.empty()) object[name] = value;
  };
  put("namespace", job.name_space);
  put("folder", job.folder);
  put("logs", job.logs);
  if (job.start) object["startTime"] = format_rfc3339(*job.start);
  return object;
}

}  // namespace trainyard::cli
