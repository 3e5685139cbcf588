#include "local/container.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "api/contract.hpp"
#include "common/try.hpp"

namespace trainyard::local {
namespace {

using nlohmann::json;

json list_at(const json& object, const char* field) {
  return object.value(field, json::array());
}

/// The key of "metadata.labels['key']".
std::optional<std::string> subscript(std::string_view path, std::string_view field) {
  if (!path.starts_with(field) || !path.substr(field.size()).starts_with("['") || !path.ends_with("']"))
    return std::nullopt;
  path.remove_prefix(field.size() + 2);
  path.remove_suffix(2);
  return std::string{path};
}

Result<std::string> field_value(const json& pod, const std::string& path) {
  for (const auto* map : {"labels", "annotations"}) {
    if (const auto key = subscript(path, fmt::format("metadata.{}", map))) {
      return pod.value(json::json_pointer{fmt::format("/metadata/{}", map)}, json::object()).value(*key, "");
    }
  }
  for (const auto* known : {"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "status.podIP",
                            "status.hostIP", "spec.serviceAccountName"}) {
    if (path != known) continue;
    std::string pointer = "/" + path;
    std::replace(pointer.begin(), pointer.end(), '.', '/');
    return pod.value(json::json_pointer{pointer}, "");
  }
  return fail(ErrorKind::invalid, fmt::format("fieldRef {} is not known on this machine", path));
}

Result<std::optional<std::string>> secret_value(const json& reference, const ContainerContext& context) {
  const std::string name = reference.value("name", "");
  const std::string key = reference.value("key", "");
  const bool is_optional = reference.value("optional", false);
  const auto secret = context.read_secret(name);
  if (!secret) {
    if (is_optional && secret.error().kind == ErrorKind::not_found) return std::nullopt;
    return tl::unexpected(secret.error());
  }
  const auto found = secret->find(key);
  if (found != secret->end()) return found->second;
  if (is_optional) return std::nullopt;
  return fail(ErrorKind::not_found, fmt::format("couldn't find key {} in Secret {}", key, name));
}

/// An amount of processors, such as 2, "0.5" or "500m", in thousandths. Nothing where `amount` is none.
std::optional<std::int64_t> millicores(const json& amount) {
  std::string text = amount.is_string() ? amount.get<std::string>() : amount.dump();
  const bool is_in_thousandths = text.ends_with('m');
  if (is_in_thousandths) text.pop_back();
  double number = 0.0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc{} || read.ptr != text.data() + text.size() || number < 0.0 || number > 1e9)
    return std::nullopt;
  return static_cast<std::int64_t>(std::ceil(is_in_thousandths ? number : number * 1000.0));
}

/// The value of a resourceFieldRef. Only "requests.cpu" in the unit "1m" is known, which is all that the operator asks
/// for.
Result<std::string> resource_value(const json& container, const json& reference) {
  const std::string resource = reference.value("resource", "");
  const std::string divisor = reference.value("divisor", "");
  if (resource != "requests.cpu" || divisor != "1m") {
    return fail(ErrorKind::invalid, fmt::format("resourceFieldRef {} in units of {} is not known on this machine",
                                                resource, divisor.empty() ? "1" : divisor));
  }
  const auto amount = millicores(container.value("/resources/requests/cpu"_json_pointer, json(0)));
  if (!amount) return fail(ErrorKind::invalid, "resources.requests.cpu is not an amount of processors");
  return std::to_string(*amount);
}

Result<std::optional<std::string>> value_from(const json& pod, const json& container, const std::string& variable,
                                              const json& source, const ContainerContext& context) {
  if (source.contains("resourceFieldRef")) return resource_value(container, source["resourceFieldRef"]);
  if (source.contains("fieldRef")) return field_value(pod, source["fieldRef"].value("fieldPath", ""));
  if (source.contains("secretKeyRef")) return secret_value(source["secretKeyRef"], context);
  return fail(ErrorKind::invalid,
              fmt::format("environment variable {} comes from {}, which cannot be had on this machine", variable,
                          source.empty() ? "nowhere" : source.begin().key()));
}

/// The pod's own variables, in the order of a kubelet: envFrom first, then env, of which each may use those before it.
Result<Variables> declared_variables(const json& pod, const json& container, const ContainerContext& context) {
  Variables declared;
  for (const auto& source : list_at(container, "envFrom")) {
    if (!source.contains("secretRef")) {
      return fail(ErrorKind::invalid,
                  "envFrom with a ConfigMap cannot be had on this machine: only Secrets are mapped");
    }
    const std::string name = source["secretRef"].value("name", "");
    const auto secret = context.read_secret(name);
    if (!secret) {
      if (source["secretRef"].value("optional", false) && secret.error().kind == ErrorKind::not_found) continue;
      return tl::unexpected(secret.error());
    }
    for (const auto& [key, value] : *secret) declared.insert_or_assign(source.value("prefix", "") + key, value);
  }
  for (const auto& entry : list_at(container, "env")) {
    const std::string name = entry.value("name", "");
    if (!entry.contains("valueFrom")) {
      declared.insert_or_assign(name, expand_variables(entry.value("value", ""), declared));
      continue;
    }
    const auto value = TRY(value_from(pod, container, name, entry["valueFrom"], context));
    if (value) declared.insert_or_assign(name, *value);
  }
  return declared;
}

/// Nothing can be mounted without root, so a mount is had only where its path already leads to the right place.
Result<void> check_mounts(const json& pod, const json& container, const ContainerContext& context) {
  for (const auto& mount : list_at(container, "volumeMounts")) {
    const std::string name = mount.value("name", "");
    const std::string path = mount.value("mountPath", "");
    const json volumes = list_at(pod.at("spec"), "volumes");
    const auto volume =
        std::find_if(volumes.begin(), volumes.end(), [&](const json& v) { return v.value("name", "") == name; });
    if (volume == volumes.end())
      return fail(ErrorKind::invalid, fmt::format("volumeMount {} names no volume of the pod", name));
    if (volume->contains("emptyDir") && path == "/dev/shm") continue;
    const std::string host_path = volume->value("/hostPath/path"_json_pointer, "");
    if (!host_path.empty() && host_path == path) continue;
    if (const std::string claim = volume->value("/persistentVolumeClaim/claimName"_json_pointer, ""); !claim.empty()) {
      const auto mapped = context.volumes.find(claim);
      if (mapped == context.volumes.end()) {
        return fail(ErrorKind::not_found, fmt::format("persistentvolumeclaim \"{}\" not found", claim));
      }
      // With subPath the mount is a folder within the claim's.
      const std::filesystem::path source = std::filesystem::path{mapped->second} / mount.value("subPath", ".");
      if ((source / "").lexically_normal() == (std::filesystem::path{path} / "").lexically_normal()) continue;
      return fail(
          ErrorKind::invalid,
          fmt::format("volume {} cannot be mounted at {} on this machine, where nothing is mounted: the claim {} "
                      "is the folder {}; a program finds it only where both are the same path",
                      name, path, claim, mapped->second));
    }
    return fail(ErrorKind::invalid, fmt::format("volume {} cannot be mounted at {} on this machine", name, path));
  }
  return {};
}

Result<std::vector<std::string>> command_of(const json& container, const Variables& declared,
                                            const ContainerContext& context) {
  std::vector<std::string> arguments;
  for (const auto& word : list_at(container, "command"))
    arguments.push_back(expand_variables(word.get<std::string>(), declared));
  if (arguments.empty()) {
    // The image's entry point: of our own images it is the worker; of others it cannot be known here.
    if (!declared.contains(std::string{contract::env_spec}) || context.worker_program.empty()) {
      return fail(ErrorKind::invalid,
                  fmt::format("container {} names no command; images are not run on this machine, so "
                              "its command must be written out",
                              container.value("name", "")));
    }
    arguments.push_back(context.worker_program);
  }
  for (const auto& word : list_at(container, "args"))
    arguments.push_back(expand_variables(word.get<std::string>(), declared));
  return arguments;
}

/// As CUDA_VISIBLE_DEVICES has it. None is "-1" and not an empty text, which many programs take for "not set".
std::string device_list(const std::vector<std::string>& gpus) {
  return gpus.empty() ? "-1" : fmt::format("{}", fmt::join(gpus, ","));
}

}  // namespace

