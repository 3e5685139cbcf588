#pragma once

#include <nlohmann/json_fwd.hpp>

#include "operator/resource/training_job.hpp"

namespace trainyard::plan {

/// The headless service that gives every pod of the job a name. Addresses are published before pods are ready: ranks
/// look for each other while they start.
[[nodiscard]] nlohmann::json build_service(const resource::TrainingJob& job);

}  // namespace trainyard::plan
