#pragma once

#include <concepts>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace trainyard::control {

/// Namespace and name of an object. The work queue holds these keys.
struct ObjectKey {
  std::string name_space;
  std::string name;
  auto operator<=>(const ObjectKey&) const = default;
};

/// True when version `left` is older than `right`. Versions of objects are decimal numbers without leading zeros.
/// Kubernetes promises since 1.35 that they can be compared, and older releases keep that too.
[[nodiscard]] inline bool is_older_version(std::string_view left, std::string_view right) {
  return left.size() != right.size() ? left.size() < right.size() : left < right;
}

/// A type with a compact form for caches of very many objects. unpack(pack(object)) equals `object`.
template <typename T>
concept Packable = requires(const T& object) {
  { unpack(pack(object)) } -> std::same_as<T>;
};

/// The form in which a cache holds a T.
template <typename T>
struct KeptForm {
  using Type = T;
};
template <Packable T>
struct KeptForm<T> {
  using Type = decltype(pack(std::declval<const T&>()));
};

/// Finds the keys of objects by a property. Holds pointers: a key must not move until it is removed from the index.
class KeyIndex {
 public:
  /// Adds `key` under `value`; does nothing if `value` is empty.
  void add(const std::string& value, const ObjectKey& key) {
    if (!value.empty()) keys_[value].insert(&key);
  }
  void remove(const std::string& value, const ObjectKey& key) {
    const auto found = keys_.find(value);
    if (found == keys_.end()) return;
    found->second.erase(&key);
    if (found->second.empty()) keys_.erase(found);
  }
  /// Calls `visit` with each key of `value`, sorted.
  template <typename Visit>
  void for_each(std::string_view value, const Visit& visit) const {
    const auto found = keys_.find(std::string{value});
    if (found == keys_.end()) return;
    for (const ObjectKey* key : found->second) visit(*key);
  }

 private:
  struct ByKey {
    bool operator()(const ObjectKey* left, const ObjectKey* right) const { return *left < *right; }
  };
  std::unordered_map<std::string, std::set<const ObjectKey*, ByKey>> keys_;
};

/// The objects of one kind that an informer has seen. T is the projection to keep, with an api::Metadata as `metadata`.
/// Objects can be found by key, by the UID of their controller and by their node. Any thread may call; values are
/// returned by copy.
template <typename T>
class ObjectCache {
 public:
  [[nodiscard]] std::optional<T> find(const ObjectKey& key) const {
    const std::scoped_lock lock{mutex_};
    const auto found = objects_.find(key);
    return found == objects_.end() ? std::nullopt : std::optional<T>{taken_out(found->second)};
  }

  /// Sorted by key.
  [[nodiscard]] std::vector<T> owned_by(std::string_view controller_uid) const {
    return listed_in(by_controller_, controller_uid);
  }
  /// Sorted by key.
  [[nodiscard]] std::vector<T> on_node(std::string_view node_name) const { return listed_in(by_node_, node_name); }

  /// Calls `visit` with every object, sorted by key, under the cache's lock: `visit` must be quick and must not call
  /// the cache.
  template <typename Visit>
  void for_each(const Visit& visit) const {
    const std::scoped_lock lock{mutex_};
    for (const auto& [key, kept] : objects_) visit(taken_out(kept));
  }

  /// The keys of all objects, sorted.
  [[nodiscard]] std::vector<ObjectKey> keys() const {
    const std::scoped_lock lock{mutex_};
    std::vector<ObjectKey> keys;
    keys.reserve(objects_.size());
    for (const auto& [key, unused] : objects_) keys.push_back(key);
    return keys;
  }

  [[nodiscard]] std::size_t size() const {
    const std::scoped_lock lock{mutex_};
    return objects_.size();
  }

  /// Stores the object in the reply of a write. The newer of two versions with one UID stays, so that an older
  /// watch event cannot undo our own write. False, and nothing is stored, if the object's deletion is already known.
  bool put(T object) {
    const std::scoped_lock lock{mutex_};
    if (erased_uids_.contains(object.metadata.uid)) return false;
    put_newer(std::move(object));
    return true;
  }

