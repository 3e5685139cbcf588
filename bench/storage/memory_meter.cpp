#include "bench/storage/memory_meter.hpp"

#include <sys/resource.h>

#include <fstream>
#include <string>

#include "common/check.hpp"

namespace trainyard::bench {
namespace {

// The bytes in the line of `field` in /proc/self/status, such as "VmHWM:   123 kB".
std::int64_t status_bytes(const std::string& field) {
  std::ifstream status{"/proc/self/status"};
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field + ":")) return std::stoll(line.substr(field.size() + 1)) * 1024;
  }
  check(false, "the kernel tells how much memory a process has");
  return 0;
}

}  // namespace

MemoryMeter::MemoryMeter() : resident_bytes_{status_bytes("VmRSS")} {
  std::ofstream{"/proc/self/clear_refs"} << 5;  // Resets the peak: proc(5).
}

std::int64_t MemoryMeter::peak_bytes_above() const {
  return status_bytes("VmHWM") - resident_bytes_;
}

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace trainyard::bench
