#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/clock.hpp"
#include "common/result.hpp"
#include "operator/kube/api.hpp"

/// The API server's rules for single objects: pure functions over JSON.
namespace trainyard::local {

/// A kind's name in the server's messages: "trainingjobs.trainyard.dev", "pods".
[[nodiscard]] std::string resource_name(const kube::ResourceType& type);
/// "trainyard.dev/v1alpha1", or "v1" for core kinds.
[[nodiscard]] std::string api_version_of(const kube::ResourceType& type);

/// True if status is a subresource, which create and update do not change.
[[nodiscard]] bool has_status(const kube::ResourceType& type);

/// True if an update without metadata.resourceVersion may replace any stored version.
[[nodiscard]] bool takes_unconditional_updates(const kube::ResourceType& type);

/// ErrorKind::invalid unless `object` is a JSON object, and name, namespace and the like in its metadata are strings.
[[nodiscard]] Result<void> check_shape(const kube::ResourceType& type, const nlohmann::json& object);
/// ErrorKind::invalid unless the server accepts `name` for this kind.
[[nodiscard]] Result<void> check_name(const kube::ResourceType& type, std::string_view name);
/// ErrorKind::invalid for a pod without containers, or with a container without a name.
[[nodiscard]] Result<void> check_pod(const nlohmann::json& pod);

/// The object that an update from `stored` to `wanted` stores. Fields that only the server or another subresource
/// writes are kept from `stored`. Generation is raised if anything but metadata and status differs.
[[nodiscard]] nlohmann::json updated(const kube::ResourceType& type, const nlohmann::json& stored,
                                     nlohmann::json wanted);

/// The grace period of `object` after a delete with `wanted_seconds` (absent: the object's default). 0 removes it at
/// once: only a pod on a node has a grace period.
[[nodiscard]] std::int64_t deletion_grace_seconds(const kube::ResourceType& type, const nlohmann::json& object,
                                                  std::optional<std::int64_t> wanted_seconds);

[[nodiscard]] std::vector<std::string> owner_uids(const nlohmann::json& object);
[[nodiscard]] bool has_finalizers(const nlohmann::json& object);

}  // namespace trainyard::local
