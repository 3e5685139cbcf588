#include "operator/plan/finalizer.hpp"

#include <algorithm>

#include "operator/plan/creation_wait.hpp"

namespace trainyard::plan {

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
  if (const auto wait = time_until_asked_again(observed, now); wait.count() > 0) return draft.requeue_within(wait);
  if (is_wanted) {
    draft.actions.emplace_back(AddFinalizer{});
  } else {
    draft.actions.emplace_back(RemoveFinalizer{});
  }
}

}  // namespace trainyard::plan
