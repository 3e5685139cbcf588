#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "operator/plan/cluster_traits.hpp"
#include "operator/plan/settings.hpp"
#include "operator/resource/training_job.hpp"

namespace trainyard::plan {

/// terminationGracePeriodSeconds of the job's pods: the template's, else 120 where there is a checkpoint to save,
/// else 30.
[[nodiscard]] std::int64_t grace_seconds(const resource::TrainingJobSpec& spec);

/// The pod of `rank` in the attempt that `job.status` records: the template, and what a member of the group needs
/// besides. The template must be without fault (containers.hpp).
[[nodiscard]] nlohmann::json build_pod(const resource::TrainingJob& job, std::int64_t rank, const ClusterTraits& traits,
                                       const Settings& settings);

}  // namespace trainyard::plan
