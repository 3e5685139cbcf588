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

/// spec.checkpoint without the fields that only the operator reads. An edit of those fields reaches no pod.
[[nodiscard]] nlohmann::json worker_checkpoint(const api::CheckpointSpec& spec);

/// The variables by which the pod of `pod_index` joins its group: torch.distributed's, torchrun's and ours
/// (api/contract.hpp). `replicas` is the number of pods in this attempt. `grace_seconds` is the pod's termination grace
/// period. Three functions add to these:
///  - build_pod() (objects.hpp): the request token, the node's name, the CPU request, the variables of the credentials'
///    Secret and those of TPUs (tpu.hpp);
///  - complete_worker() (worker_pod.hpp): the template's own variables, and defaults for some that the template does
///    not set;
///  - complete_pod() (worker_pod.hpp): HOME and USER where the template chooses no user (security.hpp).
///
/// For each rank, the launcher replaces rank numbers, adds its own variables and removes the token:
/// complete_rank_environment() (worker/launcher/rank_process.hpp). A template's variable with a name that this function
/// or build_pod() sets is dropped.
///
/// The operator's names are in api/contract.hpp, the launcher's own in worker/rank/group_environment.hpp (the launcher
/// and its folder), rank_message.hpp (the link's descriptor) and processors.hpp (the number of threads). Rank 3 of four
/// pods of one rank has RANK, NODE_RANK, GROUP_RANK and ROLE_RANK 3, LOCAL_RANK 0 and WORLD_SIZE 4. MASTER_ADDR is the
/// full name of rank 0's pod in this attempt. All of rank 3's variables, by who sets them: worker/rank/environment.hpp.
[[nodiscard]] Environment pod_environment(const api::TrainingJob& job, std::int64_t replicas, std::int64_t pod_index,
                                          std::int64_t grace_seconds, const ClusterTraits& traits);

}  // namespace trainyard::manifest
