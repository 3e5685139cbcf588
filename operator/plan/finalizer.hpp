#pragma once

#include <string_view>

#include "operator/plan/draft.hpp"

namespace trainyard::plan {

/// Our finalizer: keeps a deleted job until its checkpoints are removed (spec.checkpoint.onDelete).
inline constexpr std::string_view clean_up_finalizer = "trainyard.dev/checkpoint-clean-up";

/// True when the job's checkpoints are to be removed with the job.
[[nodiscard]] bool wants_clean_up(const api::TrainingJobSpec& spec);

/// True when the job has our finalizer.
[[nodiscard]] bool has_finalizer(const api::TrainingJob& job);

/// True when the job has our finalizer or does not need it. Only then may the first attempt begin.
[[nodiscard]] bool has_required_finalizer(const api::TrainingJob& job);

/// Adds or removes the finalizer of a job that is not being deleted, as its spec wants.
void plan_finalizer(const Observed& observed, Time now, Draft& draft);

}  // namespace trainyard::plan
