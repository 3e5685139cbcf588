#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "api/training_job.hpp"
#include "operator/manifest/cluster_traits.hpp"
#include "operator/manifest/settings.hpp"

namespace trainyard::manifest {

/// The pod of `rank` in the current attempt of `job`: the template, completed with what a member of the group needs.
/// The template must be without fault (containers.hpp).
[[nodiscard]] nlohmann::json build_pod(const api::TrainingJob& job, std::int64_t rank, const ClusterTraits& traits,
                                       const Settings& settings);

}  // namespace trainyard::manifest
