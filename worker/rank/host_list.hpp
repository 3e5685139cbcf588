#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"

namespace trainyard::rank {

/// The names in Slurm's short form of a list: "n[001-003,7],m2" is n001, n002, n003, n7 and m2. A name may have several
/// brackets ("r[1-2]n[1-2]"): the last one counts fastest. ErrorKind::invalid for other text, and for more names than a
/// group may have ranks.
[[nodiscard]] Result<std::vector<std::string>> expand_host_list(std::string_view text);

/// The number of node `index` (from 0) in Slurm's short form of counts: node 3 of "2(x3),1" has 1. ErrorKind::invalid
/// for other text, and where the list is shorter.
[[nodiscard]] Result<std::int64_t> count_of_node(std::string_view text, std::int64_t index);

}  // namespace trainyard::rank
