#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/cluster_access.hpp"

namespace trainyard::cli {

struct LogsOptions {
  std::string job;
  std::int64_t rank = 0;
  std::optional<std::int64_t> attempt;  ///< Absent: the newest.
  bool is_following = false;
  std::string folder;  ///< Of a run on this machine; empty: trainyard-runs/<job>, where that exists.
  ClusterChoice cluster;
};

/// `trainyard logs JOB`: what a rank wrote, on standard output. A run of this machine comes first, then the cluster
/// that kubectl would ask. Gives the exit code.
[[nodiscard]] int print_logs(const LogsOptions& options);

}  // namespace trainyard::cli
