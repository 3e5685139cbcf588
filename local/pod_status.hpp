#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/clock.hpp"

/// The status that a kubelet writes for a pod, from the states of its containers.
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
  /// An init container with restartPolicy Always: it runs beside the other containers, and its end decides nothing.
  bool is_sidecar = false;
  std::int64_t restarts = 0;             ///< The number of times that a sidecar was restarted.
  std::optional<ContainerEnd> last_end;  ///< The end of a restarted sidecar before its last restart.
};

struct PodState {
  Time start_time;
  std::string host_ip;
  std::string pod_ip;
  std::vector<ContainerState> init_containers;
  std::vector<ContainerState> containers;
};

[[nodiscard]] nlohmann::json pod_status(const PodState& pod);
/// "Pending", "Running", "Succeeded" or "Failed". A pod has not ended while one of its sidecars runs.
[[nodiscard]] std::string_view pod_phase(const PodState& pod);

/// True once only sidecars are left: all other containers have ended, or an init container has failed.
[[nodiscard]] bool has_only_sidecars_left(const PodState& pod);
/// True once an init container that is no sidecar has failed.
[[nodiscard]] bool has_failed_to_initialize(const PodState& pod);

/// The status of a pod that waits for a node; `message` says why.
[[nodiscard]] nlohmann::json unschedulable_status(std::string_view message);

}  // namespace trainyard::local
