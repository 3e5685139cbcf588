#pragma once

#include "checkpoint/format/manifest.hpp"
#include "checkpoint/run/inventory.hpp"
#include "common/result.hpp"

namespace trainyard::checkpoint {

/// Success when `manifest` is that of checkpoint `id` and its data files are all there in their sizes.
/// ErrorKind::corrupt names the first that is not.
[[nodiscard]] Result<void> check_files(const Inventory& inventory, const Manifest& manifest, const CheckpointId& id);

}  // namespace trainyard::checkpoint
