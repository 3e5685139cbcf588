#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "api/training_job.hpp"
#include "operator/manifest/settings.hpp"

namespace trainyard::manifest {

/// The template's container that trains: the one named `worker`, or the only one. Null where there is none to choose.
[[nodiscard]] const nlohmann::json* find_worker(const nlohmann::json& pod_template);

/// Whether the operator has to supply the image.
[[nodiscard]] bool needs_worker_image(const api::TrainingJobSpec& spec);
/// The operator's image for this job's devices; empty where it was installed without one.
[[nodiscard]] const std::string& worker_image(const api::TrainingJobSpec& spec, const Settings& settings);

/// Name of the container whose status decides, in a pod whose container names are `names`.
[[nodiscard]] std::string deciding_container(const api::TrainingJobSpec& spec, const std::vector<std::string>& names);

/// Why no pod can be made of the job's template: one sentence; empty where one can.
[[nodiscard]] std::string template_fault(const api::TrainingJobSpec& spec, const Settings& settings);

}  // namespace trainyard::manifest
