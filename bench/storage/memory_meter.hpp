#pragma once

#include <cstdint>

namespace trainyard::bench {

/// This process's peak of resident memory above what it has when the meter is made. One at a time, since the kernel
/// keeps one peak for a process.
class MemoryMeter {
 public:
  MemoryMeter();
  [[nodiscard]] std::int64_t peak_bytes_above() const;

 private:
  std::int64_t resident_bytes_;
};

/// User's and system's CPU time of this process with all its threads.
[[nodiscard]] double cpu_seconds();

}  // namespace trainyard::bench
