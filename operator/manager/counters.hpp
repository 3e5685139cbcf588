#pragma once

#include <atomic>
#include <cstdint>

namespace trainyard::manager {

/// Counters of a process since its start, over all times that it led. Any thread.
struct Counters {
  std::atomic<std::int64_t> reconciles = 0;
  std::atomic<std::int64_t> reconcile_errors = 0;
};

}  // namespace trainyard::manager
