#pragma once

#include <cstdint>

namespace trainyard::checkpoint {

/// How much of a data file is in memory at once while the file is read from its beginning to its end.
inline constexpr std::uint64_t piece_bytes = std::uint64_t{32} << 20;

}  // namespace trainyard::checkpoint
