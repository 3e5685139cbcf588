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

/// The API server's rules on single objects: pure functions over JSON.
namespace trainyard::local {

/// "trainingjobs.trainyard.dev", "pods": as the server names a kind in its sentences.
[[nodiscard]] std::string resource_name(const kube::ResourceType& type);
/// "trainyard.dev/v1alpha1", or "v1" of the core's kinds.
[[nodiscard]] std::string api_version_of(const kube::ResourceType& type);

/// Whether status is a subresource, which create and update then leave alone.
[[nodiscard]] bool has_status(const kube::ResourceType& type);

/// True when an update may leave out metadata.resourceVersion and so replace whatever is stored.
[[nodiscard]] bool takes_unconditional_updates(const kube::ResourceType& type);

/// ErrorKind::invalid unless `object` is a JSON object whose metadata, if any, holds strings where the server wants
/// strings.
[[nodiscard]] Result<void> check_shape(const kube::ResourceType& type, const nlohmann::json& object);
/// ErrorKind::invalid unless `name` is one that the server accepts for this kind.
[[nodiscard]] Result<void> check_name(const kube::ResourceType& type, std::string_view name);
/// ErrorKind::invalid for a pod that no server takes: without containers, or with containers without a name.
[[nodiscard]] Result<void> check_pod(const nlohmann::json& pod);

/// `wanted` as an update of `stored` may change it: what only the server or another subresource writes is kept from
/// `stored`, and generation is raised when anything but metadata and status differs.
[[nodiscard]] nlohmann::json updated(const kube::ResourceType& type, const nlohmann::json& stored,
                                     nlohmann::json wanted);

/// How long `object` may go on after a delete that asks for `wanted_seconds` (absent: its own default): 0 removes it at
/// once, as is right for everything but a pod that a node runs.
[[nodiscard]] std::int64_t deletion_grace_seconds(const kube::ResourceType& type, const nlohmann::json& object,
                                                  std::optional<std::int64_t> wanted_seconds);

[[nodiscard]] std::vector<std::string> owner_uids(const nlohmann::json& object);
[[nodiscard]] bool has_finalizers(const nlohmann::json& object);

}  // namespace trainyard::local
