#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// The names of collectives in which some ranks take part, the members of a process set. The ranks give a collective
/// its name, and the launchers compare the names in which ranks wait (worker/launcher/collective_mismatch.hpp).
namespace trainyard::rank {

/// Such as `all_reduce of the process set "encoder" (2 ranks)`. Shortens `set` so that a message carries the whole
/// name. Pure.
[[nodiscard]] std::string name_of_set_collective(std::string_view call, std::string_view set, std::int64_t ranks);

/// How many ranks take part in a collective that name_of_set_collective() has named. Nothing for other names: all ranks
/// take part. Pure.
[[nodiscard]] std::optional<std::int64_t> ranks_of_set_collective(std::string_view name);

}  // namespace trainyard::rank