  /// Stores an object of a list or a watch, even if its deletion was reported before. The newer of two versions
  /// with one UID stays.
  void put_listed(T object) {
    const std::scoped_lock lock{mutex_};
    erased_uids_.erase(object.metadata.uid);
    put_newer(std::move(object));
  }

  /// Erases the object if it has the UID; an empty UID matches any object.
  void erase(const ObjectKey& key, std::string_view uid = {}) {
    const std::scoped_lock lock{mutex_};
    if (!uid.empty()) remember_erased(std::string{uid});
    const auto found = objects_.find(key);
    if (found == objects_.end()) return;
    const T& object = taken_out(found->second);
    if (!uid.empty() && object.metadata.uid != uid) return;
    remove_from_indexes(found->first, object);
    objects_.erase(found);
  }

  /// Erases and returns the objects that a whole list at `version` lacked: those of `name_space` (empty: of all) that
  /// are not in `listed` and not newer than the list.
  std::vector<T> erase_unlisted(std::string_view name_space, const std::set<ObjectKey>& listed,
                                std::string_view version) {
    const std::scoped_lock lock{mutex_};
    std::vector<T> erased;
    for (auto it = objects_.begin(); it != objects_.end();) {
      const ObjectKey& key = it->first;
      const bool is_covered = name_space.empty() || key.name_space == name_space;
      if (!is_covered || listed.contains(key)) {
        ++it;
        continue;
      }
      const T& object = taken_out(it->second);
      if (is_older_version(version, object.metadata.resource_version)) {
        ++it;
        continue;
      }
      remember_erased(object.metadata.uid);
      remove_from_indexes(key, object);
      erased.push_back(object);
      it = objects_.erase(it);
    }
    return erased;
  }

 private:
  static constexpr std::size_t erased_uids_max = 4096;

  using Kept = typename KeptForm<T>::Type;

  static Kept kept_form_of(T object) {
    if constexpr (Packable<T>) {
      return pack(object);
    } else {
      return object;
    }
  }
  /// Returns an unpacked T by value, or a reference to a T that is kept as it is.
  static decltype(auto) taken_out(const Kept& kept) {
    if constexpr (Packable<T>) {
      return unpack(kept);
    } else {
      return (kept);
    }
  }

  static std::string controller_of(const T& object) {
    return object.metadata.controller ? object.metadata.controller->uid : std::string{};
  }
  static std::string node_of(const T& object) {
    if constexpr (requires { object.node_name; }) {
      return object.node_name;
    } else {
      return {};
    }
  }

  static bool is_older(const T& object, const T& than) {
    return object.metadata.uid == than.metadata.uid &&
           is_older_version(object.metadata.resource_version, than.metadata.resource_version);
  }

  std::vector<T> listed_in(const KeyIndex& index, std::string_view value) const {
    const std::scoped_lock lock{mutex_};
    std::vector<T> found;
    index.for_each(value, [&](const ObjectKey& key) { found.push_back(taken_out(objects_.at(key))); });
    return found;
  }

  void put_newer(T object) {
    const auto [place, is_new] = objects_.try_emplace(ObjectKey{object.metadata.name_space, object.metadata.name});
    if (!is_new) {
      const T& before = taken_out(place->second);
      if (is_older(object, before)) return;
      remove_from_indexes(place->first, before);
    }
    by_controller_.add(controller_of(object), place->first);
    by_node_.add(node_of(object), place->first);
    place->second = kept_form_of(std::move(object));
  }

  void remove_from_indexes(const ObjectKey& key, const T& object) {
    by_controller_.remove(controller_of(object), key);
    by_node_.remove(node_of(object), key);
  }

  void remember_erased(const std::string& uid) {
    if (!erased_uids_.insert(uid).second) return;
    erased_order_.push_back(uid);
    if (erased_order_.size() <= erased_uids_max) return;
    erased_uids_.erase(erased_order_.front());
    erased_order_.pop_front();
  }

  mutable std::mutex mutex_;  // guards everything below
  std::map<ObjectKey, Kept> objects_;
  KeyIndex by_controller_;
  KeyIndex by_node_;
  std::unordered_set<std::string> erased_uids_;  // bounded: few writes can still get a late reply
  std::deque<std::string> erased_order_;
};

}  // namespace trainyard::control
