#include "operator/plan/phase.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "operator/plan/conditions.hpp"
#include "operator/plan/pending_reason.hpp"
#include "operator/plan/transition.hpp"

namespace trainyard::plan {
namespace {

using api::Phase;

/// How long creates may fail before the status says so.
constexpr std::chrono::seconds failing_max{5};

std::optional<PendingReason> waiting_reason(const Observed& observed, const std::vector<Member>& members, Time now) {
  if (observed.refusal && observed.refusal->kind == ErrorKind::forbidden) return refusal_reason(*observed.refusal);
  if (observed.refusal && observed.refusal->kind == ErrorKind::already_exists) {
    return PendingReason{.reason = "NameConflict", .message = observed.refusal->message};
  }
  if (observed.create_failure && now - observed.create_failure->since >= failing_max) {
    return PendingReason{.reason = "ApiUnavailable", .message = observed.create_failure->message};
  }
  return find_pending_reason(observed, members, now);
}

void set_pending(const PendingReason& why, Draft& draft) {
  api::TrainingJobStatus& status = draft.status;
  const bool is_news = status.phase != Phase::pending || status.reason != why.reason;
  status.phase = Phase::pending;
  status.reason = why.reason;
  status.message = bounded_text(why.message);
  if (is_news) {
    draft.events.push_back(
        {.reason = "Pending", .is_warning = true, .note = fmt::format("{}: {}", why.reason, status.message)});
  }
}

/// For a group that starts with nothing to hold it up.
void set_forming(api::TrainingJobStatus& status) {
  const api::AttemptRecord* previous = previous_attempt(status);
  using api::Cause;
  const bool is_restart = previous != nullptr && previous->cause && *previous->cause != Cause::suspended &&
                          *previous->cause != Cause::spec_changed;
  status.phase = is_restart ? Phase::restarting : Phase::starting;
  status.reason = is_restart ? std::string{to_string(*previous->cause)} : std::string{};
  status.message = is_restart ? previous->message : std::string{};
}

/// Why a running group does not train; empty if no reason is known.
std::string running_message(const Observed& observed, const std::vector<Member>& members,
                            const api::TrainingJobStatus& status) {
  const auto leaving = std::ranges::find_if(
      members, [](const Member& member) { return member.is_leaving && member.state == MemberState::running; });
  if (leaving != members.end()) {
    return fmt::format("pod {} is being deleted; the group may save a checkpoint first", leaving->pod_index);
  }
  const bool is_current = observed.progress && observed.progress->attempt == status.attempt;
  return is_current && !is_condition_true(status, condition_training) ? observed.progress->waiting_for : std::string{};
}

void set_running(const Observed& observed, const std::vector<Member>& members, Draft& draft) {
  api::TrainingJobStatus& status = draft.status;
  if (status.phase != Phase::running) {
    draft.events.push_back(
        {.reason = "Running",
         .note = fmt::format("all {} pods run (attempt {})", status.replicas.desired, status.attempt)});
  }
  status.phase = Phase::running;
  status.reason.clear();
  status.message = bounded_text(running_message(observed, members, status));
  status.restart_not_before.reset();
}

void refresh_phase(const Observed& observed, const std::vector<Member>& members, Time now, Draft& draft) {
  api::TrainingJobStatus& status = draft.status;
  const bool all_run = status.is_formed && std::ranges::all_of(members, [](const Member& member) {
                         return member.state == MemberState::running || member.state == MemberState::succeeded;
                       });
  // Once all ranks have run, the attempt stays Running until it ends.
  if (all_run || status.phase == Phase::running) {
    set_running(observed, members, draft);
    return;
  }
  draft.requeue_within(time_until_pending(members, now));
  if (const auto why = waiting_reason(observed, members, now)) {
    set_pending(*why, draft);
  } else if (status.attempt > 0) {
    set_forming(status);
  } else {
    status.phase = Phase::pending;
    status.reason.clear();
    status.message.clear();
  }
}

}  // namespace

void count_members(const std::vector<Member>& members, api::TrainingJobStatus& status) {
  api::ReplicaCounts counts{.desired = status.replicas.desired};
  for (const Member& member : members) {
    switch (member.state) {
      case MemberState::missing:
      case MemberState::waiting:
        ++counts.pending;
        break;
      case MemberState::running:
        ++counts.ready;
        break;
      case MemberState::succeeded:
        ++counts.succeeded;
        break;
      case MemberState::failed:
        ++counts.failed;
        break;
    }
  }
  status.replicas = counts;
}

void update_phase(const Observed& observed, const std::vector<Member>& members, Time now, Draft& draft) {
  api::TrainingJobStatus& status = draft.status;
  if (status.attempt == 0) {
    status.replicas = {.desired = observed.job.spec.replicas, .pending = observed.job.spec.replicas};
  }
  status.ready = fmt::format("{}/{}", status.replicas.ready, status.replicas.desired);
  if (status.phase == Phase::suspending || status.phase == Phase::suspended) return;
  if (status.attempt > 0 && !status.is_formed) {
    status.is_formed =
        std::ranges::none_of(members, [](const Member& member) { return member.state == MemberState::missing; });
  }
  if (!status.start_time) status.start_time = now;
  if (observed.refusal && observed.refusal->kind == ErrorKind::already_exists) {
    raise_condition(status, condition_name_conflict, "NameTaken", observed.refusal->message, now);
  } else {
    clear_condition(status, condition_name_conflict, "NameFree", now);
  }
  refresh_phase(observed, members, now, draft);
}

}  // namespace trainyard::plan
