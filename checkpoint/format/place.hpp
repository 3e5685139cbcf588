#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/format/layout.hpp"

namespace trainyard::checkpoint {

/// What a URI of a person's names: a prefix, or one checkpoint under it.
struct Place {
  std::string prefix_uri;
  std::optional<CheckpointId> id;
  bool operator==(const Place&) const = default;
};

/// `uri` taken apart: what ends in step-N/g-G (with or without a '/' behind) is a checkpoint's own. Whether the URI is
/// one at all is for open_store() to say.
[[nodiscard]] Place parse_place(std::string_view uri);

}  // namespace trainyard::checkpoint
