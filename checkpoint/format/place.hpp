#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/format/layout.hpp"

namespace trainyard::checkpoint {

/// A URI given by a person: it names a prefix, or one checkpoint under a prefix.
struct Place {
  std::string prefix_uri;
  std::optional<CheckpointId> id;
  bool operator==(const Place&) const = default;
};

/// Splits `uri`: a URI that ends in step-N/g-G (with or without a '/' after it) names one checkpoint. open_store()
/// checks the URI itself.
[[nodiscard]] Place parse_place(std::string_view uri);

}  // namespace trainyard::checkpoint
