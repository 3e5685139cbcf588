#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "operator/resource/training_job.hpp"

namespace trainyard::plan {

/// The controller that every object of the job names.
[[nodiscard]] resource::OwnerReference owner_reference(const resource::TrainingJob& job);

/// Metadata of an object that the job owns: its name, its owner and the label of the job. With the owner the object
/// ends too.
[[nodiscard]] nlohmann::json owned_metadata(const resource::TrainingJob& job, const std::string& name);

}  // namespace trainyard::plan
