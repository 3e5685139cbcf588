#pragma once

#include <nlohmann/json_fwd.hpp>

#include "api/training_job.hpp"

namespace trainyard::manifest {

/// The headless service that gives every pod of the job a name. Addresses are published before pods are ready: ranks
/// look for each other while they start.
[[nodiscard]] nlohmann::json build_service(const api::TrainingJob& job);

}  // namespace trainyard::manifest
