#include "worker/launcher/processors.hpp"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string>

namespace trainyard::launcher {
namespace {

std::string first_line(const char* path) {
  std::ifstream file{path};
  std::string line;
  std::getline(file, line);
  return line;
}

/// In the form of cgroup v2, also where the node has version 1, in which a quota of -1 is no limit.
std::string container_cpu_max() {
  std::string limit = first_line("/sys/fs/cgroup/cpu.max");
  if (!limit.empty()) return limit;
  return first_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us") + " " + first_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
}

}  // namespace

std::int64_t processors_of_cpu_max(std::string_view text) {
  const auto space = text.find(' ');
  if (space == std::string_view::npos) return 0;
  std::int64_t quota = 0;
  std::int64_t period = 0;
  const auto read = [](std::string_view digits, std::int64_t& number) {
    return std::from_chars(digits.data(), digits.data() + digits.size(), number).ec == std::errc{};
  };
  if (!read(text.substr(0, space), quota) || !read(text.substr(space + 1), period) || quota <= 0 || period <= 0)
    return 0;
  return std::max<std::int64_t>(1, quota / period);
}

std::int64_t usable_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::int64_t processors = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
  if (const std::int64_t limit = processors_of_cpu_max(container_cpu_max()); limit > 0) {
    processors = std::min(processors, limit);
  }
  return std::max<std::int64_t>(1, processors);
}

std::int64_t ranks_on_this_machine(const GroupEnvironment& environment) {
  return is_loopback(environment.master_address) ? environment.world_size : environment.local_world_size;
}

}  // namespace trainyard::launcher
