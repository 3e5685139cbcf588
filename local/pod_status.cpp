#include "local/pod_status.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/rfc3339.hpp"

namespace trainyard::local {
namespace {

using nlohmann::json;

constexpr std::size_t fallback_bytes_max = 2048;
constexpr int fallback_lines_max = 80;

bool has_failed(const ContainerState& container) {
  return container.end && container.end->exit_code != 0;
}

json condition(std::string_view type, bool is_true, const Time& since) {
  return {{"type", type}, {"status", is_true ? "True" : "False"}, {"lastTransitionTime", format_rfc3339(since)}};
}

json container_status(const ContainerState& container) {
  const bool is_running = container.started_at && !container.end;
  json state;
  if (container.end) {
    state["terminated"] = {{"exitCode", container.end->exit_code},
                           {"reason", container.end->reason},
                           {"finishedAt", format_rfc3339(container.end->finished_at)}};
    json& terminated = state["terminated"];
    if (container.started_at) terminated["startedAt"] = format_rfc3339(*container.started_at);
    if (container.end->signal != 0) terminated["signal"] = container.end->signal;
    if (!container.end->message.empty()) terminated["message"] = container.end->message;
  } else if (is_running) {
    state["running"] = {{"startedAt", format_rfc3339(*container.started_at)}};
  } else {
    state["waiting"] = {{"reason", container.waiting_reason}};
    if (!container.waiting_message.empty()) state["waiting"]["message"] = container.waiting_message;
  }
  return {{"name", container.name}, {"image", container.image},  {"ready", is_running},        {"started", is_running},
          {"restartCount", 0},      {"state", std::move(state)}, {"lastState", json::object()}};
}

json container_statuses(const std::vector<ContainerState>& containers) {
  json statuses = json::array();
  for (const auto& container : containers) statuses.push_back(container_status(container));
  return statuses;
}

}  // namespace

std::string_view pod_phase(const PodState& pod) {
  if (std::any_of(pod.init_containers.begin(), pod.init_containers.end(), has_failed)) return "Failed";
  const auto& all = pod.containers;
  const auto has_ended = [](const ContainerState& container) { return container.end.has_value(); };
  if (std::all_of(all.begin(), all.end(), has_ended)) {
    return std::any_of(all.begin(), all.end(), has_failed) ? "Failed" : "Succeeded";
  }
  const auto has_begun = [&](const ContainerState& container) { return container.started_at || container.end; };
  return std::any_of(all.begin(), all.end(), has_begun) ? "Running" : "Pending";
}

json pod_status(const PodState& pod) {
  const bool is_initialized =
      std::all_of(pod.init_containers.begin(), pod.init_containers.end(),
                  [](const auto& container) { return container.end && container.end->exit_code == 0; });
  const bool is_ready = std::all_of(pod.containers.begin(), pod.containers.end(),
                                    [](const auto& container) { return container.started_at && !container.end; });
  json status{{"phase", pod_phase(pod)},
              {"startTime", format_rfc3339(pod.start_time)},
              {"hostIP", pod.host_ip},
              {"podIP", pod.pod_ip},
              {"conditions", json::array({condition("PodScheduled", true, pod.start_time),
                                          condition("Initialized", is_initialized, pod.start_time),
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

std::string fallback_message(std::string_view log) {
  if (log.size() > fallback_bytes_max) log.remove_prefix(log.size() - fallback_bytes_max);
  int lines = 0;
  for (std::size_t at = log.size(); at-- > 0;) {
    if (log[at] != '\n' || at + 1 == log.size()) continue;
    if (++lines == fallback_lines_max) return std::string{log.substr(at + 1)};
  }
  return std::string{log};
}

}  // namespace trainyard::local
