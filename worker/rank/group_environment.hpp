#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/result.hpp"
#include "worker/rank/environment.hpp"

namespace trainyard::rank {

/// The launcher sets it to "1" for its ranks. Rank 0's launcher then hosts the rendezvous store, on
/// TRAINYARD_STORE_PORT.
inline constexpr std::string_view env_has_launcher = "TRAINYARD_HAS_LAUNCHER";

/// The launcher sets it for its ranks to the folder of its own program, where the other programs and libraries are.
inline constexpr std::string_view env_launcher_folder = "TRAINYARD_LAUNCHER_FOLDER";

/// Deadlines in seconds that users may set: for forming the group, for a rank without progress, for one collective.
inline constexpr std::string_view env_rendezvous_seconds = "TRAINYARD_RENDEZVOUS_SECONDS";
inline constexpr std::string_view env_hang_seconds = "TRAINYARD_HANG_SECONDS";
inline constexpr std::string_view env_collective_seconds = "TRAINYARD_COLLECTIVE_SECONDS";

/// The part of a rank's environment (environment.hpp has all of it) that says where the rank is and where the group
/// meets, parsed and checked.
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
  std::optional<std::uint16_t> status_port;  ///< Empty: no /status is served.

  std::string job;  ///< "local" outside of a job.
  std::string job_namespace;
  std::string job_uid;  ///< Empty outside of a job: runs then cannot be told apart.
  std::int64_t attempt = 1;

  bool has_launcher = false;
  bool uses_agent_store = false;  ///< torchrun hosts the rendezvous store on MASTER_PORT and supervises the ranks.

  bool operator==(const GroupEnvironment&) const = default;
};

/// Reads the variables of contract.hpp, or those of another launcher (mpi_and_slurm.hpp). ErrorKind::invalid names
/// the variable whose value is not a number, is out of range or contradicts another variable, or MASTER_ADDR where a
/// group of several ranks lacks it. With no variable set, the group is one rank on this machine.
[[nodiscard]] Result<GroupEnvironment> parse_group_environment(const Environment& given);

/// True when `address` is a loopback literal or "localhost". With such a MASTER_ADDR all ranks are on this machine.
[[nodiscard]] bool is_loopback(std::string_view address);

}  // namespace trainyard::rank
