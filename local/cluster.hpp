#pragma once

#include <chrono>
#include <filesystem>

#include "common/clock.hpp"
#include "local/loopback_ports.hpp"
#include "local/memory_api.hpp"
#include "local/process_kubelet.hpp"
#include "operator/manager/controller.hpp"
#include "operator/manager/counters.hpp"

namespace trainyard::local {

struct ClusterOptions {
  ProcessKubeletOptions kubelet;
  manager::PollerOptions poller{.interval = std::chrono::milliseconds{200}};
};

/// Kubernetes and the operator in one process, with this machine for a node: the API server in memory, pods as child
/// processes, and the operator's own controller between them. Apply a TrainingJob to api(), watch its status there.
/// Everything that runs is killed by the destructor; to stop gracefully, suspend or delete the job and wait for its
/// pods to go.
class Cluster {
 public:
  /// `clock` outlives the cluster.
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
