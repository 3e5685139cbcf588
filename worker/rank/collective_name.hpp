#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// The names of collectives in which some ranks take part, the members of a process set. The ranks give a collective
/// its name, and the launchers compare the names in which ranks wait (worker/launcher/collective_mismatch.hpp).
namespace trainyard::rank {

/// The name of a process set in messages, such as `the process set "encoder" (2 ranks)`. A long `set` is shortened, so
/// that a message carries the whole name of a collective, and has its hash behind it, which distinguishes it from other
/// sets with its beginning. Equal in all ranks of a job, which have one program. Pure.
[[nodiscard]] std::string name_of_set(std::string_view set, std::int64_t ranks);

/// Such as `all_reduce of the process set "encoder" (2 ranks)`. Pure.
[[nodiscard]] std::string name_of_set_collective(std::string_view call, std::string_view set, std::int64_t ranks);

/// How many ranks take part in a collective whose name ends with name_of_set(). Nothing for other names: all ranks take
/// part. Pure.
[[nodiscard]] std::optional<std::int64_t> ranks_of_set_collective(std::string_view name);

}  // namespace trainyard::rank
