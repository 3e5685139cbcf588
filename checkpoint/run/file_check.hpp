#pragma once

#include "checkpoint/format/manifest.hpp"
#include "checkpoint/run/inventory.hpp"
#include "common/result.hpp"

namespace trainyard::checkpoint {

/// Success when `manifest` is the manifest of checkpoint `id`, and all its data files exist in their sizes.
/// ErrorKind::corrupt names the first fault.
[[nodiscard]] Result<void> check_files(const Inventory& inventory, const Manifest& manifest, const CheckpointId& id);

}  // namespace trainyard::checkpoint
