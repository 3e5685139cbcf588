#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "api/metadata.hpp"

namespace trainyard::resource {

/// A kubelet's Event FailedMount: a volume of a pod cannot be mounted. No status says so.
struct MountFailure {
  api::Metadata metadata;  ///< The event's. `controller` is the pod, so that caches find the event by the pod's UID.
  std::string pod;         ///< The pod's name, in the event's namespace.
  std::string message;
  bool operator==(const MountFailure&) const = default;
};

/// Reads an events.k8s.io/v1 Event.
[[nodiscard]] Result<MountFailure> parse_mount_failure(const nlohmann::json& object);

/// Field selector for these events.
inline constexpr std::string_view mount_failure_selector = "reason=FailedMount,regarding.kind=Pod";

}  // namespace trainyard::resource
