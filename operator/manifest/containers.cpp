#include "operator/manifest/containers.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <string_view>

#include "api/contract.hpp"
#include "operator/manifest/tpu.hpp"

namespace trainyard::manifest {
namespace {

using nlohmann::json;

constexpr std::string_view nvidia_gpu = "nvidia.com/gpu";

/// True for extended resources, whose names have a domain before a slash, except Kubernetes' own.
bool is_device(const std::string& resource) {
  const auto slash = resource.find('/');
  return slash != std::string::npos && !resource.substr(0, slash).ends_with("kubernetes.io");
}

bool asks_for_device(const json& container) {
  const json resources = container.value("resources", json::object());
  return (resources.is_object() && resources.contains("claims")) || !devices_of(container).empty();
}

}  // namespace

std::int64_t ranks_per_pod(const api::TrainingJobSpec& spec) {
  if (spec.training && api::has_replicas(spec.training->strategy)) return 1;
  return std::max<std::int64_t>(1, spec.gpus_per_pod);
}

std::set<std::string> devices_of(const json& container) {
  std::set<std::string> devices;
  const json resources = container.value("resources", json::object());
  if (!resources.is_object()) return devices;
  for (const char* kind : {"limits", "requests"}) {
    const json amounts = resources.value(kind, json::object());
    if (!amounts.is_object()) continue;
    for (const auto& item : amounts.items()) {
      if (is_device(item.key())) devices.insert(item.key());
    }
  }
  return devices;
}

std::string device_fault(const json& container, std::int64_t gpus_per_pod) {
  const json resources = container.value("resources", json::object());
  if (!resources.is_object()) return {};
  for (const char* kind : {"limits", "requests"}) {
    const json amounts = resources.value(kind, json::object());
    if (!amounts.is_object() || !amounts.contains(nvidia_gpu)) continue;
    const json& amount = amounts.at(std::string{nvidia_gpu});
    const std::string text = amount.is_string() ? amount.get<std::string>() : amount.dump();
    if (text == std::to_string(gpus_per_pod)) continue;
    return fmt::format("container '{}' asks for {} {} in resources.{}, but spec.gpusPerPod is {}: make them equal",
                       container.value("name", ""), text, nvidia_gpu, kind, gpus_per_pod);
  }
  return {};
}

void add_devices(json& container, std::int64_t gpus_per_pod) {
  if (gpus_per_pod == 0 || asks_for_device(container)) return;
  container["resources"]["limits"][std::string{nvidia_gpu}] = std::to_string(gpus_per_pod);
}

namespace {

using nlohmann::json;

enum class Shape { object, list, text, integer };

struct Field {
  std::string_view path;  ///< `*` means each item of a list.
  Shape shape;
};

constexpr std::array fields{
    Field{"metadata", Shape::object},
    Field{"metadata.labels", Shape::object},
    Field{"metadata.annotations", Shape::object},
    Field{"spec", Shape::object},
    Field{"spec.terminationGracePeriodSeconds", Shape::integer},
    Field{"spec.securityContext", Shape::object},
    Field{"spec.imagePullSecrets", Shape::list},
    Field{"spec.volumes", Shape::list},
    Field{"spec.tolerations", Shape::list},
    Field{"spec.tolerations.*", Shape::object},
    Field{"spec.tolerations.*.key", Shape::text},
    Field{"spec.tolerations.*.operator", Shape::text},
    Field{"spec.affinity", Shape::object},
    Field{"spec.affinity.nodeAffinity", Shape::object},
    Field{"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution", Shape::object},
    Field{"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms", Shape::list},
    Field{"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms.*",
          Shape::object},
    Field{"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms.*."
          "matchExpressions",
          Shape::list},
    Field{"spec.initContainers", Shape::list},
    Field{"spec.initContainers.*", Shape::object},
    Field{"spec.initContainers.*.env", Shape::list},
    Field{"spec.initContainers.*.env.*", Shape::object},
    Field{"spec.initContainers.*.env.*.name", Shape::text},
    Field{"spec.initContainers.*.securityContext", Shape::object},
    Field{"spec.containers", Shape::list},
    Field{"spec.containers.*", Shape::object},
    Field{"spec.containers.*.name", Shape::text},
    Field{"spec.containers.*.image", Shape::text},
    Field{"spec.containers.*.env", Shape::list},
    Field{"spec.containers.*.env.*", Shape::object},
    Field{"spec.containers.*.env.*.name", Shape::text},
    Field{"spec.containers.*.securityContext", Shape::object},
    Field{"spec.containers.*.envFrom", Shape::list},
    Field{"spec.containers.*.volumeMounts", Shape::list},
    Field{"spec.containers.*.volumeMounts.*", Shape::object},
    Field{"spec.containers.*.volumeMounts.*.mountPath", Shape::text},
    Field{"spec.containers.*.resources", Shape::object},
    Field{"spec.containers.*.resources.limits", Shape::object},
    Field{"spec.containers.*.resources.requests", Shape::object},
};

bool has_shape(const json& value, Shape shape) {
  switch (shape) {
    case Shape::object:
      return value.is_object();
    case Shape::list:
      return value.is_array();
    case Shape::text:
      return value.is_string();
    case Shape::integer:
      return value.is_number_integer();
  }
  return false;
}

std::string_view name_of(Shape shape) {
  switch (shape) {
    case Shape::object:
      return "an object";
    case Shape::list:
      return "a list";
    case Shape::text:
      return "a string";
    case Shape::integer:
      return "an integer";
  }
  return "";
}

/// Checks `value`, found at `place`, against the rest of `path`. A missing field is fine. So is a parent of the wrong
/// type: its own row of the table reports it.
std::string fault_at(const json& value, std::string_view path, const std::string& place, Shape shape) {
  if (path.empty()) {
    return has_shape(value, shape) ? std::string{}
                                   : fmt::format("{} must be {}, got {}", place, name_of(shape), value.dump());
  }
  const auto dot = path.find('.');
  const std::string_view head = path.substr(0, dot);
  const std::string_view rest = dot == std::string_view::npos ? std::string_view{} : path.substr(dot + 1);
  if (head == "*") {
    if (!value.is_array()) return {};
    for (std::size_t index = 0; index < value.size(); ++index) {
      auto fault = fault_at(value[index], rest, fmt::format("{}[{}]", place, index), shape);
      if (!fault.empty()) return fault;
    }
    return {};
  }
  if (!value.is_object() || !value.contains(head)) return {};
  return fault_at(value.at(std::string{head}), rest, fmt::format("{}.{}", place, head), shape);
}

const json empty_object = json::object();
const json empty_list = json::array();

const json& pod_spec_of(const json& pod_template) {
  const auto spec = pod_template.find("spec");
  return spec != pod_template.end() && spec->is_object() ? *spec : empty_object;
}

const json& containers_of(const json& pod_template) {
  const json& spec = pod_spec_of(pod_template);
  const auto containers = spec.find("containers");
  return containers != spec.end() && containers->is_array() ? *containers : empty_list;
}

}  // namespace

std::string template_shape_fault(const json& pod_template) {
  for (const Field& field : fields) {
    auto fault = fault_at(pod_template, field.path, "spec.template", field.shape);
    if (!fault.empty()) return fault;
  }
  return {};
}

const json* find_worker(const json& pod_template) {
  const json& containers = containers_of(pod_template);
  const auto named = std::ranges::find_if(
      containers, [](const json& container) { return container.value("name", "") == contract::worker_container; });
  if (named != containers.end()) return &*named;
  return containers.size() == 1 ? &containers.front() : nullptr;
}

bool needs_worker_image(const api::TrainingJobSpec& spec) {
  const json* worker = find_worker(spec.pod_template);
  return worker == nullptr || worker->value("image", "").empty();
}

const std::string& worker_image(const api::TrainingJobSpec& spec, const Settings& settings) {
  return spec.gpus_per_pod > 0 ? settings.worker_image_cuda : settings.worker_image_cpu;
}

std::string deciding_container(const api::TrainingJobSpec& spec, const std::vector<std::string>& names) {
  const auto has = [&](std::string_view name) { return std::ranges::find(names, name) != names.end(); };
  if (has(contract::worker_container)) return std::string{contract::worker_container};
  // Reads the template first: admission webhooks may have added containers to the pod.
  const json* worker = find_worker(spec.pod_template);
  if (worker != nullptr && has(worker->value("name", ""))) return worker->value("name", "");
  return names.empty() ? std::string{} : names.front();
}

std::string template_fault(const api::TrainingJobSpec& spec, const Settings& settings) {
  if (std::string fault = template_shape_fault(spec.pod_template); !fault.empty()) return fault;
  const json& containers = containers_of(spec.pod_template);
  const json* worker = find_worker(spec.pod_template);
  if (worker == nullptr && containers.size() > 1) {
    return fmt::format(
        "spec.template has {} containers and none of them is named '{}': name the one that trains so, because only its "
        "end decides",
        containers.size(), contract::worker_container);
  }
  if (worker == nullptr && !spec.training) {
    return "there is nothing to run: give spec.training, or a container in spec.template.spec.containers";
  }
  if (needs_worker_image(spec) && !spec.training) {
    return fmt::format("container '{}' has no image, and without spec.training there is no default",
                       worker->value("name", ""));
  }
  if (needs_worker_image(spec) && worker_image(spec, settings).empty()) {
    return fmt::format(
        "no container is given and the operator was installed without a worker image for {}: name an image in "
        "spec.template, or set the chart's workerImages",
        spec.gpus_per_pod > 0 ? "GPUs" : "CPUs");
  }
  const json& pod_spec = pod_spec_of(spec.pod_template);
  for (const char* field : {"hostname", "subdomain"}) {
    if (pod_spec.contains(field)) {
      return fmt::format(
          "spec.template.spec.{} must not be set: ranks find each other by names that the operator gives", field);
    }
  }
  if (worker == nullptr) return {};
  if (std::string fault = tpu_fault(*worker, spec); !fault.empty()) return fault;
  return device_fault(*worker, spec.gpus_per_pod);
}

}  // namespace trainyard::manifest
