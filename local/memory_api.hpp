#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.hpp"
#include "local/selector.hpp"
#include "operator/kube/api.hpp"

namespace trainyard::local {

using nlohmann::json;

/// What the server does to an object before it is stored: defaults and validation. Gets the object and the stored one
/// that it replaces (null: it is created); gives the object to store, or ErrorKind::invalid with a sentence for the
/// user.
using Admission =
    std::function<Result<json>(const kube::ResourceType& type, const json& object, const json* stored, bool is_strict)>;

struct MemoryApiOptions {
  std::size_t history_events_max = 10'000;  ///< Of each kind of object; a watch from before them is `gone`.
  std::size_t open_lists_max = 64;  ///< Lists whose next page is kept; the continue token of an older one is `gone`.
  std::chrono::milliseconds bookmark_interval{60'000};  ///< Real time.
  std::uint64_t uid_seed = 0;                           ///< UIDs are a function of it; 0: they differ from run to run.
  Admission admission;                                  ///< None: everything is stored as it comes.
};

/// An API server in this process: the cluster of a laptop and the fake of the tests. It behaves like the real one in
/// all that the operator uses: one increasing resourceVersion, generation raised with the spec, UID and version
/// preconditions, status as its own subresource, finalizers, graceful deletion of bound and running pods, dependents
/// that go with their owner, pages and watches. Nothing schedules or runs pods here: that is ProcessKubelet's part, or
/// the test's. Any thread may call.
class MemoryApi final : public kube::Api {
 public:
  explicit MemoryApi(const Clock& clock, MemoryApiOptions options = {});

  [[nodiscard]] Result<json> get(const kube::ResourceType& type, std::string_view name_space,
                                 std::string_view name) override;
  [[nodiscard]] Result<kube::ListPage> list(const kube::ResourceType& type, const kube::ListOptions& options) override;
  [[nodiscard]] Result<void> watch(const kube::ResourceType& type, const kube::WatchOptions& options,
                                   const std::function<void(const kube::WatchEvent&)>& on_event,
                                   std::stop_token stop) override;
  [[nodiscard]] Result<json> create(const kube::ResourceType& type, std::string_view name_space, const json& object,
                                    const kube::CreateOptions& options = {}) override;
  [[nodiscard]] Result<json> update(const kube::ResourceType& type, std::string_view name_space,
                                    const json& object) override;
  [[nodiscard]] Result<json> update_status(const kube::ResourceType& type, std::string_view name_space,
                                           const json& object) override;
  [[nodiscard]] Result<json> patch(const kube::ResourceType& type, std::string_view name_space, std::string_view name,
                                   kube::PatchType patch_type, const json& patch) override;
  [[nodiscard]] Result<void> remove(const kube::ResourceType& type, std::string_view name_space, std::string_view name,
                                    const kube::DeleteOptions& options = {}) override;

  /// The scheduler's binding: sets spec.nodeName once. conflict when the pod is bound already.
  [[nodiscard]] Result<json> bind_pod(std::string_view name_space, std::string_view name, std::string_view node);
  /// Forgets history and open lists, as etcd does when it is compacted: watches from before now on are `gone`.
  void compact();

 private:
  using Key = std::pair<std::string, std::string>;  // namespace, name
  using Object = std::shared_ptr<const json>;
  struct Change {
    std::uint64_t version = 0;
    Object before;  // null: created
    Object after;   // null: deleted
  };
  struct Collection {
    kube::ResourceType type;
    std::map<Key, Object> objects;
    std::deque<Change> history;
    std::uint64_t forgotten_version = 0;  // Changes up to it are not in `history`.
  };
  struct OpenList {
    std::deque<json> rest;
    std::string version;
  };
  struct WatchCursor;

  // All below need mutex_.
  Collection& collection_of(const kube::ResourceType& type);
  Result<Object> find(Collection& collection, const Key& key);
  Result<json> replace(Collection& collection, std::string_view verb, const Key& key, const json& object);
  Object store(Collection& collection, const Key& key, json object);
  void erase(Collection& collection, const Key& key);
  void record(Collection& collection, Change change);
  void index_owners(const Collection& collection, const Key& key, const json& object, bool is_present);
  void remove_gracefully(Collection& collection, const Key& key, std::optional<std::int64_t> grace_seconds);
  void collect_dependents_of(const std::string& uid);
  bool is_orphaned(const json& object) const;
  Result<std::vector<kube::WatchEvent>> next_events(WatchCursor& cursor);
  std::string make_uid();

  const Clock& clock_;
  const MemoryApiOptions options_;
  std::mutex mutex_;  // guards everything below
  std::condition_variable_any changed_;
  std::map<std::string, Collection> collections_;  // by group/plural; never erased, so references stay good
  std::map<std::string, OpenList> open_lists_;     // by continue token
  std::map<std::string, std::set<std::pair<std::string, Key>>> dependents_;  // owner's UID -> collection and key
  std::set<std::string> dead_owners_;  // UIDs of objects that went: what names one as its owner is collected on arrival
  std::uint64_t version_ = 0;
  std::uint64_t last_list_ = 0;
  std::mt19937_64 random_;
};

}  // namespace trainyard::local
