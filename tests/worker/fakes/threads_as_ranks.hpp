#pragma once

#include <cstdlib>

namespace trainyard::fakes {

/// Turns c10d's flight recorder off. To be called in a process whose ranks are threads, before these threads and the
/// first group: the process has one recorder, and ranks that write to it at once can crash.
inline void let_threads_be_ranks() {
  setenv("TORCH_FR_BUFFER_SIZE", "0", 1);  // NOLINT(concurrency-mt-unsafe): no rank thread runs yet.
}

}  // namespace trainyard::fakes
