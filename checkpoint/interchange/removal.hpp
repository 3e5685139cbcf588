#pragma once

#include <string>
#include <vector>

#include "checkpoint/interchange/catalogue.hpp"
#include "common/result.hpp"
#include "storage/store.hpp"

namespace trainyard::checkpoint {

/// The objects in a checkpoint's folder, when the checkpoint is to be removed.
struct Removal {
  std::vector<std::string> keys;       ///< To be removed, the manifest first: without it the rest is no checkpoint.
  std::vector<std::string> strangers;  ///< Objects that no worker writes. They stay.
};

/// The removal of the checkpoint `id`, whatever its standing. Pure.
[[nodiscard]] Removal removal_of(const Inventory& inventory, const CheckpointId& id);

/// The removal of a checkpoint that a person named. Unless `is_forced`, ErrorKind::conflict for the checkpoint that a
/// restore would take, and for an unfinished one whose run may still be writing it. Pure.
[[nodiscard]] Result<Removal> plan_removal(const Catalogue& catalogue, const Listed& listed, bool is_forced);

/// Removes the first key, then the others, several at a time. Ends at the first error.
[[nodiscard]] Result<void> remove_all(storage::Store& store, const Removal& removal);

}  // namespace trainyard::checkpoint
