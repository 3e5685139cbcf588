#include "operator/manifest/pod_environment.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "api/contract.hpp"
#include "operator/manifest/containers.hpp"
#include "operator/manifest/names.hpp"

namespace trainyard::manifest {
namespace {

/// The value of TRAINYARD_SPEC, with paths as they are inside the container.
std::string worker_spec(const api::TrainingJobSpec& spec) {
  nlohmann::json parts = nlohmann::json::object();
  if (spec.training) {
    api::TrainingSpec training = *spec.training;
    if (!training.data.volume_claim.empty()) {
      const std::string& path = training.data.path;
      training.data.path =
          path.empty() ? std::string{contract::data_mount_path} : fmt::format("{}/{}", contract::data_mount_path, path);
    }
    parts["training"] = api::to_json(training);
  }
  if (spec.checkpoint) parts["checkpoint"] = worker_checkpoint(*spec.checkpoint);
  return parts.dump();
}

}  // namespace

nlohmann::json worker_checkpoint(const api::CheckpointSpec& spec) {
  nlohmann::json parts = api::to_json(spec);
  parts.erase("onSuspend");
  parts.erase("onDelete");
  return parts;
}

Environment pod_environment(const api::TrainingJob& job, std::int64_t replicas, std::int64_t pod_index,
                            std::int64_t grace_seconds, const ClusterTraits& traits) {
  const std::int64_t attempt = job.status.attempt;
  const std::int64_t local_world_size = ranks_per_pod(job.spec);
  // MASTER_ADDR is the full name of rank 0's pod in this attempt. A name that attempts share would also resolve to a
  // pod that is still terminating.
  const PodAddress master = traits.address_of(place_of(job, attempt, 0));
  const PodAddress own = traits.address_of(place_of(job, attempt, pod_index));

  Environment environment;
  const auto add = [&](std::string_view name, auto&& value) {
    environment.emplace_back(name, fmt::format("{}", value));
  };
  add(contract::env_master_addr, master.host);
  add(contract::env_master_port, master.master_port);
  add(contract::env_world_size, replicas * local_world_size);
  add(contract::env_local_world_size, local_world_size);
  add(contract::env_node_rank, pod_index);
  add(contract::env_group_rank, pod_index);
  add(contract::env_group_world_size, replicas);
  add(contract::env_role_name, contract::default_role);
  add(contract::env_role_world_size, replicas * local_world_size);
  if (local_world_size == 1) {
    add(contract::env_rank, pod_index);
    add(contract::env_local_rank, 0);
    add(contract::env_role_rank, pod_index);
  }
  add(contract::env_elastic_run_id, job.metadata.uid);
  add(contract::env_elastic_restart_count, attempt - 1);
  add(contract::env_elastic_max_restarts, job.spec.restart.application.max);
  add(contract::env_elastic_use_agent_store, contract::torch_false);
  add(contract::env_pet_nnodes, replicas);
  add(contract::env_pet_nproc_per_node, local_world_size);
  add(contract::env_pet_node_rank, pod_index);
  add(contract::env_pet_master_addr, master.host);
  add(contract::env_pet_master_port, master.master_port);
  add(contract::env_pet_rdzv_id, job.metadata.uid);

  add(contract::env_job, job.metadata.name);
  add(contract::env_namespace, job.metadata.name_space);
  add(contract::env_job_uid, job.metadata.uid);
  add(contract::env_attempt, attempt);
  add(contract::env_spec, worker_spec(job.spec));
  add(contract::env_store_port, master.store_port);
  add(contract::env_peer_port, master.peer_port);
  add(contract::env_status_port, own.status_port);
  add(contract::env_grace_seconds, grace_seconds);
  add(contract::env_gpus_per_pod, job.spec.gpus_per_pod);
  return environment;
}

}  // namespace trainyard::manifest
