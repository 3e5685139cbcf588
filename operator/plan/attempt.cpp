#include "operator/plan/attempt.hpp"

#include <fmt/format.h>

#include "operator/plan/bounded_text.hpp"
#include "operator/plan/conditions.hpp"
#include "operator/plan/containers.hpp"

namespace trainyard::plan {
namespace {

using resource::Phase;

resource::AttemptRecord* open_record(resource::TrainingJobStatus& status) {
  if (status.attempts.empty()) return nullptr;
  resource::AttemptRecord& last = status.attempts.back();
  return last.number == status.attempt && !last.end ? &last : nullptr;
}

}  // namespace

void begin_attempt(resource::TrainingJobStatus& status, const Observed& observed, Time now) {
  const resource::TrainingJobSpec& spec = observed.job.spec;
  status.attempt += 1;
  status.attempt_generation = observed.job.metadata.generation;
  status.is_formed = false;
  status.succeeded_ranks.clear();
  status.replicas = {.desired = spec.replicas, .pending = spec.replicas};
  status.ready = fmt::format("0/{}", spec.replicas);
  status.worker_image = needs_worker_image(spec) ? worker_image(spec, observed.settings) : std::string{};
  if (!status.start_time) status.start_time = now;
  status.attempts.push_back({.number = status.attempt, .start = now});
  if (status.attempts.size() > attempt_records_max) status.attempts.erase(status.attempts.begin());
  clear_condition(status, condition_training, "AttemptEnded", now);
  clear_condition(status, condition_progress_unavailable, "AttemptEnded", now);
  clear_condition(status, condition_suspended, "Resumed", now);
  clear_condition(status, condition_spec_pending, "Applied", now);
}

void end_attempt(resource::TrainingJobStatus& status, const Loss& loss, Time now) {
  resource::AttemptRecord* record = open_record(status);
  if (record == nullptr) return;
  record->end = now;
  record->cause = loss.cause;
  record->rank = loss.rank;
  record->pod = loss.pod;
  record->node = loss.node;
  record->exit_code = loss.exit_code;
  record->message = bounded_text(loss.message);
}

void end_attempt(resource::TrainingJobStatus& status, const std::string& message, Time now) {
  resource::AttemptRecord* record = open_record(status);
  if (record == nullptr) return;
  record->end = now;
  record->message = bounded_text(message);
}

const resource::AttemptRecord* previous_attempt(const resource::TrainingJobStatus& status) {
  for (const resource::AttemptRecord& record : status.attempts) {
    if (record.number == status.attempt - 1) return &record;
  }
  return nullptr;
}

bool is_active(const resource::TrainingJobStatus& status) {
  return status.attempt > 0 && (status.phase == Phase::pending || status.phase == Phase::starting ||
                                status.phase == Phase::running || status.phase == Phase::restarting);
}

bool is_finished(const resource::TrainingJobStatus& status) {
  return status.phase == Phase::succeeded || status.phase == Phase::failed;
}

}  // namespace trainyard::plan
