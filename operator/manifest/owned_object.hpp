#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "api/training_job.hpp"

namespace trainyard::manifest {

/// The controller that every object of the job names.
[[nodiscard]] api::OwnerReference owner_reference(const api::TrainingJob& job);

/// Metadata of an object that the job owns: its name, its owner and the label of the job. With the owner the object
/// ends too.
[[nodiscard]] nlohmann::json owned_metadata(const api::TrainingJob& job, const std::string& name);

}  // namespace trainyard::manifest
