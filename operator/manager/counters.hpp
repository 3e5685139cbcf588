#pragma once

#include <atomic>
#include <cstdint>

namespace trainyard::manager {

/// What a process has done since its start, whichever times it led. Any thread.
struct Counters {
  std::atomic<std::int64_t> reconciles = 0;
  std::atomic<std::int64_t> reconcile_errors = 0;
};

}  // namespace trainyard::manager
