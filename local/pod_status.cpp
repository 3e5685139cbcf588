#include "local/pod_status.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/time_text.hpp"

namespace trainyard::local {
namespace {

using nlohmann::json;

bool has_failed(const ContainerState& container) {
  return container.end && container.end->exit_code != 0;
}

bool is_live(const ContainerState& container) {
  return container.started_at && !container.end;
}

/// True if the next containers may start after this init container: a sidecar has started, or another init container
/// has succeeded.
bool is_initialized(const ContainerState& container) {
  return container.is_sidecar ? container.started_at.has_value() : container.end && container.end->exit_code == 0;
}

json condition(std::string_view type, bool is_true, const Time& since) {
  return {{"type", type}, {"status", is_true ? "True" : "False"}, {"lastTransitionTime", format_rfc3339(since)}};
}

json terminated_state(const ContainerEnd& end, const std::optional<Time>& started_at) {
  json terminated{{"exitCode", end.exit_code}, {"reason", end.reason}, {"finishedAt", format_rfc3339(end.finished_at)}};
  if (started_at) terminated["startedAt"] = format_rfc3339(*started_at);
  if (end.signal != 0) terminated["signal"] = end.signal;
  if (!end.message.empty()) terminated["message"] = end.message;
  return {{"terminated", std::move(terminated)}};
}

json container_status(const ContainerState& container) {
  const bool is_running = is_live(container);
  json state;
  if (container.end) {
    state = terminated_state(*container.end, container.started_at);
  } else if (is_running) {
    state["running"] = {{"startedAt", format_rfc3339(*container.started_at)}};
  } else {
    state["waiting"] = {{"reason", container.waiting_reason}};
    if (!container.waiting_message.empty()) state["waiting"]["message"] = container.waiting_message;
  }
  json last_state = container.last_end ? terminated_state(*container.last_end, std::nullopt) : json::object();
  return {{"name", container.name},
          {"image", container.image},
          {"ready", is_running},
          {"started", is_running},
          {"restartCount", container.restarts},
          {"state", std::move(state)},
          {"lastState", std::move(last_state)}};
}

json container_statuses(const std::vector<ContainerState>& containers) {
  json statuses = json::array();
  for (const auto& container : containers) statuses.push_back(container_status(container));
  return statuses;
}

}  // namespace

bool has_only_sidecars_left(const PodState& pod) {
  return has_failed_to_initialize(pod) ||
         std::all_of(pod.containers.begin(), pod.containers.end(),
                     [](const ContainerState& container) { return container.end.has_value(); });
}

bool has_failed_to_initialize(const PodState& pod) {
  return std::any_of(pod.init_containers.begin(), pod.init_containers.end(),
                     [](const ContainerState& container) { return !container.is_sidecar && has_failed(container); });
}

std::string_view pod_phase(const PodState& pod) {
  const auto& all = pod.containers;
  const bool has_live_sidecar =
      std::any_of(pod.init_containers.begin(), pod.init_containers.end(),
                  [](const ContainerState& container) { return container.is_sidecar && is_live(container); });
  if (has_only_sidecars_left(pod)) {
    if (has_live_sidecar) return "Running";
    return has_failed_to_initialize(pod) || std::any_of(all.begin(), all.end(), has_failed) ? "Failed" : "Succeeded";
  }
  const auto has_begun = [&](const ContainerState& container) { return container.started_at || container.end; };
  return std::any_of(all.begin(), all.end(), has_begun) ? "Running" : "Pending";
}

json pod_status(const PodState& pod) {
  const bool are_initialized = std::all_of(pod.init_containers.begin(), pod.init_containers.end(), is_initialized);
  const bool is_ready = std::all_of(pod.containers.begin(), pod.containers.end(), is_live) &&
                        std::all_of(pod.init_containers.begin(), pod.init_containers.end(),
                                    [](const auto& container) { return !container.is_sidecar || is_live(container); });
  json status{{"phase", pod_phase(pod)},
              {"startTime", format_rfc3339(pod.start_time)},
              {"hostIP", pod.host_ip},
              {"podIP", pod.pod_ip},
              {"conditions", json::array({condition("PodScheduled", true, pod.start_time),
                                          condition("Initialized", are_initialized, pod.start_time),
                                          condition("ContainersReady", is_ready, pod.start_time),
                                          condition("Ready", is_ready, pod.start_time)})},
              {"containerStatuses", container_statuses(pod.containers)}};
  if (!pod.init_containers.empty()) status["initContainerStatuses"] = container_statuses(pod.init_containers);
  return status;
}

json unschedulable_status(std::string_view message) {
  return {{"phase", "Pending"},
          {"conditions",
           json::array(
               {{{"type", "PodScheduled"}, {"status", "False"}, {"reason", "Unschedulable"}, {"message", message}}})}};
}

}  // namespace trainyard::local
