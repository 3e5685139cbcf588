#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace trainyard::checkpoint {

/// The entry's name for each of a file's tensors `names`; nothing for a tensor that is not the model's. Names of a
/// state dict get model_prefix in front. Names that `export --all` wrote (model_prefix on the model's tensors, and the
/// other prefixes on the rest) stay as they are. Pure.
[[nodiscard]] std::vector<std::optional<std::string>> entry_names(std::span<const std::string> names);

}  // namespace trainyard::checkpoint
