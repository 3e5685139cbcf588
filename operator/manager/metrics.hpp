#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "api/training_job.hpp"

namespace trainyard::manager {

/// What /metrics tells. As many series as there are phases and no more, however many jobs there are.
struct OperatorMetrics {
  bool is_leader = false;
  std::int64_t reconciles = 0;
  std::int64_t reconcile_errors = 0;
  std::int64_t queue_size = 0;
  std::int64_t watch_restarts = 0;
  std::map<api::Phase, std::int64_t> jobs_by_phase;
};

/// In Prometheus' text format.
[[nodiscard]] std::string metrics_page(const OperatorMetrics& metrics);

}  // namespace trainyard::manager
