#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.hpp"
#include "common/result.hpp"

namespace trainyard::api {

struct OwnerReference {
  std::string api_version;  ///< "trainyard.dev/v1alpha1"
  std::string kind;
  std::string name;
  std::string uid;
  bool is_controller = false;
  bool operator==(const OwnerReference&) const = default;
};

/// The part of ObjectMeta that we read.
struct Metadata {
  std::string name;
  std::string name_space;
  std::string uid;
  std::string resource_version;
  std::int64_t generation = 0;
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> annotations;
  std::optional<Time> creation_time;
  std::optional<Time> deletion_time;       ///< Set: the object is being deleted, and should be gone by then.
  std::chrono::seconds deletion_grace{0};  ///< How long before that it was asked for.
  std::vector<std::string> finalizers;     ///< While there is one, an object that is being deleted stays.
  std::optional<OwnerReference> controller;
  bool operator==(const Metadata&) const = default;
};

/// ErrorKind::invalid when name or UID is missing or a time is malformed.
[[nodiscard]] Result<Metadata> parse_metadata(const nlohmann::json& object);

}  // namespace trainyard::api
