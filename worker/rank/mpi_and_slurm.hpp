#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"
#include "worker/rank/environment.hpp"

namespace trainyard::rank {

/// The names in Slurm's short form of a list: "n[001-003,7],m2" is n001, n002, n003, n7 and m2. A name may have several
/// brackets ("r[1-2]n[1-2]"): the last one counts fastest. ErrorKind::invalid for other text, and for more names than a
/// group may have ranks.
[[nodiscard]] Result<std::vector<std::string>> expand_host_list(std::string_view text);

/// The number of node `index` (from 0) in Slurm's short form of counts: node 3 of "2(x3),1" has 1. ErrorKind::invalid
/// for other text, and where the list is shorter.
[[nodiscard]] Result<std::int64_t> count_of_node(std::string_view text, std::int64_t index);

inline constexpr std::int64_t ranks_max = 65'536;  ///< In a group.

/// ErrorKind::invalid, for variables that contradict each other as `message` says.
[[nodiscard]] tl::unexpected<Error> contradiction(std::string message);

/// `environment` in the words of contract.hpp, whatever program has started this process. environment.hpp says what is
/// in a rank's environment, variable by variable.
///
/// Returns `environment` itself where RANK or NODE_RANK is set (the operator, torchrun, a user), and where no known
/// launcher has set its own variables. Otherwise RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, NODE_RANK,
/// MASTER_ADDR, MASTER_PORT, TRAINYARD_STORE_PORT and TRAINYARD_PEER_PORT are added where they are not set, as far as
/// they are known from the first launcher of this list whose variables are set:
///   Open MPI  OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE
///   PMI       PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS (MPICH and Intel MPI)
///   Slurm     SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, SLURM_NODEID, SLURM_STEP_NODELIST or SLURM_JOB_NODELIST,
///             SLURM_JOB_ID
///   PMIx      PMIX_RANK, with WORLD_SIZE
/// MPI comes before Slurm, because in an allocation mpirun starts one daemon on each node by srun, and its ranks
/// inherit the daemon's Slurm variables. ErrorKind::invalid names the variable that is missing, is not a number in its
/// range or contradicts another one.
[[nodiscard]] Result<Environment> in_contract_words(const Environment& environment);

}  // namespace trainyard::rank
