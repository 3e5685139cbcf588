#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.hpp"
#include "local/selector.hpp"
#include "operator/kube/api.hpp"

namespace trainyard::local {

using nlohmann::json;

/// The objects of an API server in this process: one increasing version for all, a history of recent changes, and
/// owners. An object is removed with its last owner. Used by one thread at a time.
class ObjectTable {
 public:
  using Key = std::pair<std::string, std::string>;  ///< Namespace, name.
  using Object = std::shared_ptr<const json>;
  struct Change {
    std::uint64_t version = 0;
    Object before;  ///< Null: created.
    Object after;   ///< Null: deleted.
  };
  struct Collection {
    kube::ResourceType type;
    std::map<Key, Object> objects;
    std::deque<Change> history;
    std::uint64_t forgotten_version = 0;  ///< `history` has no changes up to this version.
  };

  /// `history_events_max`: for each collection. `on_change` is called after each change and after forget_history().
  ObjectTable(const Clock& clock, std::size_t history_events_max, std::function<void()> on_change)
      : clock_{clock}, history_events_max_{history_events_max}, on_change_{std::move(on_change)} {}

  /// The version of the last change.
  [[nodiscard]] std::uint64_t version() const { return version_; }
  /// The reference is valid as long as the table.
  [[nodiscard]] Collection& collection_of(const kube::ResourceType& type);
  [[nodiscard]] static Result<Object> find(const Collection& collection, const Key& key);

  /// Stores `object` with the next version. Returns it as it is stored.
  Object store(Collection& collection, const Key& key, json object);
  void erase(Collection& collection, const Key& key);
  /// Marks the object as deleted. Removes it at once if it has no finalizers and no grace period.
  void remove_gracefully(Collection& collection, const Key& key, std::optional<std::int64_t> grace_seconds);
  /// True if `object` has owners, and all of them are gone.
  [[nodiscard]] bool is_orphaned(const json& object) const;
  void forget_history();

 private:
  void record(Collection& collection, Change change);
  void index_owners(const Collection& collection, const Key& key, const json& object, bool is_present);
  void collect_dependents_of(const std::string& uid);

  const Clock& clock_;
  const std::size_t history_events_max_;
  const std::function<void()> on_change_;
  std::map<std::string, Collection> collections_;  // by group/plural; never erased, so references stay good
  std::map<std::string, std::set<std::pair<std::string, Key>>> dependents_;  // owner's UID -> collection and key
  std::set<std::string>
      dead_owners_;  // UIDs of removed objects: an object that names one as its owner is removed on arrival
  std::uint64_t version_ = 0;
};

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
