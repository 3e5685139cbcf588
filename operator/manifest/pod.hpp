#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "api/training_job.hpp"
#include "operator/manifest/cluster_traits.hpp"
#include "operator/manifest/settings.hpp"

namespace trainyard::manifest {

/// The pod of `rank` in the attempt that `job.status` records: the template, and what a member of the group needs
/// besides. The template must be without fault (containers.hpp).
[[nodiscard]] nlohmann::json build_pod(const api::TrainingJob& job, std::int64_t rank, const ClusterTraits& traits,
                                       const Settings& settings);

}  // namespace trainyard::manifest
