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

/// The part of ObjectMeta that Trainyard reads.
struct Metadata {
  std::string name;
  std::string name_space;
  std::string uid;
  std::string resource_version;
  std::int64_t generation = 0;
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> annotations;
  std::optional<Time> creation_time;
  std::optional<Time> deletion_time;       ///< Set while the object is being deleted: when it should be gone.
  std::chrono::seconds deletion_grace{0};  ///< Time from the request to delete the object to `deletion_time`.
  std::vector<std::string> finalizers;     ///< An object that is being deleted stays until this is empty.
  std::optional<OwnerReference> controller;
  bool operator==(const Metadata&) const = default;
};

/// ErrorKind::invalid when name or UID is missing or a time is malformed.
[[nodiscard]] Result<Metadata> parse_metadata(const nlohmann::json& object);

}  // namespace trainyard::api
