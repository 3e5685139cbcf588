#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "common/clock.hpp"
#include "local/object_table.hpp"
#include "operator/kube/api.hpp"

namespace trainyard::local {

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
  struct OpenList {
    std::deque<json> rest;
    std::string version;
  };

  // Both need mutex_.
  Result<json> replace(ObjectTable::Collection& collection, std::string_view verb, const ObjectTable::Key& key,
                       const json& object);
  std::string make_uid();

  const Clock& clock_;
  const MemoryApiOptions options_;
  std::mutex mutex_;  // guards everything below
  std::condition_variable_any changed_;
  ObjectTable objects_;
  std::map<std::string, OpenList> open_lists_;  // by continue token
  std::uint64_t last_list_ = 0;
  std::mt19937_64 random_;
};

}  // namespace trainyard::local
