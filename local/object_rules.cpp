#include "local/object_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace trainyard::local {
namespace {

using nlohmann::json;

constexpr std::int64_t default_grace_seconds = 30;

bool is_lower_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

}  // namespace

std::string resource_name(const kube::ResourceType& type) {
  return type.group.empty() ? std::string{type.plural} : fmt::format("{}.{}", type.plural, type.group);
}

std::string api_version_of(const kube::ResourceType& type) {
  return type.group.empty() ? std::string{type.version} : fmt::format("{}/{}", type.group, type.version);
}

bool has_status(const kube::ResourceType& type) {
  return type == kube::training_jobs || type == kube::pods || type == kube::services || type == kube::volume_claims ||
         type == kube::nodes;
}

bool takes_unconditional_updates(const kube::ResourceType& type) {
  return type != kube::training_jobs && type != kube::leases;
}

Result<void> check_shape(const kube::ResourceType& type, const json& object) {
  if (!object.is_object())
    return fail(ErrorKind::invalid, fmt::format("{} is invalid: it must be an object", type.kind));
  const json metadata = object.value("metadata", json::object());
  if (!metadata.is_object())
    return fail(ErrorKind::invalid, fmt::format("{} is invalid: metadata must be an object", type.kind));
  for (const auto* field : {"name", "generateName", "namespace", "resourceVersion"}) {
    if (metadata.contains(field) && !metadata[field].is_string()) {
      return fail(ErrorKind::invalid, fmt::format("{} is invalid: metadata.{} must be a string", type.kind, field));
    }
  }
  return {};
}

Result<void> check_name(const kube::ResourceType& type, std::string_view name) {
  const bool is_label = type == kube::services;
  const std::size_t length_max = is_label ? 63 : 253;
  const auto refused = [&](std::string_view rule) {
    return fail(ErrorKind::invalid, fmt::format("{} \"{}\" is invalid: metadata.name: Invalid value: \"{}\": {}",
                                                type.kind, name, name, rule));
  };
  if (name.empty()) {
    return fail(
        ErrorKind::invalid,
        fmt::format("{} is invalid: metadata.name: Required value: name or generateName is required", type.kind));
  }
  if (name.size() > length_max) return refused(fmt::format("must be no more than {} characters", length_max));
  const bool has_good_ends = is_lower_alphanumeric(name.front()) && is_lower_alphanumeric(name.back());
  const bool is_good_inside = std::all_of(name.begin(), name.end(), [is_label](char c) {
    return is_lower_alphanumeric(c) || c == '-' || (c == '.' && !is_label);
  });
  if (!has_good_ends || !is_good_inside || (is_label && name.front() >= '0' && name.front() <= '9')) {
    return refused(
        is_label ? "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
                   "alphabetic character, and end with an alphanumeric character"
                 : "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
                   "and must start and end with an alphanumeric character");
  }
  return {};
}

Result<void> check_pod(const json& pod) {
  const std::string name = pod.value("/metadata/name"_json_pointer, "");
  const json containers = pod.value("/spec/containers"_json_pointer, json::array());
  if (!containers.is_array() || containers.empty()) {
    return fail(ErrorKind::invalid, fmt::format("Pod \"{}\" is invalid: spec.containers: Required value", name));
  }
  for (std::size_t index = 0; index < containers.size(); ++index) {
    if (containers[index].value("name", "").empty()) {
      return fail(ErrorKind::invalid,
                  fmt::format("Pod \"{}\" is invalid: spec.containers[{}].name: Required value", name, index));
    }
  }
  return {};
}

json updated(const kube::ResourceType& type, const json& stored, json wanted) {
  const json& old = stored.at("metadata");
  json& metadata = wanted["metadata"];
  for (const auto* field : {"name", "namespace", "uid", "creationTimestamp", "deletionTimestamp",
                            "deletionGracePeriodSeconds", "generation", "resourceVersion"}) {
    if (old.contains(field)) {
      metadata[field] = old[field];
    } else {
      metadata.erase(field);
    }
  }
  wanted["apiVersion"] = stored.at("apiVersion");
  wanted["kind"] = stored.at("kind");
  if (has_status(type)) {
    if (stored.contains("status")) {
      wanted["status"] = stored["status"];
    } else {
      wanted.erase("status");
    }
  }
  const auto without_metadata_and_status = [](json object) {
    object.erase("metadata");
    object.erase("status");
    return object;
  };
  if (without_metadata_and_status(wanted) != without_metadata_and_status(stored)) {
    metadata["generation"] = metadata.value("generation", std::int64_t{0}) + 1;
  }
  return wanted;
}

std::int64_t deletion_grace_seconds(const kube::ResourceType& type, const json& object,
                                    std::optional<std::int64_t> wanted_seconds) {
  if (type != kube::pods) return 0;
  const bool is_bound = !object.value("/spec/nodeName"_json_pointer, "").empty();
  const std::string phase = object.value("/status/phase"_json_pointer, "");
  if (!is_bound || phase == "Succeeded" || phase == "Failed") return 0;
  return wanted_seconds.value_or(
      object.value("/spec/terminationGracePeriodSeconds"_json_pointer, default_grace_seconds));
}

std::vector<std::string> owner_uids(const json& object) {
  std::vector<std::string> uids;
  for (const auto& owner : object.value("/metadata/ownerReferences"_json_pointer, json::array())) {
    uids.push_back(owner.value("uid", ""));
  }
  return uids;
}

bool has_finalizers(const json& object) {
  return !object.value("/metadata/finalizers"_json_pointer, json::array()).empty();
}

}  // namespace trainyard::local
