#include "tests/integration/hand_kubelet.hpp"

#include "common/interruptible_wait.hpp"
#include "common/try.hpp"

namespace trainyard::integration {
namespace {

using nlohmann::json;

json container_statuses(const json& pod, const json& state) {
  json statuses = json::array();
  for (const json& container : pod.at("spec").at("containers")) {
    statuses.push_back({{"name", container.at("name")},
                        {"image", container.at("image")},
                        {"imageID", ""},
                        {"ready", state.contains("running")},
                        {"restartCount", 0},
                        {"state", state}});
  }
  return statuses;
}

}  // namespace

HandKubelet::HandKubelet(kube::Api& api, std::string name_space)
    : api_{api}, name_space_{std::move(name_space)}, thread_{[this](const std::stop_token& stop) { run(stop); }} {}

std::vector<json> HandKubelet::pods() const {
  auto listed = api_.list(kube::pods, {.name_space = name_space_});
  return listed ? std::move(listed->items) : std::vector<json>{};
}

void HandKubelet::run(const std::stop_token& stop) {
  while (wait_unless_stopped(stop, std::chrono::milliseconds{20})) {
    for (const json& pod : pods()) {
      if (pod.value("/status/phase"_json_pointer, "Pending") != "Pending") continue;
      // The writer who changed the pod in between causes another event for it.
      static_cast<void>(write_status(
          pod,
          {{"phase", "Running"},
           {"podIP", "127.0.0.1"},
           {"containerStatuses", container_statuses(pod, {{"running", {{"startedAt", "2026-01-01T00:00:00Z"}}}})}}));
    }
  }
}

Result<void> HandKubelet::end(const std::string& name, int exit_code, const std::string& message) {
  const auto pod = TRY(api_.get(kube::pods, name_space_, name));
  const json terminated{{"exitCode", exit_code},
                        {"reason", exit_code == 0 ? "Completed" : "Error"},
                        {"message", message},
                        {"finishedAt", "2026-01-01T00:01:00Z"}};
  return write_status(pod, {{"phase", exit_code == 0 ? "Succeeded" : "Failed"},
                            {"podIP", "127.0.0.1"},
                            {"containerStatuses", container_statuses(pod, {{"terminated", terminated}})}});
}

Result<void> HandKubelet::write_status(json pod, json status) {
  pod["status"] = std::move(status);
  TRY(api_.update_status(kube::pods, name_space_, pod));
  return {};
}

}  // namespace trainyard::integration
