#include "cli/status.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "cli/errors.hpp"
#include "cli/progress_text.hpp"
#include "cli/run_folder.hpp"
#include "cli/text/output.hpp"
#include "common/time_text.hpp"
#include "common/try.hpp"
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

namespace {

namespace fs = std::filesystem;

Result<JobReport> ask_cluster(const StatusOptions& options, const fs::path& folder) {
  const auto cluster = TRY(open_cluster(
      options.cluster, fmt::format("there is no run of {} on this machine ({})", options.job, folder.string())));
  return report_in_cluster(*cluster.api, cluster.name_space, options.job);
}

Result<JobReport> find_report(const StatusOptions& options) {
  const fs::path folder = options.folder.empty() ? default_run_folder(options.job) : fs::path{options.folder};
  if (options.cluster.is_named()) return ask_cluster(options, folder);
  const auto run = read_local_run(folder);
  if (run) return report_of(*run);
  const bool may_be_in_cluster = run.error().kind == ErrorKind::not_found && options.folder.empty();
  return may_be_in_cluster ? ask_cluster(options, folder) : tl::unexpected(run.error());
}

}  // namespace

Result<JobReport> report_in_cluster(kube::Api& api, const std::string& name_space, const std::string& job) {
  const auto object = api.get(kube::training_jobs, name_space, job);
  if (!object && object.error().kind == ErrorKind::not_found)
    return fail(ErrorKind::not_found, fmt::format("there is no TrainingJob {} in the namespace {}", job, name_space));
  TRY(object);
  return api::parse_training_job(*object).map([](const api::TrainingJob& found) { return report_of(found); });
}

int print_status(const StatusOptions& options) {
  const auto found = find_report(options);
  if (!found) return report(found.error());
  const bool is_document = options.format != OutputFormat::text;
  std::fputs(
      (is_document ? document_text(job_json(*found), options.format) : job_text(*found, SystemClock{}.now())).c_str(),
      stdout);
  return 0;
}

int list_runs(const PsOptions& options) {
  namespace fs = std::filesystem;
  const fs::path parent = options.folder.empty() ? runs_folder() : fs::path{options.folder};
  std::vector<JobReport> jobs;
  int exit_code = 0;
  for (const fs::path& folder : run_folders_in(parent)) {
    const auto run = read_local_run(folder);
    if (run) {
      jobs.push_back(report_of(*run));
    } else {
      exit_code = report(run.error());
    }
  }
  std::ranges::stable_sort(jobs, {}, &JobReport::start);
  if (options.format != OutputFormat::text) {
    nlohmann::json document = nlohmann::json::array();
    for (const JobReport& job : jobs) document.push_back(job_json(job));
    std::fputs(document_text(document, options.format).c_str(), stdout);
  } else if (!jobs.empty()) {
    std::fputs(jobs_table(jobs, SystemClock{}.now()).c_str(), stdout);
  } else if (exit_code == 0) {
    std::fprintf(stderr, "note: there are no runs in %s\n", parent.c_str());
  }
  return exit_code;
}

}  // namespace trainyard::cli
