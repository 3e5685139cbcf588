#include "operator/resource/resources.hpp"

#include <nlohmann/json.hpp>

#include "api/contract.hpp"
#include "api/field_reader.hpp"
#include "common/text.hpp"
#include "common/try.hpp"

namespace trainyard::resource {
namespace {

constexpr api::EnumNames<PodPhase, 5> pod_phase_names{{{"Pending", PodPhase::pending},
                                                       {"Running", PodPhase::running},
                                                       {"Succeeded", PodPhase::succeeded},
                                                       {"Failed", PodPhase::failed},
                                                       {"Unknown", PodPhase::unknown}}};

void read_state(api::FieldReader& state, ContainerStatus& status) {
  state.read_object("waiting", [&](api::FieldReader& waiting) {
    waiting.read("reason", status.waiting_reason);
    waiting.read("message", status.waiting_message);
  });
  state.read_object("running", [&](api::FieldReader&) { status.is_running = true; });
  state.read_object("terminated", [&](api::FieldReader& terminated) {
    ContainerTermination& termination = status.terminated.emplace();
    terminated.read("exitCode", termination.exit_code);
    terminated.read("signal", termination.signal);
    terminated.read("reason", termination.reason);
    terminated.read("message", termination.message);
    terminated.read("finishedAt", termination.finished_at);
  });
}

void read_containers(api::FieldReader& fields, std::string_view name, std::vector<ContainerStatus>& containers) {
  fields.read_list(name, [&](api::FieldReader& item) {
    ContainerStatus& status = containers.emplace_back();
    item.read("name", status.name);
    item.read("ready", status.is_ready);
    item.read("restartCount", status.restart_count);
    item.read_object("state", [&](api::FieldReader& state) { read_state(state, status); });
  });
}

/// Reads the request token, the only variable of a container that is kept.
void read_request_token(api::FieldReader& container, std::string& token) {
  container.read_list("env", [&](api::FieldReader& variable) {
    std::string name;
    variable.read("name", name);
    if (name == contract::env_request_token) variable.read("value", token);
  });
}

void keep_ours(std::map<std::string, std::string>& texts) {
  std::erase_if(texts, [](const auto& text) {
    return !text.first.starts_with(contract::api_group) ||
           !text.first.substr(contract::api_group.size()).starts_with('/');
  });
}

bool is_read(const PodCondition& condition) {
  return condition.type == "PodScheduled" || condition.type == "DisruptionTarget";
}

/// True for rank 0's pod: pods are named <job>-<uid4>-<attempt>-<rank>.
bool is_rank_0(const api::Metadata& metadata) {
  return metadata.name.ends_with("-0");
}

}  // namespace

Result<Pod> parse_pod(const nlohmann::json& object) {
  Pod pod;
  if (auto metadata = api::parse_metadata(object)) {
    pod.metadata = std::move(*metadata);
    keep_ours(pod.metadata.labels);
    keep_ours(pod.metadata.annotations);
  } else {
    return tl::unexpected(metadata.error());
  }
  std::optional<Error> problem;
  api::FieldReader fields{object, "", problem};
  fields.read_object("spec", [&](api::FieldReader& spec) {
    spec.read("nodeName", pod.node_name);
    spec.read_list("containers",
                   [&](api::FieldReader& container) { read_request_token(container, pod.request_token); });
  });
  fields.read_object("status", [&](api::FieldReader& status) {
    status.read("phase", pod.phase, pod_phase_names);
    status.read("podIP", pod.pod_ip);
    status.read("reason", pod.reason);
    status.read("message", pod.message);
    status.read_list("conditions", [&](api::FieldReader& item) {
      PodCondition& condition = pod.conditions.emplace_back();
      std::string value;
      item.read("type", condition.type);
      item.read("status", value);
      item.read("reason", condition.reason);
      item.read("message", condition.message);
      condition.is_true = value == "True";
    });
    read_containers(status, "containerStatuses", pod.containers);
    read_containers(status, "initContainerStatuses", pod.init_containers);
  });
  if (problem) return tl::unexpected(*problem);
  std::erase_if(pod.conditions, [](const PodCondition& condition) { return !is_read(condition); });
  if (!is_rank_0(pod.metadata)) pod.request_token.clear();
  return pod;
}

Result<Service> parse_service(const nlohmann::json& object) {
  Service service;
  service.metadata = TRY(api::parse_metadata(object));
  std::optional<Error> problem;
  api::FieldReader fields{object, "", problem};
  fields.read_object("spec", [&](api::FieldReader& spec) {
    spec.read_object("selector", [&](api::FieldReader& selector) {
      std::string attempt;
      selector.read(contract::label_attempt, attempt);
      // A text that is not a number selects no attempt's pods.
      service.attempt = parse_number<std::int64_t>(attempt).value_or(0);
    });
  });
  if (problem) return tl::unexpected(*problem);
  return service;
}

Result<Node> parse_node(const nlohmann::json& object) {
  auto metadata = TRY(api::parse_metadata(object));
  Node node{.metadata = std::move(metadata)};
  const auto host_name = node.metadata.labels.find(std::string{host_name_label});
  if (host_name != node.metadata.labels.end()) node.host_name = host_name->second;
  // Drops the other labels and annotations: nothing reads them, and a node with GPUs may have a hundred.
  node.metadata.labels.clear();
  node.metadata.annotations.clear();
  const auto status = object.find("status");
  if (status == object.end() || !status->is_object()) return node;
  const auto conditions = status->find("conditions");
  if (conditions == status->end() || !conditions->is_array()) return node;
  for (const auto& condition : *conditions) {
    if (!condition.is_object() || condition.value("type", "") != "Ready") continue;
    node.is_ready = condition.value("status", "") == "True";
    node.is_unreachable = condition.value("status", "") == "Unknown";
  }
  return node;
}

Result<MountFailure> parse_mount_failure(const nlohmann::json& object) {
  auto metadata = TRY(api::parse_metadata(object));
  MountFailure failure{.metadata = std::move(metadata), .pod = {}, .message = {}};
  failure.metadata.labels.clear();
  failure.metadata.annotations.clear();
  std::optional<Error> problem;
  api::FieldReader fields{object, "", problem};
  fields.read("note", failure.message);
  fields.read_object("regarding", [&](api::FieldReader& regarding) {
    api::OwnerReference pod{.is_controller = true};
    regarding.read("uid", pod.uid);
    regarding.read("name", failure.pod);
    failure.metadata.controller = pod;
  });
  if (problem) return tl::unexpected(*problem);
  return failure;
}

}  // namespace trainyard::resource
