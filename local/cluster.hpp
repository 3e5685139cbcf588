#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>

#include "common/clock.hpp"
#include "local/memory_api.hpp"
#include "local/process_kubelet.hpp"
#include "operator/manager/controller.hpp"
#include "operator/manifest/cluster_traits.hpp"

namespace trainyard::local {

/// Addresses of pods that are processes of this machine: 127.0.0.1, and ports that were free when they were assigned.
/// No port is assigned twice. Any thread may call.
class LoopbackPorts {
 public:
  /// The address of the pod at `place`; equal places always get equal addresses.
  [[nodiscard]] manifest::PodAddress address_of(const manifest::PodPlace& place);

 private:
  std::uint16_t free_port();  // Needs mutex_.

  std::mutex mutex_;                                       // guards everything below
  std::map<std::string, manifest::PodAddress> addresses_;  // by namespace/pod
  std::set<std::uint16_t> given_;
  std::minstd_rand random_{std::random_device{}()};
};

struct ClusterOptions {
  ProcessKubeletOptions kubelet;
  manager::PollerOptions poller{.interval = std::chrono::milliseconds{200}};
};

/// Kubernetes and the operator in one process: an API server in memory, this machine as the only node, pods as child
/// processes (of which some may represent programs on other machines, by the kubelet's seats), and the operator's own
/// controller. Create a TrainingJob in api() and watch its status there. The destructor kills everything that runs; to
/// stop gracefully, suspend or delete the job and wait until its pods are gone.
class Cluster {
 public:
  /// `clock` must outlive the cluster.
  Cluster(const Clock& clock, ClusterOptions options);

  [[nodiscard]] MemoryApi& api() { return api_; }

 private:
  MemoryApi api_;
  LoopbackPorts ports_;
  ProcessKubelet kubelet_;
  manager::Counters counters_;
  manager::Controller controller_;  // Last: it stops acting before the pods are killed.
};

}  // namespace trainyard::local
