#include "operator/manifest/containers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "api/contract.hpp"
#include "operator/manifest/devices.hpp"
#include "operator/manifest/template_shape.hpp"

namespace trainyard::manifest {
namespace {

using nlohmann::json;

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
  return worker == nullptr ? std::string{} : device_fault(*worker, spec.gpus_per_pod);
}

}  // namespace trainyard::manifest
