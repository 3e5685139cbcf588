#pragma once

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"

/// The interface to the API server. Objects are Kubernetes' JSON; `operator/resource` and `api` parse them.
namespace trainyard::kube {

using nlohmann::json;

/// A kind of object and its place in the API: {"trainyard.dev", "v1alpha1", "trainingjobs"}; group "" is the core
/// group.
struct ResourceType {
  std::string_view group;
  std::string_view version;
  std::string_view plural;
  std::string_view kind;
  bool is_namespaced = true;
  bool operator==(const ResourceType&) const = default;
};

inline constexpr ResourceType training_jobs{"trainyard.dev", "v1alpha1", "trainingjobs", "TrainingJob"};
inline constexpr ResourceType pods{"", "v1", "pods", "Pod"};
inline constexpr ResourceType services{"", "v1", "services", "Service"};
inline constexpr ResourceType secrets{"", "v1", "secrets", "Secret"};
inline constexpr ResourceType volume_claims{"", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"};
inline constexpr ResourceType nodes{"", "v1", "nodes", "Node", false};
inline constexpr ResourceType events{"events.k8s.io", "v1", "events", "Event"};
/// Events in their older form, whose text may be changed later.
inline constexpr ResourceType core_events{"", "v1", "events", "Event"};
inline constexpr ResourceType leases{"coordination.k8s.io", "v1", "leases", "Lease"};

struct ListOptions {
  std::string name_space;  ///< Empty: all namespaces.
  std::string label_selector;
  std::string field_selector;
  std::string resource_version;  ///< "0": any cached state. Empty: the newest.
  std::string continue_token;
  int limit = 0;  ///< Objects in a page; 0: all in one page.
};
struct ListPage {
  std::vector<json> items;  ///< Without apiVersion and kind, as the server leaves them out.
  std::string resource_version;
  std::string continue_token;  ///< Empty: this is the last page.
};

struct WatchOptions {
  std::string name_space;
  std::string label_selector;
  std::string field_selector;
  std::string resource_version;  ///< Events after this version.
  std::chrono::seconds timeout{300};
};
enum class WatchEventType { added, modified, deleted, bookmark };
struct WatchEvent {
  WatchEventType type = WatchEventType::added;
  json object;
};

struct CreateOptions {
  bool is_dry_run = false;
  bool is_strict = false;  ///< fieldValidation=Strict: unknown fields are an error.
};
enum class PatchType { json_patch, merge };
struct DeleteOptions {
  std::string uid;  ///< Precondition: delete only this object. Empty: any object of that name.
  std::optional<std::int64_t> grace_period_seconds;
};

/// Every call makes one request and blocks until its reply, an error or a deadline of the implementation. Any thread
/// may call.
///
/// Errors: not_found (404), already_exists and conflict (409, told apart by the reason in the server's reply), gone
/// (410), invalid (400, 422), unauthorized (401), forbidden (403, and whatever code an admission denial has), throttled
/// (429), unavailable (5xx, no connection), timeout, cancelled. The message is the server's sentence with the verb and
/// the object's name before it. reconcile/executor.hpp says what the operator does on a 409.
class Api {
 public:
  virtual ~Api() = default;

  [[nodiscard]] virtual Result<json> get(const ResourceType& type, std::string_view name_space,
                                         std::string_view name) = 0;
  [[nodiscard]] virtual Result<ListPage> list(const ResourceType& type, const ListOptions& options) = 0;
  /// Calls `on_event` for each event, in order, on the calling thread, until the server ends the stream (success),
  /// `stop` is requested (cancelled) or something fails (gone: list afresh; any other: watch again from the last
  /// version seen).
  [[nodiscard]] virtual Result<void> watch(const ResourceType& type, const WatchOptions& options,
                                           const std::function<void(const WatchEvent&)>& on_event,
                                           std::stop_token stop) = 0;

  /// Returns the object as stored. A dry run stores nothing. The object's name is in its metadata.
  [[nodiscard]] virtual Result<json> create(const ResourceType& type, std::string_view name_space, const json& object,
                                            const CreateOptions& options = {}) = 0;
  /// Replaces spec and metadata, and leaves the status. conflict unless metadata.resourceVersion is the stored one
  /// (empty: no check).
  [[nodiscard]] virtual Result<json> update(const ResourceType& type, std::string_view name_space,
                                            const json& object) = 0;
  /// Replaces the status alone. conflict as in update().
  [[nodiscard]] virtual Result<json> update_status(const ResourceType& type, std::string_view name_space,
                                                   const json& object) = 0;
  [[nodiscard]] virtual Result<json> patch(const ResourceType& type, std::string_view name_space, std::string_view name,
                                           PatchType patch_type, const json& patch) = 0;
  /// conflict when the UID differs. A pod with a grace period is only marked (deletionTimestamp) until its kubelet has
  /// ended it.
  [[nodiscard]] virtual Result<void> remove(const ResourceType& type, std::string_view name_space,
                                            std::string_view name, const DeleteOptions& options = {}) = 0;
};

}  // namespace trainyard::kube
