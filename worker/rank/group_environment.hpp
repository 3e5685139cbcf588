#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/result.hpp"
#include "worker/rank/environment.hpp"

namespace trainyard::rank {

/// Set to "1" by the launcher for its ranks: rank 0's launcher hosts the store, on TRAINYARD_STORE_PORT.
inline constexpr std::string_view env_has_launcher = "TRAINYARD_HAS_LAUNCHER";

/// The folder of the launcher's program, set by the launcher for its ranks: what is installed with it lies there.
inline constexpr std::string_view env_launcher_folder = "TRAINYARD_LAUNCHER_FOLDER";

/// Where this process stands in its group, and where the group meets: the rank environment of contract.hpp, read and
/// checked.
struct GroupEnvironment {
  std::int64_t world_size = 1;
  std::int64_t local_world_size = 1;
  std::int64_t node_rank = 0;
  std::optional<std::int64_t> rank;  ///< Empty in a pod of several ranks, before the launcher has started them.
  std::int64_t local_rank = 0;

  std::string master_address = "127.0.0.1";
  std::uint16_t master_port = 0;
  std::uint16_t store_port = 0;
  std::uint16_t peer_port = 0;
  std::optional<std::uint16_t> status_port;  ///< Empty: nobody asked for /status.

  std::string job;  ///< "local" outside of a job.
  std::string job_namespace;
  std::string job_uid;  ///< Empty outside of a job: nobody tells one run from another.
  std::int64_t attempt = 1;

  bool has_launcher = false;
  bool uses_agent_store = false;   ///< torchrun hosts the store on MASTER_PORT, and supervises.
  std::int64_t restart_count = 0;  ///< torchrun's, or that of the job's attempts.

  bool operator==(const GroupEnvironment&) const = default;
};

/// ErrorKind::invalid, with the variable's name, for a value that is no number, out of range, or contradicts another;
/// and for MASTER_ADDR missing in a group of several. With nothing set: a group of one on this machine.
[[nodiscard]] Result<GroupEnvironment> parse_group_environment(const Environment& environment);

/// Whether all ranks are on this machine, judged by MASTER_ADDR being a literal loopback address or "localhost".
[[nodiscard]] bool is_loopback(std::string_view address);

}  // namespace trainyard::rank
