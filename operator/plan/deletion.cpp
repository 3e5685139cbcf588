#include "operator/plan/deletion.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "api/contract.hpp"
#include "operator/manifest/containers.hpp"
#include "operator/manifest/names.hpp"
#include "operator/manifest/objects.hpp"
#include "operator/manifest/worker_pod.hpp"
#include "operator/plan/conditions.hpp"
#include "operator/plan/member.hpp"
#include "operator/plan/node_avoidance.hpp"
#include "operator/plan/pending_reason.hpp"
#include "operator/plan/plan_actions.hpp"
#include "operator/plan/request_status.hpp"
#include "operator/plan/transition.hpp"

namespace trainyard::plan {
namespace {

using api::Phase;
using std::chrono::milliseconds;

constexpr const char* reason_cleaning = "CleaningUp";
constexpr const char* reason_left = "CheckpointsLeft";

/// Also the pause after the first pod, or after its record if the reply to that was lost and no pod was made.
constexpr milliseconds pause_min{5'000};
constexpr milliseconds pause_max{60'000};

/// Pause between two pods after the first: half of the time tried so far. This backoff needs no counter.
milliseconds pause_after(milliseconds tried_for) {
  return std::clamp(tried_for / 2, pause_min, pause_max);
}

void say(Draft& draft, std::string_view message) {
  draft.status.message = bounded_text(message);
}

void begin(const Observed& observed, Time now, Draft& draft) {
  api::TrainingJobStatus& status = draft.status;
  const std::string message =
      fmt::format("the checkpoints under {} are removed with the job", observed.job.spec.checkpoint->uri);
  end_attempt(status, "the job was deleted", now);
  set_phase(status, Phase::deleting, reason_cleaning, message);
  clear_running_state(status, "JobDeleted", now);
  abandon(status.checkpoint_request, "the job was deleted before the checkpoint was saved", now);
  abandon(status.suspend_request, "the job was deleted before the checkpoint was saved", now);
  raise_condition(status, condition_cleaning_up, "JobDeleted", message, now);
}

/// Records the failure and its event before the finalizer is removed: afterwards the job no longer exists.
void give_up(const Observed& observed, std::string_view why, Time now, Draft& draft) {
  set_phase(draft.status, Phase::deleting, reason_left,
            fmt::format("the checkpoints under {} stay: {}", observed.job.spec.checkpoint->uri, why));
  draft.status.restart_not_before.reset();
  clear_condition(draft.status, condition_cleaning_up, reason_left, now);
  draft.events.push_back(
      {.reason = "Failed", .is_warning = true, .note = fmt::format("{}: {}", reason_left, draft.status.message)});
}

/// The pods that may still save or are not deleted yet. A pod that hangs is not waited for.
std::vector<const resource::Pod*> ending_pods(const Observed& observed, Time now) {
  std::vector<const resource::Pod*> ending;
  for (const resource::Pod& pod : observed.pods) {
    if (pod.metadata.name == manifest::clean_up_pod_name(observed.job) || !is_live(pod)) continue;
    const bool hangs = pod.metadata.deletion_time &&
                       (is_on_lost_node(observed, pod) || now >= *pod.metadata.deletion_time + hung_pod_wait);
    if (!hangs) ending.push_back(&pod);
  }
  return ending;
}

void end_pods(const std::vector<const resource::Pod*>& ending, Time now, Draft& draft) {
  for (const resource::Pod* pod : ending) {
    if (pod->metadata.deletion_time) {
      draft.requeue_within(*pod->metadata.deletion_time + hung_pod_wait - now);
    } else {
      draft.actions.emplace_back(DeletePod{.name = pod->metadata.name, .uid = pod->metadata.uid});
    }
  }
  say(draft, fmt::format("waiting until the job's pods have ended ({} left); they may still save a checkpoint",
                         ending.size()));
}

/// The pod's last message; the kubelet's reason if there is none.
const std::string& last_words(const Ending& ending) {
  return ending.message.empty() ? ending.reason : ending.message;
}

/// Why no pod can be made now; empty if no reason is known.
std::string obstacle(const Observed& observed) {
  if (std::string fault = manifest::template_fault(observed.job.spec, observed.settings); !fault.empty()) return fault;
  if (observed.refusal) return observed.refusal->message;
  return observed.create_failure ? observed.create_failure->message : std::string{};
}

void make_pod(const Observed& observed, Time begun, Time now, Draft& draft) {
  const api::TrainingJob& job = observed.job;
  if (const std::string why = obstacle(observed); !why.empty()) {
    say(draft, fmt::format("the pod that removes the checkpoints cannot be made: {}", why));
  }
  if (!manifest::template_fault(job.spec, observed.settings).empty()) return;
  if (const auto wait = time_until_creation(observed, now); wait.count() > 0) return draft.requeue_within(wait);
  // Recorded before the pod is made, so that the backoff also applies to a pod that vanishes at once. The time before
  // the first try is not the clean-up's: the job's pods were still saving.
  const bool is_first = !job.status.restart_not_before;
  draft.status.restart_not_before = is_first ? now + pause_min : now + pause_after(now - begun);
  nlohmann::json pod = manifest::build_clean_up_pod(job, observed.settings);
  manifest::avoid_hosts(pod["spec"], avoided_host_names(observed));
  draft.actions.emplace_back(CreatePod{.pod = [pod = std::move(pod)] { return pod; }});
}

void try_again(const Member& member, Time now, Draft& draft) {
  const Ending& ending = *member.ending;
  say(draft, fmt::format("removing the checkpoints failed, and is tried again: {}{}",
                         ending.exit_code ? fmt::format("exit code {}: ", *ending.exit_code) : std::string{},
                         last_words(ending)));
  const Time next = draft.status.restart_not_before.value_or(now);
  if (next > now) return draft.requeue_within(next - now);
  // All these pods have one name, so the next can be made only once this one is deleted, with its log.
  if (!member.is_leaving) {
    draft.actions.emplace_back(DeletePod{.name = member.pod->metadata.name, .uid = member.pod->metadata.uid});
  }
}

void wait_for_start(const Observed& observed, const Member& member, Time now, Draft& draft) {
  draft.requeue_within(time_until_pending({member}, now));
  const auto why = pending_reason_of(observed, *member.pod, now);
  say(draft, fmt::format("pod {}, which removes the checkpoints, {}", member.pod->metadata.name,
                         why ? fmt::format("does not start: {}: {}", why->reason, why->message) : "starts"));
}

/// Returns true when the clean-up is over.
bool follow_pod(const Observed& observed, const Member& member, Time now, Draft& draft) {
  switch (member.state) {
    case MemberState::succeeded:
      draft.actions.emplace_back(RemoveFinalizer{});
      return true;
    case MemberState::failed:
      if (member.ending->exit_code == contract::exit_do_not_restart) {
        give_up(observed, last_words(*member.ending), now, draft);
        return true;
      }
      try_again(member, now, draft);
      return false;
    case MemberState::waiting:
    case MemberState::missing:
      wait_for_start(observed, member, now, draft);
      return false;
    case MemberState::running:
      break;
  }
  say(draft, fmt::format("pod {} removes the checkpoints", member.pod->metadata.name));
  return false;
}

/// True when the namespace is being deleted, so that nothing can be created in it.
bool is_namespace_ending(const Observed& observed) {
  return observed.refusal && observed.refusal->kind == ErrorKind::forbidden &&
         observed.refusal->message.find("because it is being terminated") != std::string::npos;
}

/// Returns true when the clean-up is over, whether it succeeded or not.
bool clean_up(const Observed& observed, Time begun, Time now, Draft& draft) {
  if (is_namespace_ending(observed)) {
    give_up(observed, "the namespace is being deleted, so no pod that removes them can be created", now, draft);
    return true;
  }
  if (const auto ending = ending_pods(observed, now); !ending.empty()) {
    end_pods(ending, now, draft);
    return false;
  }
  const auto pod = std::ranges::find(observed.pods, manifest::clean_up_pod_name(observed.job),
                                     [](const resource::Pod& each) { return each.metadata.name; });
  if (pod != observed.pods.end()) return follow_pod(observed, member_of(observed, *pod), now, draft);
  make_pod(observed, begun, now, draft);
  return false;
}

}  // namespace

bool wants_clean_up(const api::TrainingJobSpec& spec) {
  return spec.checkpoint && spec.checkpoint->on_delete == api::OnDelete::remove;
}

bool has_finalizer(const api::TrainingJob& job) {
  return std::ranges::find(job.metadata.finalizers, clean_up_finalizer) != job.metadata.finalizers.end();
}

bool has_required_finalizer(const api::TrainingJob& job) {
  return has_finalizer(job) || !wants_clean_up(job.spec);
}

void plan_finalizer(const Observed& observed, Time now, Draft& draft) {
  const bool is_wanted = wants_clean_up(observed.job.spec);
  if (has_finalizer(observed.job) == is_wanted) return;
  if (const auto wait = time_until_retry_of_refused(observed, now); wait.count() > 0) return draft.requeue_within(wait);
  if (is_wanted) {
    draft.actions.emplace_back(AddFinalizer{});
  } else {
    draft.actions.emplace_back(RemoveFinalizer{});
  }
}

void plan_deletion(const Observed& observed, Time now, Draft& draft) {
  const api::TrainingJob& job = observed.job;
  draft.status.observed_generation = job.metadata.generation;
  const bool has_given_up = job.status.phase == Phase::deleting && job.status.reason == reason_left;
  // Before the first attempt nothing was saved.
  if (!wants_clean_up(job.spec) || job.status.attempt == 0 || has_given_up) {
    draft.actions.emplace_back(RemoveFinalizer{});
    return;
  }
  const auto begun = condition_since(job.status, condition_cleaning_up);
  if (job.status.phase != Phase::deleting || !begun) {
    begin(observed, now, draft);
    return draft.requeue_within(milliseconds{0});
  }
  if (clean_up(observed, *begun, now, draft)) return;
  const auto left = *begun + clean_up_deadline - now;
  if (left.count() > 0) return draft.requeue_within(left);
  const std::string why =
      fmt::format("they could not be removed within {} minutes: {}", clean_up_deadline.count(), draft.status.message);
  draft.actions.clear();
  give_up(observed, why, now, draft);
}

}  // namespace trainyard::plan
