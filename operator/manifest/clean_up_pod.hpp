#pragma once

#include <nlohmann/json_fwd.hpp>

#include "api/training_job.hpp"
#include "operator/manifest/settings.hpp"

namespace trainyard::manifest {

/// The pod that removes the job's checkpoints once none of its ranks runs. It has what rank 0's pod needs to reach the
/// storage: image, credentials, volumes, service account, scheduling. It has only the worker container, no devices, and
/// belongs to no attempt. The template must be without fault (containers.hpp).
[[nodiscard]] nlohmann::json build_clean_up_pod(const api::TrainingJob& job, const Settings& settings);

}  // namespace trainyard::manifest
