#include "cli/progress_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "api/contract.hpp"
#include "cli/checkpoint_command.hpp"
#include "common/text.hpp"
#include "local/log_files.hpp"
#include "operator/plan/conditions.hpp"
#include "operator/plan/progress.hpp"

namespace trainyard::cli {
namespace {

using api::Phase;
using api::TrainingJobStatus;

std::string with_reason(std::string text, const TrainingJobStatus& status) {
  if (!status.reason.empty()) text += fmt::format(" ({})", status.reason);
  if (!status.message.empty()) text += ": " + one_line(status.message);
  return text;
}

std::filesystem::path log_of(const std::filesystem::path& logs, const api::AttemptRecord& attempt) {
  return local::rank_log(logs, attempt.number, attempt.rank.value_or(0));
}

/// "rank 3", with its host where `hosts` has one: "rank 3 on host2".
std::string rank_text(std::int64_t rank, const std::vector<std::string>& hosts) {
  const auto index = static_cast<std::size_t>(rank);
  return index < hosts.size() ? fmt::format("rank {} on {}", rank, hosts[index]) : fmt::format("rank {}", rank);
}

std::string describe_end(const api::AttemptRecord& attempt, const std::vector<std::string>& hosts) {
  std::string text = fmt::format("Attempt {} ended", attempt.number);
  if (attempt.rank) {
    const bool was_stopped = attempt.exit_code == contract::exit_preempted;
    text += fmt::format(": {} {}", rank_text(*attempt.rank, hosts), was_stopped ? "was stopped" : "failed");
  }
  const std::string message = one_line(attempt.message);
  if (attempt.exit_code && !message.starts_with("exit code"))
    text += fmt::format(" (exit code {})", *attempt.exit_code);
  if (!message.empty()) text += ": " + message;
  return text;
}

const api::AttemptRecord* ended_attempt(const TrainingJobStatus& status, std::int64_t number) {
  const auto found = std::find_if(
      status.attempts.begin(), status.attempts.end(),
      [&](const api::AttemptRecord& attempt) { return attempt.number == number && attempt.end && attempt.cause; });
  return found == status.attempts.end() ? nullptr : &*found;
}

/// The failure of `trainyard run --nproc`, whose user has written no spec: it names options instead of fields.
std::string command_failure(const api::TrainingJob& job, const std::vector<std::string>& hosts) {
  const TrainingJobStatus& status = job.status;
  const auto* last = ended_attempt(status, status.attempt);
  const bool is_spent = status.reason == "ApplicationBudget" || status.reason == "InfrastructureBudget";
  if (last == nullptr || !last->rank || !is_spent) return with_reason("Failed", status);
  const std::string end = one_line(last->message);
  const std::int64_t max = job.spec.restart.application.max;
  const std::string restarts = max == 0   ? "no restarts allowed"
                               : max == 1 ? "the one restart is used up"
                                          : fmt::format("all {} restarts are used up", max);
  return fmt::format("Failed: {}{} {}; {} (--max-restarts {})", rank_text(*last->rank, hosts),
                     end.starts_with("exit code") ? " ended with" : ":", end, restarts, max);
}

}  // namespace

std::vector<std::string> ended_attempt_lines(const TrainingJobStatus& before, const TrainingJobStatus& after,
                                             const std::filesystem::path& logs, const std::vector<std::string>& hosts) {
  std::vector<std::string> lines;
  for (std::int64_t number = std::max<std::int64_t>(before.attempt, 1); number < after.attempt; ++number) {
    const auto* ended = ended_attempt(after, number);
    if (ended == nullptr || ended->cause == api::Cause::suspended) continue;
    std::string line = describe_end(*ended, hosts);
    if (!logs.empty()) line += fmt::format("; its log: {}", log_of(logs, *ended).string());
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string phase_line(const TrainingJobStatus& before, const TrainingJobStatus& after) {
  if (after.phase == before.phase && after.reason == before.reason && after.attempt == before.attempt) return "";
  const bool is_new_phase = after.phase != before.phase;
  switch (after.phase) {
    case Phase::none:
    case Phase::succeeded:
    case Phase::failed:
    case Phase::suspending:  // JobRun::suspend() prints it.
    case Phase::suspended:
    case Phase::deleting:  // A job on this machine is never deleted.
      return "";
    case Phase::pending:
      return after.reason.empty() ? "" : with_reason("Pending", after);
    case Phase::starting:
      return fmt::format("Starting attempt {}", after.attempt);
    case Phase::running:
      return is_new_phase ? fmt::format("Running: {} of {} pods", after.replicas.ready, after.replicas.desired) : "";
    case Phase::restarting:
      if (!is_new_phase) return "";
      return fmt::format("Restarting as attempt {}", after.attempt) +
             (after.checkpoint ? fmt::format("; the last checkpoint is of step {}", after.checkpoint->step) : "");
  }
  return "";
}

std::string request_line(const TrainingJobStatus& before, const TrainingJobStatus& after) {
  const auto& request = after.checkpoint_request;
  if (!request || request == before.checkpoint_request) return "";
  const RequestSummary summary = summarize_request(*request);
  if (summary.state == RequestSummary::State::waiting) return "";
  return fmt::format("Requested checkpoint: {}", one_line(summary.sentence));
}

std::string progress_line(const api::TrainingJob& job, Time now) {
  const TrainingJobStatus& status = job.status;
  if (!status.progress) return "";
  const api::Progress& progress = *status.progress;
  const auto epochs = job.spec.training ? job.spec.training->epochs : std::nullopt;
  // A worker of ours reports a speed from its second report on.
  const bool is_of_first_step = job.spec.training && !progress.samples_per_second;
  std::string line;
  const auto add = [&line](const std::string& part) { line += (line.empty() ? "" : "  ") + part; };
  if (progress.epoch > 0)
    add(epochs ? fmt::format("epoch {}/{}", progress.epoch, *epochs) : fmt::format("epoch {}", progress.epoch));
  add("step " + plan::step_text(progress));
  if (progress.loss) add(fmt::format("{}loss {:.4f}", is_of_first_step ? "first " : "", *progress.loss));
  // The condition may be of the attempt before. An attempt that reports a speed has reported a loss.
  const bool is_loss_left_out = !progress.loss && progress.samples_per_second;
  if (is_loss_left_out && plan::is_condition_true(status, plan::condition_non_finite_loss)) add("loss is not finite");
  if (progress.accuracy) add(fmt::format("accuracy {:.4f}", *progress.accuracy));
  if (progress.samples_per_second) add(format_count(*progress.samples_per_second) + " samples/s");
  if (progress.estimated_end && status.phase == Phase::running) {
    add("ETA " + format_span(std::max(*progress.estimated_end - now, Time::duration{0})));
  }
  if (status.checkpoint) add(fmt::format("checkpoint {}", status.checkpoint->step));
  return line;
}

std::vector<std::string> summary_of(const api::TrainingJob& job, const Outcome& outcome) {
  const TrainingJobStatus& status = job.status;
  std::vector<std::string> lines;
  // A checkpoint that was saved while stopping may be later than the last report.
  const std::int64_t step =
      std::max(status.progress ? status.progress->step : 0, status.checkpoint ? status.checkpoint->step : 0);
  switch (status.phase) {
    case Phase::succeeded: {
      std::string line = fmt::format("Succeeded in {}", format_span(outcome.took));
      if (step > 0) line += fmt::format(" at step {}", step);
      if (status.restart_count > 0) {
        line += fmt::format(" after {} restart{}", status.restart_count, status.restart_count == 1 ? "" : "s");
      }
      if (outcome.is_already_complete) line += ", without training: nothing was left to train";
      lines.push_back(line);
      if (status.progress && status.progress->accuracy) {
        lines.push_back(fmt::format("  accuracy       {:.4f}", *status.progress->accuracy));
      }
      if (!outcome.worker_message.empty()) lines.push_back("  result         " + one_line(outcome.worker_message));
      break;
    }
    case Phase::suspended:
      lines.push_back(step > 0 ? fmt::format("Stopped at step {}", step) : "Stopped");
      break;
    default:
      lines.push_back(outcome.is_command ? command_failure(job, outcome.hosts) : with_reason("Failed", status));
      if (const auto* last = ended_attempt(status, status.attempt);
          last != nullptr && last->rank && !outcome.is_command) {
        if (!outcome.hosts.empty()) lines.push_back("  culprit        " + rank_text(*last->rank, outcome.hosts));
        lines.push_back(fmt::format("  its log        {}", log_of(outcome.logs, *last).string()));
      }
      break;
  }
  if (status.checkpoint) {
    lines.push_back(
        fmt::format("  checkpoint     step {} in {}", status.checkpoint->step, plain_path(status.checkpoint->uri)));
  } else if (job.spec.checkpoint && status.phase != Phase::failed) {
    lines.push_back("  checkpoints    " + plain_path(job.spec.checkpoint->uri));
  }
  lines.push_back("  logs           " + outcome.logs.string());
  return lines;
}

std::string next_run_line(const api::TrainingJob& job) {
  if (!job.spec.checkpoint) return "";
  const bool begins_afresh = job.spec.checkpoint->resume == api::ResumeMode::none;
  if (begins_afresh) {
    return job.status.checkpoint
               ? "If you run the command again, it begins afresh, since checkpoint.resume is none: without that line "
                 "it resumes from the last checkpoint."
               : "If you run the command again, it begins afresh, since checkpoint.resume is none.";
  }
  // The status may lack a checkpoint that other storage has, that another machine has, or that a program of its own
  // kind has saved.
  return job.status.checkpoint ? "Run the command again to resume from the last checkpoint."
                               : "Run the command again to resume from the last checkpoint, if one was saved.";
}

std::string one_line(const std::string& text) {
  constexpr std::size_t length_max = 600;
  std::string line;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      if (!line.empty() && !line.ends_with(" | ")) line += " | ";
    } else if (byte >= 0x20 && byte != 0x7f) {
      line += c;
    } else if (c == '\t') {
      line += ' ';
    }
  }
  while (line.ends_with(" | ")) line.resize(line.size() - 3);
  if (line.size() <= length_max) return line;
  std::string beginning = keep_beginning(line, length_max / 2 + 3);
  beginning.resize(beginning.size() - 3);  // The end has the mark.
  return beginning + " " + keep_end(line, length_max / 2 + 4);
}

std::string plain_path(const std::string& uri) {
  return uri.starts_with("file://") ? uri.substr(7) : uri;
}

std::string format_span(std::chrono::milliseconds span) {
  const auto seconds = std::chrono::round<std::chrono::seconds>(span).count();
  if (seconds < 60) return fmt::format("{}s", seconds);
  if (seconds < 3600) return fmt::format("{}m{:02}s", seconds / 60, seconds % 60);
  return fmt::format("{}h{:02}m", seconds / 3600, seconds % 3600 / 60);
}

std::string format_count(double count) {
  std::string digits = fmt::format("{:.0f}", std::max(count, 0.0));
  for (std::size_t at = digits.size(); at > 3;) digits.insert(at -= 3, ",");
  return digits;
}

}  // namespace trainyard::cli
