#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "api/training_job.hpp"

namespace trainyard::manager {

/// Values of /metrics. The number of series depends on the number of phases, not of jobs.
struct OperatorMetrics {
  bool is_leader = false;
  std::int64_t reconciles = 0;
  std::int64_t reconcile_errors = 0;
  std::int64_t queue_size = 0;
  std::int64_t watch_restarts = 0;
  std::map<api::Phase, std::int64_t> jobs_by_phase;
};

/// `metrics` in Prometheus' text format.
[[nodiscard]] std::string metrics_page(const OperatorMetrics& metrics);

}  // namespace trainyard::manager
