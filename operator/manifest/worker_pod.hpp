#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "api/training_job.hpp"
#include "operator/manifest/rank_environment.hpp"
#include "operator/manifest/settings.hpp"

/// What all pods of a job have in common, those of its ranks and the one that cleans up after them. The template must
/// be without fault (containers.hpp).
namespace trainyard::manifest {

/// terminationGracePeriodSeconds of the job's pods: the template's, else 120 where there is a checkpoint to save,
/// else 30.
[[nodiscard]] std::int64_t grace_seconds(const api::TrainingJobSpec& spec);

/// The job's metadata for a pod, with the labels and annotations that the user wants pods to have.
[[nodiscard]] nlohmann::json worker_metadata(const api::TrainingJob& job, const std::string& name);

/// The container that decides; made where `pod_spec` has none.
[[nodiscard]] nlohmann::json& choose_worker(nlohmann::json& pod_spec);

/// Gives the container its image (`image` where the template names none), and `ours` as its environment before the
/// user's own.
void complete_worker(nlohmann::json& worker, const api::TrainingJobSpec& spec, const std::string& image,
                     const Environment& ours);

/// Gives the container the job's Secret, as its clouds' clients want it.
void add_credentials(nlohmann::json& pod_spec, nlohmann::json& worker, const api::TrainingJobSpec& spec);

/// Gives the pod, whose containers are complete, what every pod of ours needs.
void complete_pod(nlohmann::json& pod_spec, const api::TrainingJob& job, const Settings& settings);

/// Keeps the pod off the nodes whose label kubernetes.io/hostname is one of `host_names`, in addition to the affinity
/// that the template has.
void avoid_hosts(nlohmann::json& pod_spec, const std::vector<std::string>& host_names);

}  // namespace trainyard::manifest
