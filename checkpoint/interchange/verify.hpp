#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/format/layout.hpp"
#include "checkpoint/run/inventory.hpp"
#include "common/result.hpp"
#include "storage/store.hpp"

namespace trainyard::checkpoint {

/// The bytes in memory at once while a data file is read from its beginning to its end.
inline constexpr std::uint64_t piece_bytes = std::uint64_t{32} << 20;

/// The result of verify().
struct Verification {
  std::vector<std::string> damages;  ///< One sentence each, with the file's name. Empty: the checkpoint is whole.
  std::uint64_t bytes = 0;           ///< The bytes of data files that were read.
};

/// Reads every byte of a checkpoint, `piece_bytes` (at least 1) at a time. Checks the manifest, the size and checksum
/// of each data file, the checksum of each chunk, and that the chunks hold every entry exactly once. An error is the
/// store's, and says nothing about the checkpoint.
[[nodiscard]] Result<Verification> verify(storage::Store& store, const Inventory& inventory, const CheckpointId& id,
                                          std::uint64_t piece_bytes = std::uint64_t{32} << 20);

}  // namespace trainyard::checkpoint
