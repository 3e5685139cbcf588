#pragma once

#include <nlohmann/json_fwd.hpp>

#include "api/training_job.hpp"

namespace trainyard::manifest {

/// The headless service that gives every pod of the job a host name. It publishes addresses before pods are ready,
/// because ranks look each other up while they start.
[[nodiscard]] nlohmann::json build_service(const api::TrainingJob& job);

}  // namespace trainyard::manifest
