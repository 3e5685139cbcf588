#include "tests/fakes/fake_kubelet.hpp"

#include <algorithm>

#include "api/contract.hpp"
#include "common/check.hpp"
#include "common/time_text.hpp"

namespace trainyard::fakes {
namespace {

using nlohmann::json;

json container_status(const json& container, json state) {
  return {{"name", container.at("name")}, {"state", std::move(state)}, {"ready", false}, {"restartCount", 0}};
}

/// Statuses of a pod in which every container has `state`.
json statuses_of(const json& pod, const json& state) {
  json statuses = json::array();
  for (const json& container : pod.at("spec").at("containers")) statuses.push_back(container_status(container, state));
  return statuses;
}

std::string text_at(const json& object, const char* pointer) {
  return object.value(json::json_pointer{pointer}, "");
}

/// True for a pod that has ended and stays until somebody removes its finalizer.
bool is_held_by_finalizer(const json& pod) {
  const json& metadata = pod.at("metadata");
  return metadata.value("deletionGracePeriodSeconds", std::int64_t{1}) == 0 && metadata.contains("finalizers");
}

/// "node-<rank>", or its spare node when the pod must avoid that node.
std::string node_for(const json& pod) {
  const json labels = pod.value("/metadata/labels"_json_pointer, json::object());
  const std::string rank = labels.value(std::string{contract::label_rank}, "x");
  const std::string node = "node-" + rank;
  const json terms = pod.value(
      "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms"_json_pointer,
      json::array());
  for (const json& term : terms) {
    for (const json& label : term.value("matchExpressions", json::array())) {
      const json& values = label.at("values");
      const bool is_meant = std::ranges::find(values, json(node)) != values.end();
      if (label.at("key") == "kubernetes.io/hostname" && label.at("operator") == "NotIn" && is_meant)
        return "spare-" + rank;
    }
  }
  return node;
}

}  // namespace

void FakeKubelet::hold(PodFilter filter, std::string message) {
  held_ = std::move(filter);
  hold_message_ = std::move(message);
  idle_version_.clear();
}

void FakeKubelet::let_go() {
  held_ = {};
  idle_version_.clear();
}

void FakeKubelet::set_stubborn(PodFilter filter) {
  stubborn_ = std::move(filter);
  idle_version_.clear();
}

std::vector<json> FakeKubelet::pods() const {
  auto page = api_.list(kube::pods, {});
  check(page.has_value(), "pods can be listed");
  return std::move(page->items);
}

bool FakeKubelet::step() {
  // The list of a namespace without pods is the cheapest way to read the API's version.
  const std::string version = api_.list(kube::pods, {.name_space = "none"})->resource_version;
  if (version == idle_version_) return false;
  bool has_changed = false;
  bool has_waiting = false;
  for (const json& pod : pods()) {
    const bool is_deleted = pod.at("metadata").contains("deletionTimestamp");
    has_changed = (is_deleted ? stop(pod) : start(pod)) || has_changed;
    has_waiting = has_waiting || (is_deleted && !is_held_by_finalizer(pod));
  }
  if (!has_changed && !has_waiting) idle_version_ = version;
  return has_changed;
}

bool FakeKubelet::start(const json& pod) {
  const std::string name_space = pod.at("metadata").at("namespace");
  const std::string name = pod.at("metadata").at("name");
  const std::string phase = text_at(pod, "/status/phase");
  if (phase == "Running" || phase == "Succeeded" || phase == "Failed") return false;
  if (text_at(pod, "/spec/nodeName").empty()) {
    if (held_ && held_(pod)) {
      if (text_at(pod, "/status/conditions/0/message") == hold_message_) return false;
      write_status(pod, {{"phase", "Pending"},
                         {"conditions", json::array({{{"type", "PodScheduled"},
                                                      {"status", "False"},
                                                      {"reason", "Unschedulable"},
                                                      {"message", hold_message_}}})}});
      return true;
    }
    check(api_.bind_pod(name_space, name, node_for(pod)).has_value(), "a pending pod can be bound");
    return true;
  }
  write_status(pod, {{"phase", "Running"},
                     {"podIP", "10.0.0.1"},
                     {"containerStatuses", statuses_of(pod, {{"running", json::object()}})}});
  return true;
}

bool FakeKubelet::stop(const json& pod) {
  const auto until = parse_rfc3339(text_at(pod, "/metadata/deletionTimestamp"));
  check(until.has_value(), "a deletion timestamp is a time");
  if (is_held_by_finalizer(pod)) return false;
  if (stubborn_ && stubborn_(pod) && clock_.now() < *until) return false;
  vanish(pod.at("metadata").at("namespace"), pod.at("metadata").at("name"));
  return true;
}

void FakeKubelet::end(const std::string& name_space, const std::string& name, int exit_code,
                      const std::string& message) {
  const auto pod = api_.get(kube::pods, name_space, name);
  check(pod.has_value(), "a pod that ends is there");
  const json terminated{{"exitCode", exit_code},
                        {"reason", exit_code == 0 ? "Completed" : "Error"},
                        {"message", message},
                        {"finishedAt", format_rfc3339(clock_.now())}};
  write_status(*pod, {{"phase", exit_code == 0 ? "Succeeded" : "Failed"},
                      {"containerStatuses", statuses_of(*pod, {{"terminated", terminated}})}});
}

void FakeKubelet::vanish(const std::string& name_space, const std::string& name) {
  check(api_.remove(kube::pods, name_space, name, {.uid = {}, .grace_period_seconds = 0}).has_value(), "a pod can go");
}

void FakeKubelet::write_status(json pod, const json& status) {
  pod["status"] = status;
  const std::string name_space = pod.at("metadata").at("namespace");
  check(api_.update_status(kube::pods, name_space, pod).has_value(), "a pod's status can be written");
}

}  // namespace trainyard::fakes
