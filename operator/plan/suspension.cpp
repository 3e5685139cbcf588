#include "operator/plan/suspension.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "operator/manifest/worker_pod.hpp"
#include "operator/plan/conditions.hpp"
#include "operator/plan/request_status.hpp"
#include "operator/plan/transition.hpp"

namespace trainyard::plan {
namespace {

using api::Cause;
using api::Phase;
using api::RequestState;
using std::chrono::milliseconds;

bool is_asked_first(const Observed& observed, const std::vector<Member>& members) {
  const auto& checkpoint = observed.job.spec.checkpoint;
  return checkpoint && checkpoint->on_suspend == api::OnSuspend::request &&
         is_condition_true(observed.job.status, condition_training) && can_be_asked(members);
}

std::string suspending_words(const std::optional<api::CheckpointRequest>& request, bool is_waited_for) {
  const char* by_signal = "spec.suspend is true: pods are asked to save and stop";
  if (!request) return by_signal;
  switch (request->state) {
    case RequestState::pending:
      return is_waited_for ? "spec.suspend is true: the ranks are asked for a checkpoint before their pods are deleted"
                           : by_signal;
    case RequestState::done:
      return fmt::format("spec.suspend is true: step {} is saved, the pods end", request->step.value_or(0));
    case RequestState::failed:
      break;
  }
  return fmt::format("{}, since no checkpoint was made on request: {}", by_signal, request->message);
}

void set_suspended(Draft& draft, Time now) {
  abandon(draft.status.suspend_request, "the pods ended without an answer", now);
  set_phase(draft.status, Phase::suspended, "Suspended", "spec.suspend is true");
  // The clock of the deadline stops, and starts from zero when the job resumes.
  draft.status.start_time.reset();
  raise_condition(draft.status, condition_suspended, "Suspended", "spec.suspend is true", now);
  draft.events.push_back({.reason = "Suspended", .note = "spec.suspend is true and no pod runs"});
}

}  // namespace

bool decide_suspension(const Observed& observed, const std::vector<Member>& members, Time now, Draft& draft) {
  api::TrainingJobStatus& status = draft.status;
  const bool is_wanted = observed.job.spec.is_suspended;
  if (status.phase == Phase::suspending) {
    if (!is_wanted) {
      abandon(status.suspend_request, "the job was resumed before there was an answer", now);
      status.start_time.reset();
      begin_attempt(status, observed, now);
      set_phase(status, Phase::starting);
      return true;
    }
    // Waits for no pod on a lost node: it stays until somebody removes the node.
    const bool any_runs = std::ranges::any_of(
        observed.pods, [&](const resource::Pod& pod) { return is_live(pod) && !is_on_lost_node(observed, pod); });
    if (any_runs) {
      const bool is_waited_for = time_left_to_save(status, observed, members, now).count() > 0;
      status.message = bounded_text(suspending_words(status.suspend_request, is_waited_for));
      return false;
    }
    set_suspended(draft, now);
    return true;
  }
  if (status.phase == Phase::suspended) {
    if (is_wanted) return false;
    if (status.attempt > 0) begin_attempt(status, observed, now);
    set_phase(status, status.attempt > 0 ? Phase::starting : Phase::pending);
    clear_condition(status, condition_suspended, "Resumed", now);
    return true;
  }
  if (!is_wanted) return false;
  if (status.attempt == 0) {
    set_suspended(draft, now);
    return true;
  }
  // Recorded before rank 0 is asked, so that the next leader continues with this request.
  status.suspend_request.reset();
  if (is_asked_first(observed, members)) {
    status.suspend_request =
        api::CheckpointRequest{.id = suspend_request_id(observed.job.metadata.generation), .time = now};
  }
  end_attempt(status, AttemptEnd{.cause = Cause::suspended, .message = "spec.suspend is true"}, now);
  set_phase(status, Phase::suspending, "Suspended", suspending_words(status.suspend_request, true));
  status.restart_not_before.reset();
  clear_condition(status, condition_training, "Suspended", now);
  return true;
}

milliseconds time_left_to_save(const api::TrainingJobStatus& status, const Observed& observed,
                               const std::vector<Member>& members, Time now) {
  const auto& request = status.suspend_request;
  if (status.phase != Phase::suspending || !request || !request->time || request->state == RequestState::failed)
    return {};
  // Ranks that have saved end by themselves. Rank 0 may be seen to have ended before the others.
  const bool is_done = request->state == RequestState::done;
  if (!is_done && !can_be_asked(members)) return {};
  const bool is_heard = is_done || is_taken(observed, request->id);
  const std::chrono::seconds limit =
      is_heard ? std::chrono::seconds{manifest::grace_seconds(observed.job.spec)} : suspend_answer_max;
  return std::max(milliseconds{0}, *request->time + limit - now);
}

}  // namespace trainyard::plan
