#pragma once

#include <chrono>
#include <string_view>

#include "operator/plan/draft.hpp"
#include "operator/plan/plan.hpp"

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

/// How long the operator tries to remove a deleted job's checkpoints, counted from when it first saw the deletion.
/// After that the checkpoints stay: a job that cannot be deleted is worse.
inline constexpr std::chrono::minutes clean_up_deadline{10};

/// How long to wait for a pod after its deletion time. The clean-up's claim fences a pod that hangs longer.
inline constexpr std::chrono::seconds hung_pod_wait{30};

/// Applies spec.checkpoint.onDelete to a job that is being deleted and has our finalizer: ends its pods, then removes
/// its checkpoints by a pod, then removes the finalizer. If the checkpoints cannot be removed, an event says so and the
/// finalizer is removed all the same.
void plan_deletion(const Observed& observed, Time now, Draft& draft);

}  // namespace trainyard::plan
