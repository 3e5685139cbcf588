#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "api/training_job.hpp"
#include "operator/manifest/pod_environment.hpp"
#include "operator/manifest/settings.hpp"

/// The parts that all pods of a job share: the pods of ranks and the clean-up pod. The template must be without fault
/// (containers.hpp).

namespace trainyard::manifest {

/// terminationGracePeriodSeconds of the job's pods: the template's, else 120 if the job saves checkpoints, else 30.
[[nodiscard]] std::int64_t grace_seconds(const api::TrainingJobSpec& spec);

/// Metadata of the job's pod `name`, with the template's labels and annotations.
[[nodiscard]] nlohmann::json worker_metadata(const api::TrainingJob& job, const std::string& name);

/// The worker container; adds one if `pod_spec` has no containers.
[[nodiscard]] nlohmann::json& choose_worker(nlohmann::json& pod_spec);

/// Sets the container's image (`image` if the template names none) and its environment: `ours`, then those of the
/// user's own variables that have other names.
void complete_worker(nlohmann::json& worker, const api::TrainingJobSpec& spec, const std::string& image,
                     const Environment& ours);

/// Gives the container the job's Secret in the form that the clients of the job's clouds read.
void add_credentials(nlohmann::json& pod_spec, nlohmann::json& worker, const api::TrainingJobSpec& spec);

/// Adds what every pod of the job needs. The containers must be complete.
void complete_pod(nlohmann::json& pod_spec, const api::TrainingJob& job, const Settings& settings);

/// Keeps the pod off the nodes whose label kubernetes.io/hostname is one of `host_names`, in addition to the affinity
/// that the template has.
void avoid_hosts(nlohmann::json& pod_spec, const std::vector<std::string>& host_names);

/// Mounts a memory-backed emptyDir at /dev/shm: the runtime's own has 64 MiB, too little for NCCL and data loaders.
/// Does nothing if the worker mounts something there itself.
void add_shared_memory(nlohmann::json& pod_spec, nlohmann::json& worker);

/// Mounts the volume claim read-only at contract::data_mount_path.
void add_data_volume_claim(nlohmann::json& pod_spec, nlohmann::json& worker, const std::string& volume_claim);

/// Mounts the Secret's keys as files at contract::google_credentials_folder.
void add_google_credentials(nlohmann::json& pod_spec, nlohmann::json& worker, const std::string& secret);

}  // namespace trainyard::manifest
