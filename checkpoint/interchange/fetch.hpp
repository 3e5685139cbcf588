#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/format/manifest.hpp"
#include "checkpoint/run/inventory.hpp"
#include "common/result.hpp"
#include "storage/store.hpp"

namespace trainyard::checkpoint {

/// Copies one complete checkpoint into the new folder `folder` of this machine, and verifies every checksum. The folder
/// then is a prefix of its own, with a claim and an end of the checkpoint's generation, so that any job may resume from
/// it. The folder gets its name when everything in it is durable, and never before; an empty folder of that name is
/// replaced. Returns the bytes copied. ErrorKind::already_exists for a folder that is not empty, corrupt for a damaged
/// checkpoint; else the store's and the disk's errors.
[[nodiscard]] Result<std::uint64_t> fetch(storage::Store& store, const Inventory& inventory, const Manifest& manifest,
                                          const std::string& folder);

}  // namespace trainyard::checkpoint
