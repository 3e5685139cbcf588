#pragma once

#include <string_view>

#include "operator/plan/draft.hpp"

namespace trainyard::plan {

/// Keeps a job that is deleted until its checkpoints are removed (spec.checkpoint.onDelete).
inline constexpr std::string_view clean_up_finalizer = "trainyard.dev/checkpoint-clean-up";

/// Whether the job's checkpoints are to go with it.
[[nodiscard]] bool wants_clean_up(const api::TrainingJobSpec& spec);

/// Whether the job has our finalizer.
[[nodiscard]] bool has_finalizer(const api::TrainingJob& job);

/// Whether the finalizer stands as the spec wants it before anything may be saved.
[[nodiscard]] bool has_required_finalizer(const api::TrainingJob& job);

/// Sets or takes off the finalizer of a job that is not being deleted, as its spec wants it.
void plan_finalizer(const Observed& observed, Time now, Draft& draft);

}  // namespace trainyard::plan
