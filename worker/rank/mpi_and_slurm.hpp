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

/// `environment` in the words of contract.hpp, whatever program has started this process. Returned as it is where RANK
/// or NODE_RANK is set (the operator, torchrun, a user), and where no known launcher has set its own variables.
/// Otherwise the rank's place, the master's address and the three ports are added where they are not set, as far as
/// they are known. docs/launching.md has each launcher's variables, and the order in which launchers are looked for.
///
/// ErrorKind::invalid names the variable that is missing, is not a number in its range or contradicts another one.
[[nodiscard]] Result<Environment> in_contract_words(const Environment& environment);

}  // namespace trainyard::rank
