#pragma once

#include <nlohmann/json.hpp>
#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/metadata.hpp"

namespace trainyard::resource {

enum class PodPhase { pending, running, succeeded, failed, unknown };

struct ContainerTermination {
  int exit_code = 0;
  int signal = 0;
  std::string reason;   ///< "Error", "OOMKilled", "Completed", ...
  std::string message;  ///< The termination message.
  std::optional<Time> finished_at;
  bool operator==(const ContainerTermination&) const = default;
};

struct ContainerStatus {
  std::string name;
  bool is_running = false;
  bool is_ready = false;
  std::string waiting_reason;  ///< "ContainerCreating", "ImagePullBackOff", "CreateContainerConfigError", ...
  std::string waiting_message;
  std::optional<ContainerTermination> terminated;
  std::int64_t restart_count = 0;
  bool operator==(const ContainerStatus&) const = default;
};

struct PodCondition {
  std::string type;  ///< "PodScheduled", "DisruptionTarget", ...
  bool is_true = false;
  std::string reason;
  std::string message;
  bool operator==(const PodCondition&) const = default;
};

/// The part of a Pod that planning reads.
struct Pod {
  api::Metadata metadata;
  PodPhase phase = PodPhase::pending;
  std::string node_name;
  std::string pod_ip;
  std::string request_token;  ///< The worker's contract::env_request_token; empty if it has none.
  std::string reason;         ///< status.reason: "Evicted", "NodeLost", ...
  std::string message;        ///< status.message
  std::vector<PodCondition> conditions;
  std::vector<ContainerStatus> containers;
  std::vector<ContainerStatus> init_containers;
  bool operator==(const Pod&) const = default;
};

/// Reads a Pod. Keeps only labels and annotations of trainyard.dev/, the conditions that planning reads, and the
/// request token if it is rank 0's pod: the operator sends requests to rank 0 only.
[[nodiscard]] Result<Pod> parse_pod(const nlohmann::json& object);

/// A Pod in half a kilobyte, since a cache may hold ten thousand.
struct PackedPod {
  std::string bytes;
};
[[nodiscard]] PackedPod pack(const Pod& pod);
[[nodiscard]] Pod unpack(const PackedPod& packed);

/// The part of a Service that planning reads.
struct Service {
  api::Metadata metadata;
  /// The attempt whose pods the Service selects, by contract::label_attempt; 0 if there is none.
  std::int64_t attempt = 0;
  bool operator==(const Service&) const = default;
};

[[nodiscard]] Result<Service> parse_service(const nlohmann::json& object);

inline constexpr std::string_view host_name_label = "kubernetes.io/hostname";

/// The part of a Node that planning reads.
struct Node {
  api::Metadata metadata;  ///< Without labels and annotations.
  std::string host_name;   ///< Value of host_name_label; empty if the node has none.
  bool is_ready = false;
  bool is_unreachable =
      false;  ///< Ready is Unknown: its kubelet has been silent for the API server's grace period (40-50 s).
  bool operator==(const Node&) const = default;
};

[[nodiscard]] Result<Node> parse_node(const nlohmann::json& object);

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
