#pragma once

#include <string>
#include <vector>

#include "checkpoint/format/layout.hpp"
#include "checkpoint/run/inventory.hpp"
#include "common/result.hpp"
#include "storage/store.hpp"

namespace trainyard::checkpoint {

struct Verification {
  std::vector<std::string> damages;  ///< Each names the file, and the entry where it is one's. Empty: all is whole.
  std::uint64_t bytes = 0;           ///< Of data read.
};

/// Reads every byte of a checkpoint: the manifest, each data file's size and checksum and those of the chunks in it,
/// and whether the chunks hold every entry exactly once. `piece_bytes`, at least 1, are read at a time. An error is one
/// of the store, and says nothing of the checkpoint.
[[nodiscard]] Result<Verification> verify(storage::Store& store, const Inventory& inventory, const CheckpointId& id,
                                          std::uint64_t piece_bytes = std::uint64_t{32} << 20);

}  // namespace trainyard::checkpoint
