#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>

#include "api/training_job.hpp"
#include "operator/manifest/settings.hpp"

namespace trainyard::manifest {

/// The template's container that trains: the one named `worker`, or the only one. Null if there is neither.
[[nodiscard]] const nlohmann::json* find_worker(const nlohmann::json& pod_template);

/// True when the operator supplies the worker's image.
[[nodiscard]] bool needs_worker_image(const api::TrainingJobSpec& spec);
/// The operator's image for this job's devices; empty if it was installed without one.
[[nodiscard]] const std::string& worker_image(const api::TrainingJobSpec& spec, const Settings& settings);

/// Name of the worker container in a pod whose containers are `names`. Its exit code decides how the pod ended.
[[nodiscard]] std::string deciding_container(const api::TrainingJobSpec& spec, const std::vector<std::string>& names);

/// One sentence that says why no pod can be made from the job's template; empty if one can.
[[nodiscard]] std::string template_fault(const api::TrainingJobSpec& spec, const Settings& settings);

/// A sentence about the first field of a pod template that has a wrong type; empty if there is none. Checks only the
/// fields that the operator reads or adds to. The API server checks all others.
[[nodiscard]] std::string template_shape_fault(const nlohmann::json& pod_template);

}  // namespace trainyard::manifest
