#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "worker/rank/environment.hpp"
#include "worker/rank/group_environment.hpp"

namespace trainyard::rank {

/// "1" where the launcher, and not the user, has chosen its ranks' OMP_NUM_THREADS: they may choose another number once
/// they have met.
inline constexpr std::string_view env_chose_threads = "TRAINYARD_CHOSE_THREADS";

/// What bounds the processors of this process.
struct ProcessorFacts {
  std::int64_t usable = 1;                                ///< In its affinity mask.
  std::optional<std::int64_t> limit_millicores = {};      ///< The container's CPU limit; nothing: none is set.
  std::optional<std::int64_t> requested_millicores = {};  ///< contract::env_cpu_millicores.
};

/// How many ranks share a resource, this one included.
struct RankCounts {
  std::int64_t in_container = 1;  ///< Share the container's CPU limit.
  std::int64_t in_pod = 1;        ///< Share its CPU request.
  std::int64_t on_node = 1;       ///< Share the node's processors, as far as such ranks are known.
};

/// How many threads one rank computes with, at least 1. The container's limit decides, where there is none its request,
/// and in no case does a rank take more than its part of the node's processors: one thread too many costs more than
/// half of the speed. cgroup v2's cpu.weight is not looked at: it is a share and no count, and runtimes make it from
/// the request by different formulas. Pure.
[[nodiscard]] std::int64_t threads_per_rank(const ProcessorFacts& facts, const RankCounts& ranks);

[[nodiscard]] ProcessorFacts read_processor_facts(const Environment& environment);

/// The counts as far as a rank knows them before it has met the others.
[[nodiscard]] RankCounts rank_counts(const GroupEnvironment& environment);

/// Equal for processes that share processors: the node's boot, by which containers of one node are known, and the
/// affinity mask.
[[nodiscard]] std::string shared_processors();

/// Thousandths of a processor of a cgroup v2 `cpu.max` ("150000 100000" is 1500); nothing where there is no limit or it
/// is unreadable.
[[nodiscard]] std::optional<std::int64_t> millicores_of_cpu_max(std::string_view text);

/// All of the group where MASTER_ADDR is loopback, this pod's otherwise.
[[nodiscard]] std::int64_t ranks_on_this_machine(const GroupEnvironment& environment);

}  // namespace trainyard::rank
