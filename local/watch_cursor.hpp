#pragma once

#include <cstdint>
#include <vector>

#include "local/object_table.hpp"
#include "local/selection.hpp"

namespace trainyard::local {

/// Where a watch stands in a collection's history.
struct WatchCursor {
  const ObjectTable::Collection& collection;
  Selection selection;
  std::uint64_t version = 0;  ///< Everything up to it has been told.
};

/// What there is, as added objects; the cursor then stands at `newest`, the table's version.
[[nodiscard]] std::vector<kube::WatchEvent> present_events(WatchCursor& cursor, std::uint64_t newest);
/// What has happened up to `newest`. ErrorKind::gone when a part of it is forgotten.
[[nodiscard]] Result<std::vector<kube::WatchEvent>> next_events(WatchCursor& cursor, std::uint64_t newest);
/// Tells how far the watch is.
[[nodiscard]] kube::WatchEvent bookmark(const WatchCursor& cursor);

}  // namespace trainyard::local
