#include "operator/plan/finalizer.hpp"

#include <algorithm>

#include "operator/plan/creation_wait.hpp"

namespace trainyard::plan {

bool wants_clean_up(const api::TrainingJobSpec& spec) {
  return spec.checkpoint && spec.checkpoint->on_delete == api::OnDelete::remove;
}

bool is_held(const api::TrainingJob& job) {
  return std::ranges::find(job.metadata.finalizers, clean_up_finalizer) != job.metadata.finalizers.end();
}

bool is_held_as_wanted(const api::TrainingJob& job) {
  return is_held(job) || !wants_clean_up(job.spec);
}

void plan_finalizer(const Observed& observed, Time now, Draft& draft) {
  const bool is_wanted = wants_clean_up(observed.job.spec);
  if (is_held(observed.job) == is_wanted) return;
  if (const auto wait = time_until_asked_again(observed, now); wait.count() > 0) return draft.look_again_in(wait);
  if (is_wanted) {
    draft.actions.emplace_back(AddFinalizer{});
  } else {
    draft.actions.emplace_back(RemoveFinalizer{});
  }
}

}  // namespace trainyard::plan
