#pragma once

#include <string>
#include <vector>

#include "checkpoint/interchange/catalogue.hpp"
#include "common/result.hpp"
#include "storage/store.hpp"

namespace trainyard::checkpoint {

/// What removing a checkpoint would remove.
struct Removal {
  std::vector<std::string> keys;       ///< The manifest first: what is left of the rest is no checkpoint any more.
  std::vector<std::string> strangers;  ///< Objects beside them that no worker writes, and that stay.
};

/// The removal of the checkpoint `id`, whatever its standing. Pure.
[[nodiscard]] Removal removal_of(const Inventory& inventory, const CheckpointId& id);

/// The removal of a checkpoint that a person names. Unless `is_forced`, ErrorKind::conflict for the newest checkpoint
/// that counts, and for an unfinished one of a run that has not ended and may be writing it. Pure.
[[nodiscard]] Result<Removal> plan_removal(const Catalogue& catalogue, const Listed& listed, bool is_forced);

/// Removes the first key, and then the others several at a time, up to the first error.
[[nodiscard]] Result<void> remove_all(storage::Store& store, const Removal& removal);

}  // namespace trainyard::checkpoint
