#include "checkpoint/run/file_check.hpp"

#include <fmt/format.h>

namespace trainyard::checkpoint {

Result<void> check_files(const Inventory& inventory, const Manifest& manifest, const CheckpointId& id) {
  if (manifest.id != id) return fail(ErrorKind::corrupt, "its manifest is of another checkpoint");
  for (const Receipt& receipt : manifest.receipts) {
    const auto found = inventory.sizes.find(data_key(manifest, receipt.rank));
    if (found == inventory.sizes.end())
      return fail(ErrorKind::corrupt, fmt::format("the file of rank {} is missing", receipt.rank));
    if (found->second != receipt.bytes) {
      return fail(ErrorKind::corrupt, fmt::format("the file of rank {} has {} bytes instead of {}", receipt.rank,
                                                  found->second, receipt.bytes));
    }
  }
  return {};
}

}  // namespace trainyard::checkpoint
