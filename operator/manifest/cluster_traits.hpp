#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "api/training_job.hpp"
#include "operator/resource/resources.hpp"

namespace trainyard::manifest {

/// Identifies a pod, whether or not it exists yet.
struct PodPlace {
  std::string name_space;
  std::string service;
  std::string pod;
  std::int64_t attempt = 0;
  std::int64_t pod_index = 0;  ///< In the group.
  bool operator==(const PodPlace&) const = default;
};

struct PodAddress {
  std::string host;  ///< Name or address by which the pods of the attempt reach this pod.
  std::uint16_t master_port = 0;
  std::uint16_t store_port = 0;
  std::uint16_t peer_port = 0;
  std::uint16_t status_port = 0;
  bool operator==(const PodAddress&) const = default;
};

/// The difference between Kubernetes and `trainyard run`: how pods are reached.
struct ClusterTraits {
  /// Equal places give equal addresses for as long as the cluster lives, before the pod exists and after it has ended.
  /// Pods that may live at the same time never share both host and port. Any thread may call.
  std::function<PodAddress(const PodPlace&)> address_of;
};

/// `<pod>.<service>.<namespace>.svc` and the ports of the contract.
[[nodiscard]] ClusterTraits kubernetes_traits();

/// The URL at which the operator polls a pod of `job`: "http://10.0.0.7:29503/status". Empty before the pod has an IP,
/// and if its name is not one of the job's.
[[nodiscard]] std::optional<std::string> status_url(const ClusterTraits& traits, const api::TrainingJob& job,
                                                    const resource::Pod& pod);
/// The URL at which the operator asks a pod of `job` for a checkpoint: "http://10.0.0.7:29503/checkpoint". Empty in the
/// same cases as status_url().
[[nodiscard]] std::optional<std::string> request_url(const ClusterTraits& traits, const api::TrainingJob& job,
                                                     const resource::Pod& pod);

}  // namespace trainyard::manifest
