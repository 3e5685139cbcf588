#pragma once

#include <nlohmann/json_fwd.hpp>

#include "api/metadata.hpp"

namespace trainyard::resource {

/// The part of a Service that planning reads.
struct Service {
  api::Metadata metadata;
  bool operator==(const Service&) const = default;
};

[[nodiscard]] Result<Service> parse_service(const nlohmann::json& object);

}  // namespace trainyard::resource
