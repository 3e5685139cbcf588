#include "local/object_table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/time_text.hpp"
#include "local/object_rules.hpp"

namespace trainyard::local {

ObjectTable::Collection& ObjectTable::collection_of(const kube::ResourceType& type) {
  return collections_.try_emplace(resource_name(type), Collection{.type = type, .objects = {}, .history = {}})
      .first->second;
}

Result<ObjectTable::Object> ObjectTable::find(const Collection& collection, const Key& key) {
  const auto found = collection.objects.find(key);
  if (found == collection.objects.end()) {
    return fail(ErrorKind::not_found, fmt::format("{} \"{}\" not found", resource_name(collection.type), key.second));
  }
  return found->second;
}

ObjectTable::Object ObjectTable::store(Collection& collection, const Key& key, json object) {
  object["metadata"]["resourceVersion"] = std::to_string(++version_);
  const auto stored = std::make_shared<const json>(std::move(object));
  Object& place = collection.objects[key];
  if (place) index_owners(collection, key, *place, false);
  index_owners(collection, key, *stored, true);
  record(collection, {.version = version_, .before = std::exchange(place, stored), .after = stored});
  return stored;
}

void ObjectTable::erase(Collection& collection, const Key& key) {
  const auto found = collection.objects.find(key);
  const Object last = found->second;
  index_owners(collection, key, *last, false);
  collection.objects.erase(found);
  record(collection, {.version = ++version_, .before = last, .after = nullptr});
  collect_dependents_of(last->at("metadata").at("uid"));
}

void ObjectTable::record(Collection& collection, Change change) {
  collection.history.push_back(std::move(change));
  if (collection.history.size() > history_events_max_) {
    collection.forgotten_version = collection.history.front().version;
    collection.history.pop_front();
  }
  on_change_();
}

void ObjectTable::index_owners(const Collection& collection, const Key& key, const json& object, bool is_present) {
  for (const auto& uid : owner_uids(object)) {
    auto& dependents = dependents_[uid];
    if (is_present) {
      dependents.emplace(resource_name(collection.type), key);
    } else {
      dependents.erase({resource_name(collection.type), key});
    }
    if (dependents.empty()) dependents_.erase(uid);
  }
}

void ObjectTable::remove_gracefully(Collection& collection, const Key& key, std::optional<std::int64_t> grace_seconds) {
  json object = *collection.objects.at(key);
  json& metadata = object["metadata"];
  const std::int64_t seconds = deletion_grace_seconds(collection.type, object, grace_seconds);
  if (seconds == 0 && !has_finalizers(object)) return erase(collection, key);
  // A later delete may shorten the grace period, never lengthen it.
  if (metadata.contains("deletionTimestamp") &&
      metadata.value("deletionGracePeriodSeconds", std::int64_t{0}) <= seconds)
    return;
  metadata["deletionTimestamp"] = format_rfc3339(clock_.now() + std::chrono::seconds{seconds});
  metadata["deletionGracePeriodSeconds"] = seconds;
  store(collection, key, std::move(object));
}

void ObjectTable::collect_dependents_of(const std::string& uid) {
  dead_owners_.insert(uid);
  const auto found = dependents_.find(uid);
  if (found == dependents_.end()) return;
  for (const auto& [name, key] : std::set{found->second}) {  // A copy: removing dependents changes the index.
    Collection& collection = collections_.at(name);
    // A dependent may already be gone, removed with another one.
    const auto dependent = collection.objects.find(key);
    if (dependent != collection.objects.end() && is_orphaned(*dependent->second)) {
      remove_gracefully(collection, key, std::nullopt);
    }
  }
}

bool ObjectTable::is_orphaned(const json& object) const {
  const auto owners = owner_uids(object);
  return !owners.empty() && std::all_of(owners.begin(), owners.end(),
                                        [this](const std::string& uid) { return dead_owners_.contains(uid); });
}

void ObjectTable::forget_history() {
  for (auto& [name, collection] : collections_) {
    collection.history.clear();
    collection.forgotten_version = version_;
  }
  on_change_();
}

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
