#pragma once

#include <cstdint>

namespace trainyard::checkpoint {

/// The bytes in memory at once while a data file is read from its beginning to its end.
inline constexpr std::uint64_t piece_bytes = std::uint64_t{32} << 20;

}  // namespace trainyard::checkpoint
