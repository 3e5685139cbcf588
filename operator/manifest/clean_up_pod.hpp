#pragma once

#include <nlohmann/json_fwd.hpp>

#include "api/training_job.hpp"
#include "operator/manifest/settings.hpp"

namespace trainyard::manifest {

/// The pod that removes what the job has saved, once no rank of it runs any more: rank 0's, as far as that reaches the
/// storage (image, credentials, volumes, service account, where it may run), with the worker's container alone and
/// without devices. It stands outside the attempts. The template must be without fault (containers.hpp).
[[nodiscard]] nlohmann::json build_clean_up_pod(const api::TrainingJob& job, const Settings& settings);

}  // namespace trainyard::manifest
