#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/format/manifest.hpp"
#include "checkpoint/run/inventory.hpp"
#include "common/result.hpp"
#include "storage/store.hpp"

namespace trainyard::checkpoint {

/// Copies one complete checkpoint into the new local folder `folder`, which then is a prefix of its own: its generation
/// is claimed there and has ended, so that any job may go on from it. Every byte's checksum is verified on the way. The
/// folder takes its name when all is there and durable, and never before; an empty one of that name is replaced.
/// Returns the bytes copied. ErrorKind::already_exists for a folder that holds anything, corrupt for a damaged
/// checkpoint, else as of the store and the disk.
[[nodiscard]] Result<std::uint64_t> fetch(storage::Store& store, const Inventory& inventory, const Manifest& manifest,
                                          const std::string& folder);

}  // namespace trainyard::checkpoint
