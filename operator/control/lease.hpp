#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "common/clock.hpp"
#include "common/result.hpp"

namespace trainyard::control {

/// The part of a coordination.k8s.io Lease that an election reads and writes.
struct Lease {
  std::string name_space;
  std::string name;
  std::string resource_version;
  std::string holder;  ///< Empty: no holder.
  std::chrono::seconds duration{0};
  std::int64_t transitions = 0;
  std::optional<Time> acquired;
  std::optional<Time> renewed;  ///< By the clock of the holder's machine: compare for equality only.
  bool operator==(const Lease&) const = default;
};

/// ErrorKind::invalid names the field.
[[nodiscard]] Result<Lease> parse_lease(const nlohmann::json& object);
[[nodiscard]] nlohmann::json to_json(const Lease& lease);

}  // namespace trainyard::control
