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

/// Defaults and validation of an object before it is stored. `stored` is the object that it replaces (null: it is
/// created). Returns the object to store, or ErrorKind::invalid with a sentence for the user.
using Admission =
    std::function<Result<json>(const kube::ResourceType& type, const json& object, const json* stored, bool is_strict)>;

struct MemoryApiOptions {
  std::size_t history_events_max = 10'000;  ///< For each kind of object; a watch from an older version is `gone`.
  std::size_t open_lists_max = 64;          ///< Lists with a next page; older continue tokens are `gone`.
  std::chrono::milliseconds bookmark_interval{60'000};  ///< Real time.
  std::uint64_t uid_seed = 0;                           ///< The UIDs depend only on it; 0: UIDs are random.
  Admission admission;                                  ///< None: objects are stored unchanged.
};

/// An API server in this process, for `trainyard run` and as a fake for tests. It behaves like the real one in all that
/// the operator uses: one increasing resourceVersion, generation raised with the spec, UID and version preconditions,
/// status as its own subresource, finalizers, graceful deletion of bound and running pods, deletion of dependents with
/// their owner, pages and watches. It does not schedule or run pods: ProcessKubelet or a test does. Any thread may
/// call.
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

  /// Sets spec.nodeName, as a scheduler does. ErrorKind::conflict: the pod is already bound.
  [[nodiscard]] Result<json> bind_pod(std::string_view name_space, std::string_view name, std::string_view node);
  /// Forgets history and open lists, as etcd does by compaction: watches from older versions are then `gone`.
  void compact();

 private:
  struct OpenList {
    std::deque<json> rest;
    std::string version;
  };

  // The caller of these holds mutex_.
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

/// The work of the CRD in an API server: defaults, schema (also of the status) and CEL rules of TrainingJobs. Other
/// kinds are stored unchanged.
[[nodiscard]] Admission training_job_admission();

}  // namespace trainyard::local
