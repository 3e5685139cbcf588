#pragma once

#include <chrono>

#include "operator/plan/draft.hpp"

namespace trainyard::plan {

/// For how long the checkpoints of a job that is being deleted are tried to be removed, from when that is first seen.
/// After it they stay: a job that cannot be deleted is worse.
inline constexpr std::chrono::minutes clean_up_deadline{10};

/// How long a pod that should be gone is still waited for: what hangs longer is fenced by the clean-up's claim.
inline constexpr std::chrono::seconds hung_pod_wait{30};

/// spec.checkpoint.onDelete, of a job that is being deleted and has our finalizer: its pods end, then one pod removes
/// what they have saved, then the finalizer goes. It goes as well where that cannot be done, which an event tells.
void plan_deletion(const Observed& observed, Time now, Draft& draft);

}  // namespace trainyard::plan
