#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/clock.hpp"

/// The status that a kubelet writes for a pod, from what it knows of the containers.
namespace trainyard::local {

struct ContainerEnd {
  int exit_code = 0;
  int signal = 0;
  std::string reason;  ///< "Completed", "Error", "StartError"
  std::string message;
  Time finished_at;
};

struct ContainerState {
  std::string name;
  std::string image;
  std::string waiting_reason = "ContainerCreating";
  std::string waiting_message;
  std::optional<Time> started_at;
  std::optional<ContainerEnd> end;
};

struct PodState {
  Time start_time;
  std::string host_ip;
  std::string pod_ip;
  std::vector<ContainerState> init_containers;
  std::vector<ContainerState> containers;
};

[[nodiscard]] nlohmann::json pod_status(const PodState& pod);
/// "Pending", "Running", "Succeeded" or "Failed".
[[nodiscard]] std::string_view pod_phase(const PodState& pod);

/// The status of a pod that waits for a node, because of `message`.
[[nodiscard]] nlohmann::json unschedulable_status(std::string_view message);

/// The end of a log as it stands in for a missing termination message: at most 80 lines and 2048 bytes.
[[nodiscard]] std::string fallback_message(std::string_view log);

}  // namespace trainyard::local
