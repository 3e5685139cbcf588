#pragma once

#include <cstdint>
#include <vector>

#include "local/object_table.hpp"
#include "local/selection.hpp"

namespace trainyard::local {

/// The position of a watch in a collection's history.
struct WatchCursor {
  const ObjectTable::Collection& collection;
  Selection selection;
  std::uint64_t version = 0;  ///< All changes up to it have been returned.
};

/// The present objects as `added` events. Moves the cursor to `newest`, the table's version.
[[nodiscard]] std::vector<kube::WatchEvent> present_events(WatchCursor& cursor, std::uint64_t newest);
/// The changes after the cursor up to `newest`, to which the cursor moves. ErrorKind::gone: some of them are forgotten.
[[nodiscard]] Result<std::vector<kube::WatchEvent>> next_events(WatchCursor& cursor, std::uint64_t newest);
/// A bookmark with the cursor's version.
[[nodiscard]] kube::WatchEvent bookmark(const WatchCursor& cursor);

}  // namespace trainyard::local
