#include "operator/manifest/tpu.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <string_view>

#include "operator/manifest/containers.hpp"
#include "operator/manifest/names.hpp"

namespace trainyard::manifest {
namespace {

using nlohmann::json;

constexpr std::string_view tpu_resource = "google.com/tpu";

/// Linux starts no program with a variable of more than 128 KiB, and a host's name has up to 127 bytes and a comma.
constexpr std::int64_t hosts_max = 1000;

bool asks_for_tpu(const json& container) {
  const std::string name{tpu_resource};
  if (!devices_of(container).contains(name)) return false;
  const json& resources = container.at("resources");
  return std::ranges::any_of(std::array{"limits", "requests"}, [&](const char* kind) {
    const json amount = resources.value(kind, json::object()).value(name, json{0});
    return amount != 0 && amount != "0";
  });
}

/// Adds the variable before those of the template, which may then refer to it.
void add_unless_set(json& container, std::string_view name, std::string value) {
  auto& environment = container["env"].get_ref<json::array_t&>();
  const bool is_set = std::ranges::any_of(environment, [&](const json& set) { return set.value("name", "") == name; });
  if (is_set) return;
  json variable{{"name", name}, {"value", std::move(value)}};
  environment.insert(environment.begin(), std::move(variable));
}

/// The name or address by which the other pods reach the pod. A name leaves out the namespace: all pods are in it, and
/// its domain is the first that a pod's resolver tries.
std::string short_host(const PodPlace& place, const ClusterTraits& traits) {
  std::string host = traits.address_of(place).host;
  const std::string domain = fmt::format(".{}.svc", place.name_space);
  if (host.ends_with(domain)) host.resize(host.size() - domain.size());
  return host;
}

std::string host_names(const api::TrainingJob& job, const ClusterTraits& traits) {
  std::string names;
  for (std::int64_t i = 0; i < job.status.replicas.desired; ++i)
    names += (i == 0 ? "" : ",") + short_host(place_of(job, job.status.attempt, i), traits);
  return names;
}

}  // namespace

std::string tpu_fault(const json& container, const api::TrainingJobSpec& spec) {
  if (!asks_for_tpu(container)) return {};
  const std::string asks = fmt::format("container '{}' asks for {}", container.value("name", ""), tpu_resource);
  if (needs_worker_image(spec)) {
    return asks + ", which Trainyard's own worker cannot use: name an image of yours, and leave spec.training out";
  }
  if (spec.gpus_per_pod > 1) {
    return fmt::format("{}, but spec.gpusPerPod is {}: make it 0, as a pod is one host with all of its TPU chips", asks,
                       spec.gpus_per_pod);
  }
  if (spec.replicas > hosts_max) {
    return fmt::format(
        "{}, but spec.replicas is {}: a TPU slice has at most {} pods here, whose names all stand in "
        "one variable",
        asks, spec.replicas, hosts_max);
  }
  return {};
}

void add_tpu_environment(json& container, const api::TrainingJob& job, std::int64_t pod_index,
                         const ClusterTraits& traits) {
  if (!asks_for_tpu(container)) return;
  add_unless_set(container, "TPU_WORKER_ID", std::to_string(pod_index));
  add_unless_set(container, "TPU_WORKER_HOSTNAMES", host_names(job, traits));
}

}  // namespace trainyard::manifest
