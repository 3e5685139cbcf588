#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "operator/plan/cluster_traits.hpp"
#include "operator/plan/settings.hpp"
#include "operator/resource/training_job.hpp"

namespace trainyard::plan {

/// The pod of `rank` in the attempt that `job.status` records: the template, and what a member of the group needs
/// besides. The template must be without fault (containers.hpp).
[[nodiscard]] nlohmann::json build_pod(const resource::TrainingJob& job, std::int64_t rank, const ClusterTraits& traits,
                                       const Settings& settings);

}  // namespace trainyard::plan
