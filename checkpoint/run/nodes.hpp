#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trainyard::checkpoint {

/// For each rank the first one on the same node, which keeps that node's local checkpoints. `names`: each rank's
/// node, in rank order. Pure.
[[nodiscard]] std::vector<std::int64_t> keepers_of(std::span<const std::string> names);

}  // namespace trainyard::checkpoint
