#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "worker/rank/environment.hpp"
#include "worker/rank/group_environment.hpp"

namespace trainyard::rank {

/// The launcher sets it to "1" for its ranks when it, and not the user, chose their OMP_NUM_THREADS. The ranks may then
/// choose another number once the group has formed.
inline constexpr std::string_view env_chose_threads = "TRAINYARD_CHOSE_THREADS";

/// The limits on the processors that this process may use.
struct ProcessorFacts {
  std::int64_t usable = 1;                                ///< Processors in the affinity mask.
  std::optional<std::int64_t> limit_millicores = {};      ///< The container's CPU limit, where one is set.
  std::optional<std::int64_t> requested_millicores = {};  ///< The CPU request (contract::env_cpu_millicores).
};

/// How many ranks share a resource, this one included.
struct RankCounts {
  std::int64_t in_container = 1;  ///< These ranks share the container's CPU limit.
  std::int64_t in_pod = 1;        ///< These ranks share the CPU request.
  std::int64_t on_node = 1;  ///< These ranks share the node's processors. Ranks that are not known yet are missing.
};

/// How many threads one rank computes with, at least 1: its part of the container's CPU limit, or of the request where
/// there is no limit, and never more than its part of the node's processors, because one thread too many costs more
/// than half of the speed. Pure.
[[nodiscard]] std::int64_t threads_per_rank(const ProcessorFacts& facts, const RankCounts& ranks);

[[nodiscard]] ProcessorFacts read_processor_facts(const Environment& environment);

/// The counts that a rank knows before the group has formed.
[[nodiscard]] RankCounts rank_counts(const GroupEnvironment& environment);

/// A text that is equal for processes that share processors: the boot id, which is equal in all containers of a node,
/// and the affinity mask.
[[nodiscard]] std::string shared_processors();

/// Millicores of a cgroup v2 `cpu.max`: "150000 100000" is 1500. Nothing when `text` sets no limit or is malformed.
[[nodiscard]] std::optional<std::int64_t> millicores_of_cpu_max(std::string_view text);

/// The ranks of the whole group where MASTER_ADDR is loopback, and those of this pod otherwise.
[[nodiscard]] std::int64_t ranks_on_this_machine(const GroupEnvironment& environment);

}  // namespace trainyard::rank
