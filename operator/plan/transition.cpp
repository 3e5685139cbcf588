#include "operator/plan/transition.hpp"

#include <fmt/format.h>

#include "operator/manifest/containers.hpp"
#include "operator/plan/conditions.hpp"

namespace trainyard::plan {
namespace {

using api::Phase;

api::AttemptRecord* open_attempt_record(api::TrainingJobStatus& status) {
  if (status.attempts.empty()) return nullptr;
  api::AttemptRecord& last = status.attempts.back();
  return last.number == status.attempt && !last.end ? &last : nullptr;
}

}  // namespace

void begin_attempt(api::TrainingJobStatus& status, const Observed& observed, Time now) {
  const api::TrainingJobSpec& spec = observed.job.spec;
  status.attempt += 1;
  status.attempt_generation = observed.job.metadata.generation;
  status.is_formed = false;
  status.succeeded_ranks.clear();
  status.replicas = {.desired = spec.replicas, .pending = spec.replicas};
  status.ready = fmt::format("0/{}", spec.replicas);
  status.worker_image =
      manifest::needs_worker_image(spec) ? manifest::worker_image(spec, observed.settings) : std::string{};
  if (!status.start_time) status.start_time = now;
  status.attempts.push_back({.number = status.attempt, .start = now});
  if (status.attempts.size() > attempt_records_max) status.attempts.erase(status.attempts.begin());
  clear_condition(status, condition_training, "AttemptEnded", now);
  clear_condition(status, condition_progress_unavailable, "AttemptEnded", now);
  clear_condition(status, condition_suspended, "Resumed", now);
  clear_condition(status, condition_spec_pending, "Applied", now);
}

void end_attempt(api::TrainingJobStatus& status, const AttemptEnd& end, Time now) {
  api::AttemptRecord* record = open_attempt_record(status);
  if (record == nullptr) return;
  record->end = now;
  record->cause = end.cause;
  record->rank = end.pod_index;
  record->pod = end.pod;
  record->node = end.node;
  record->exit_code = end.exit_code;
  record->message = bounded_text(end.message);
}

void end_attempt(api::TrainingJobStatus& status, const std::string& message, Time now) {
  api::AttemptRecord* record = open_attempt_record(status);
  if (record == nullptr) return;
  record->end = now;
  record->message = bounded_text(message);
}

const api::AttemptRecord* previous_attempt(const api::TrainingJobStatus& status) {
  for (const api::AttemptRecord& record : status.attempts) {
    if (record.number == status.attempt - 1) return &record;
  }
  return nullptr;
}

bool is_active(const api::TrainingJobStatus& status) {
  return status.attempt > 0 && (status.phase == Phase::pending || status.phase == Phase::starting ||
                                status.phase == Phase::running || status.phase == Phase::restarting);
}

bool is_finished(const api::TrainingJobStatus& status) {
  return status.phase == Phase::succeeded || status.phase == Phase::failed;
}

using api::Cause;

void set_phase(api::TrainingJobStatus& status, Phase phase, std::string reason, const std::string& message) {
  status.phase = phase;
  status.reason = std::move(reason);
  status.message = bounded_text(message);
}

void set_completion(api::TrainingJobStatus& status, Time now) {
  status.completion_time = now;
  clear_running_state(status, "JobEnded", now);
}

void clear_running_state(api::TrainingJobStatus& status, const std::string& reason, Time now) {
  status.restart_not_before.reset();
  if (status.progress) status.progress->estimated_end.reset();
  status.replicas.ready = 0;
  status.replicas.pending = 0;
  status.ready = fmt::format("0/{}", status.replicas.desired);
  clear_condition(status, condition_training, reason, now);
  clear_condition(status, condition_spec_pending, reason, now);
  clear_condition(status, condition_progress_unavailable, reason, now);
}

void fail_job(Draft& draft, const std::string& reason, const std::string& message, Time now) {
  set_phase(draft.status, Phase::failed, reason, message);
  set_completion(draft.status, now);
  raise_condition(draft.status, condition_failed, reason, draft.status.message, now);
  draft.events.push_back(
      {.reason = "Failed", .is_warning = true, .note = fmt::format("{}: {}", reason, draft.status.message)});
}

void restart_uncharged(const Observed& observed, Cause cause, const std::string& message, Time now, Draft& draft) {
  const Phase phase = draft.status.phase == Phase::restarting ? Phase::restarting : Phase::starting;
  end_attempt(draft.status, AttemptEnd{.cause = cause, .message = message}, now);
  begin_attempt(draft.status, observed, now);
  set_phase(draft.status, phase);
}

}  // namespace trainyard::plan
