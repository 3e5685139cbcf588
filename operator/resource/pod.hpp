#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
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

}  // namespace trainyard::resource