Result<ProcessSpec> resolve_container(const json& pod, const json& container, const ContainerContext& context) {
  TRY(check_mounts(pod, container, context));
  const auto declared = TRY(declared_variables(pod, container, context));
  auto arguments = TRY(command_of(container, declared, context));

  Variables environment = context.inherited;
  environment["HOSTNAME"] = pod.at("metadata").value("name", "");
  if (context.visible_gpus) environment["CUDA_VISIBLE_DEVICES"] = device_list(*context.visible_gpus);
  for (const auto& [name, value] : declared) environment[name] = value;
  for (const auto& [name, value] : context.overrides) environment[name] = expand_variables(value, declared);
  // Last: it is where the termination message is read from.
  environment[std::string{contract::env_termination_log}] = context.termination_log;

  ProcessSpec spec{.arguments = std::move(arguments), .working_directory = container.value("workingDir", "")};
  for (const auto& [name, value] : environment) spec.environment.push_back(fmt::format("{}={}", name, value));
  return spec;
}

std::string expand_variables(std::string_view text, const Variables& variables) {
  std::string expanded;
  while (!text.empty()) {
    const auto dollar = std::min(text.find('$'), text.size());
    expanded += text.substr(0, dollar);
    text.remove_prefix(dollar);
    if (text.starts_with("$$")) {
      expanded += '$';
      text.remove_prefix(2);
    } else if (const auto close = text.find(')'); text.starts_with("$(") && close != std::string_view::npos) {
      const auto found = variables.find(std::string{text.substr(2, close - 2)});
      expanded += found == variables.end() ? text.substr(0, close + 1) : std::string_view{found->second};
      text.remove_prefix(close + 1);
    } else if (!text.empty()) {
      expanded += text.front();
      text.remove_prefix(1);
    }
  }
  return expanded;
}

std::int64_t gpus_of(const json& container) {
  for (const auto* list : {"/resources/limits/nvidia.com~1gpu", "/resources/requests/nvidia.com~1gpu"}) {
    const json wanted = container.value(json::json_pointer{list}, json{});
    if (wanted.is_number_integer()) return wanted.get<std::int64_t>();
    if (!wanted.is_string()) continue;
    const auto& text = wanted.get_ref<const std::string&>();
    std::int64_t count = 0;
    std::from_chars(text.data(), text.data() + text.size(), count);
    return count;
  }
  return 0;
}

}  // namespace trainyard::local
