#pragma once

#include <string>
#include <string_view>

#include "api/training_job.hpp"
#include "operator/resource/resources.hpp"

namespace trainyard::manifest {

/// Annotation on pods: spec_hash() of the spec that the pod was made from.
inline constexpr std::string_view spec_hash_annotation = "trainyard.dev/spec-hash";

/// Hash of those parts of the spec that reach pods. An edit that leaves the hash equal (a budget, a deadline) needs no
/// new attempt.
[[nodiscard]] std::string spec_hash(const api::TrainingJobSpec& spec);

/// The hash that the pod carries; empty if it carries none.
[[nodiscard]] std::string spec_hash_of(const resource::Pod& pod);

}  // namespace trainyard::manifest
