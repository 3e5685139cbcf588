#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "api/training_job.hpp"
#include "operator/manifest/cluster_traits.hpp"

namespace trainyard::manifest {

using Environment = std::vector<std::pair<std::string, std::string>>;

/// spec.checkpoint without what is the operator's own business: an edit of that reaches no pod.
[[nodiscard]] nlohmann::json worker_checkpoint(const api::CheckpointSpec& spec);

/// What the pod of `rank` must know to join its group: torch.distributed's and torchrun's variables, and ours
/// (api/contract.hpp). `replicas` is the size of this attempt's group in pods. `grace_seconds` is the pod's
/// termination grace period.
[[nodiscard]] Environment rank_environment(const api::TrainingJob& job, std::int64_t replicas, std::int64_t rank,
                                           std::int64_t grace_seconds, const ClusterTraits& traits);

}  // namespace trainyard::manifest
