#pragma once

#include <chrono>
#include <filesystem>

#include "common/clock.hpp"
#include "local/loopback_ports.hpp"
#include "local/memory_api.hpp"
#include "local/process_kubelet.hpp"
#include "operator/manager/controller.hpp"

namespace trainyard::local {

struct ClusterOptions {
  ProcessKubeletOptions kubelet;
  manager::PollerOptions poller{.interval = std::chrono::milliseconds{200}};
};

/// Kubernetes and the operator in one process: an API server in memory, this machine as the only node, pods as child
/// processes, and the operator's own controller. Create a TrainingJob in api() and watch its status there. The
/// destructor kills everything that runs; to stop gracefully, suspend or delete the job and wait until its pods are
/// gone.
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
