#pragma once

#include <cstdint>

namespace trainyard::bench {

/// The growth of this process's resident memory to its peak, since the meter was made. Use one meter at a time, since
/// the kernel keeps one peak for a process.
class MemoryMeter {
 public:
  MemoryMeter();
  [[nodiscard]] std::int64_t peak_bytes_above() const;

 private:
  std::int64_t resident_bytes_;
};

/// The CPU time, user and system, of this process with all its threads.
[[nodiscard]] double cpu_seconds();

}  // namespace trainyard::bench
