#include "local/watch_cursor.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "local/object_rules.hpp"

namespace trainyard::local {

using kube::WatchEvent;
using kube::WatchEventType;

std::vector<WatchEvent> present_events(WatchCursor& cursor, std::uint64_t newest) {
  std::vector<WatchEvent> events;
  for (const auto& [key, object] : cursor.collection.objects) {
    if (cursor.selection.selects(*object)) events.push_back({WatchEventType::added, *object});
  }
  cursor.version = newest;
  return events;
}

Result<std::vector<WatchEvent>> next_events(WatchCursor& cursor, std::uint64_t newest) {
  std::vector<WatchEvent> events;
  const ObjectTable::Collection& collection = cursor.collection;
  if (cursor.version < collection.forgotten_version) {
    return fail(ErrorKind::gone, fmt::format("watch {}: too old resource version: {} ({})", collection.type.plural,
                                             cursor.version, collection.forgotten_version));
  }
  const auto selects = [&](const ObjectTable::Object& object) { return object && cursor.selection.selects(*object); };
  const auto first = std::upper_bound(
      collection.history.begin(), collection.history.end(), cursor.version,
      [](std::uint64_t version, const ObjectTable::Change& change) { return version < change.version; });
  for (auto change = first; change != collection.history.end(); ++change) {
    const bool was_selected = selects(change->before);
    const bool is_selected = selects(change->after);
    if (is_selected) {
      events.push_back({was_selected ? WatchEventType::modified : WatchEventType::added, *change->after});
    } else if (was_selected) {
      // An object that is gone, or no longer selected, gets a `deleted` event with the version of the change.
      json last = *change->before;
      last["metadata"]["resourceVersion"] = std::to_string(change->version);
      events.push_back({WatchEventType::deleted, std::move(last)});
    }
  }
  cursor.version = std::max(cursor.version, newest);
  return events;
}

WatchEvent bookmark(const WatchCursor& cursor) {
  const kube::ResourceType& type = cursor.collection.type;
  return {WatchEventType::bookmark, json{{"apiVersion", api_version_of(type)},
                                         {"kind", type.kind},
                                         {"metadata", {{"resourceVersion", std::to_string(cursor.version)}}}}};
}

}  // namespace trainyard::local
