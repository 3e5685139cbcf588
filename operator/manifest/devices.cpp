#include "operator/manifest/devices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

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

std::int64_t ranks_per_pod(std::int64_t gpus_per_pod) {
  return std::max<std::int64_t>(1, gpus_per_pod);
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

}  // namespace trainyard::manifest
