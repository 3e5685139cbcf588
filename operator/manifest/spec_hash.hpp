#pragma once

#include <string>
#include <string_view>

#include "api/training_job.hpp"
#include "operator/resource/pod.hpp"

namespace trainyard::manifest {

/// Annotation on pods: what they were made from.
inline constexpr std::string_view spec_hash_annotation = "trainyard.dev/spec-hash";

/// Of those parts of the spec that reach pods. An edit that leaves it equal (a budget, a deadline) needs no new
/// attempt.
[[nodiscard]] std::string spec_hash(const api::TrainingJobSpec& spec);

/// Empty where the pod carries none.
[[nodiscard]] std::string spec_hash_of(const resource::Pod& pod);

}  // namespace trainyard::manifest
