#include "operator/plan/edit.hpp"

#include "operator/manifest/containers.hpp"
#include "operator/manifest/names.hpp"
#include "operator/manifest/spec_hash.hpp"
#include "operator/plan/attempt.hpp"
#include "operator/plan/conditions.hpp"
#include "operator/plan/transition.hpp"

namespace trainyard::plan {

using api::Cause;
using api::Phase;

bool decide_edit(const Observed& observed, Time now, Draft& draft) {
  const api::TrainingJob& job = observed.job;
  if (!is_active(job.status) || job.status.attempt_generation == job.metadata.generation) return false;
  const std::string wanted = manifest::spec_hash(job.spec);
  bool has_pods = false;
  bool is_edited = false;
  for (const resource::Pod& pod : observed.pods) {
    if (manifest::attempt_of(job, pod) != job.status.attempt) continue;
    has_pods = true;
    is_edited = is_edited || manifest::spec_hash_of(pod) != wanted;
  }
  if (is_edited && job.status.phase != Phase::running) {
    restart_uncharged(observed, Cause::spec_changed, "the spec was changed while the group formed", now, draft);
    return true;
  }
  if (is_edited) {
    raise_condition(draft.status, condition_spec_pending, "AttemptRuns",
                    "the spec was changed: the change takes effect with the next attempt", now);
    return false;
  }
  clear_condition(draft.status, condition_spec_pending, "Reverted", now);
  draft.status.attempt_generation = job.metadata.generation;
  if (has_pods || job.status.is_formed) return false;
  // No pod was made from the old spec yet: the attempt takes the new spec, and records that before its first pod.
  draft.status.replicas = {.desired = job.spec.replicas, .pending = job.spec.replicas};
  draft.status.worker_image =
      manifest::needs_worker_image(job.spec) ? manifest::worker_image(job.spec, observed.settings) : std::string{};
  return true;
}

}  // namespace trainyard::plan
