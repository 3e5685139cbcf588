#include "worker/rank/processors.hpp"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <fstream>

#include "api/contract.hpp"
#include "worker/rank/environment.hpp"

namespace trainyard::rank {
namespace {

constexpr std::int64_t millicores_max = 10'000'000;

std::string first_line(const char* path) {
  std::ifstream file{path};
  std::string line;
  std::getline(file, line);
  return line;
}

/// The container's CPU limit in the form of cgroup v2's cpu.max, also on nodes with cgroup v1, where a quota of -1
/// means no limit.
std::string container_cpu_max() {
  std::string limit = first_line("/sys/fs/cgroup/cpu.max");
  if (!limit.empty()) return limit;
  return first_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us") + " " + first_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
}

cpu_set_t affinity_mask() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) CPU_ZERO(&set);
  return set;
}

}  // namespace

std::int64_t threads_per_rank(const ProcessorFacts& facts, const RankCounts& ranks) {
  std::int64_t threads = facts.usable / std::max<std::int64_t>(1, ranks.on_node);
  const auto bound = [&](std::int64_t millicores, std::int64_t sharers) {
    threads = std::min(threads, millicores / (1000 * std::max<std::int64_t>(1, sharers)));
  };
  if (facts.limit_millicores) {
    bound(*facts.limit_millicores, ranks.in_container);
  } else if (facts.requested_millicores) {
    bound(*facts.requested_millicores, ranks.in_pod);
  }
  return std::max<std::int64_t>(1, threads);
}

ProcessorFacts read_processor_facts(const Environment& environment) {
  const cpu_set_t mask = affinity_mask();
  ProcessorFacts facts{.usable = std::max(1, CPU_COUNT(&mask)),
                       .limit_millicores = millicores_of_cpu_max(container_cpu_max())};
  const auto requested = optional_number(environment, contract::env_cpu_millicores, {.min = 1, .max = millicores_max});
  // A malformed value is ignored. So is 0, which the kubelet writes where there is no request.
  if (requested) facts.requested_millicores = *requested;
  return facts;
}

RankCounts rank_counts(const GroupEnvironment& environment) {
  const std::int64_t here = ranks_on_this_machine(environment);
  return {.in_container = here, .in_pod = environment.local_world_size, .on_node = here};
}

std::string shared_processors() {
  std::string text = first_line("/proc/sys/kernel/random/boot_id");
  const cpu_set_t mask = affinity_mask();
  for (std::size_t processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (CPU_ISSET(processor, &mask)) text += " " + std::to_string(processor);
  }
  return text;
}

std::optional<std::int64_t> millicores_of_cpu_max(std::string_view text) {
  const auto space = text.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  std::int64_t quota = 0;
  std::int64_t period = 0;
  const auto read = [](std::string_view digits, std::int64_t& number) {
    return std::from_chars(digits.data(), digits.data() + digits.size(), number).ec == std::errc{};
  };
  if (!read(text.substr(0, space), quota) || !read(text.substr(space + 1), period)) return std::nullopt;
  if (quota <= 0 || period <= 0 || quota / period > millicores_max) return std::nullopt;
  return static_cast<std::int64_t>(static_cast<double>(quota) / static_cast<double>(period) * 1000.0);
}

std::int64_t ranks_on_this_machine(const GroupEnvironment& environment) {
  return is_loopback(environment.master_address) ? environment.world_size : environment.local_world_size;
}

}  // namespace trainyard::rank
