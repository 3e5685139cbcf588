#pragma once

#include <chrono>

#include "operator/plan/draft.hpp"

namespace trainyard::plan {

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
