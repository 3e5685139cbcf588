#pragma once

#include <cstdlib>

namespace trainyard::fakes {

/// Before the first group of a process whose ranks are threads, and before those threads: c10d's flight recorder is one
/// for the process and reads this when the first group is made. Several ranks that write to it at once end in a
/// segmentation fault now and then.
inline void let_threads_be_ranks() {
  setenv("TORCH_FR_BUFFER_SIZE", "0", 1);  // NOLINT(concurrency-mt-unsafe): no rank thread runs yet.
}

}  // namespace trainyard::fakes
