#pragma once

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

/// Name of an object within its namespace. The unit of work of the queue.
struct ObjectKey {
  std::string name_space;
  std::string name;
  auto operator<=>(const ObjectKey&) const = default;
};

/// Versions of objects are decimal numbers without leading zeros, comparable since Kubernetes 1.35 by promise and ever
/// since in fact.
[[nodiscard]] inline bool is_older_version(std::string_view left, std::string_view right) {
  return left.size() != right.size() ? left.size() < right.size() : left < right;
}

/// What an informer knows of one kind of object: T is the projection that we keep, T::metadata a resource::Metadata.
/// Objects are also found by the UID of their controller. Any thread may call; values are returned by copy.
template <typename T>
class ObjectCache {
 public:
  [[nodiscard]] std::optional<T> find(const ObjectKey& key) const {
    const std::scoped_lock lock{mutex_};
    const auto found = objects_.find(key);
    return found == objects_.end() ? std::nullopt : std::optional<T>{found->second};
  }

  /// Sorted by key.
  [[nodiscard]] std::vector<T> owned_by(std::string_view controller_uid) const {
    const std::scoped_lock lock{mutex_};
    std::vector<T> owned;
    const auto keys = keys_by_owner_.find(std::string{controller_uid});
    if (keys == keys_by_owner_.end()) return owned;
    for (const auto& [key, unused] : keys->second) owned.push_back(objects_.at(key));
    return owned;
  }

  [[nodiscard]] std::vector<T> all() const {
    const std::scoped_lock lock{mutex_};
    std::vector<T> objects;
    for (const auto& [key, object] : objects_) objects.push_back(object);
    return objects;
  }

  [[nodiscard]] std::size_t size() const {
    const std::scoped_lock lock{mutex_};
    return objects_.size();
  }

  /// What the reply of a write showed. Keeps the newer of the two when both have the same UID: a watch event that left
  /// the server before our own write must not undo what its reply already told us. Nor does a late reply bring back an
  /// object whose deletion we have been told meanwhile: false.
  bool put(T object) {
    const std::scoped_lock lock{mutex_};
    if (erased_uids_.contains(object.metadata.uid)) return false;
    put_newer(std::move(object));
    return true;
  }

  /// What a list or a watch showed: it is there, whatever we were told before. Keeps the newer of the two as well.
  void put_listed(T object) {
    const std::scoped_lock lock{mutex_};
    erased_uids_.erase(object.metadata.uid);
    put_newer(std::move(object));
  }

  /// Empty UID: whichever object has the key.
  void erase(const ObjectKey& key, std::string_view uid = {}) {
    const std::scoped_lock lock{mutex_};
    if (!uid.empty()) remember_erased(std::string{uid});
    const auto found = objects_.find(key);
    if (found == objects_.end() || (!uid.empty() && found->second.metadata.uid != uid)) return;
    forget_owner(key, found->second);
    objects_.erase(found);
  }

  /// Erases, and gives back, what a whole list at `version` did not have: the objects of `name_space` (empty: of all)
  /// that are not in `listed` and not newer than the list.
  std::vector<T> erase_unlisted(std::string_view name_space, const std::set<ObjectKey>& listed,
                                std::string_view version) {
    const std::scoped_lock lock{mutex_};
    std::vector<T> erased;
    for (auto it = objects_.begin(); it != objects_.end();) {
      const auto& [key, object] = *it;
      const bool is_covered = name_space.empty() || key.name_space == name_space;
      if (!is_covered || listed.contains(key) || is_older_version(version, object.metadata.resource_version)) {
        ++it;
        continue;
      }
      remember_erased(object.metadata.uid);
      forget_owner(key, object);
      erased.push_back(std::move(it->second));
      it = objects_.erase(it);
    }
    return erased;
  }

 private:
  static constexpr std::size_t erased_uids_max = 4096;

  static bool is_older(const T& object, const T& than) {
    return object.metadata.uid == than.metadata.uid &&
           is_older_version(object.metadata.resource_version, than.metadata.resource_version);
  }

  void put_newer(T object) {
    const ObjectKey key{object.metadata.name_space, object.metadata.name};
    if (const auto found = objects_.find(key); found != objects_.end()) {
      if (is_older(object, found->second)) return;
      forget_owner(key, found->second);
    }
    if (object.metadata.controller) keys_by_owner_[object.metadata.controller->uid][key] = true;
    objects_.insert_or_assign(key, std::move(object));
  }

  void remember_erased(const std::string& uid) {
    if (!erased_uids_.insert(uid).second) return;
    erased_order_.push_back(uid);
    if (erased_order_.size() <= erased_uids_max) return;
    erased_uids_.erase(erased_order_.front());
    erased_order_.pop_front();
  }

  void forget_owner(const ObjectKey& key, const T& object) {
    if (!object.metadata.controller) return;
    const auto keys = keys_by_owner_.find(object.metadata.controller->uid);
    if (keys == keys_by_owner_.end()) return;
    keys->second.erase(key);
    if (keys->second.empty()) keys_by_owner_.erase(keys);
  }

  mutable std::mutex mutex_;  // guards everything below
  std::map<ObjectKey, T> objects_;
  std::unordered_map<std::string, std::map<ObjectKey, bool>> keys_by_owner_;
  std::unordered_set<std::string> erased_uids_;  // the last few: writes whose replies may still come are few
  std::deque<std::string> erased_order_;
};

}  // namespace trainyard::control
