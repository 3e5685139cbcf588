#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace trainyard::checkpoint {

/// The entries that tensors of these names in a file are; nothing for those that are no model's. Names of a state dict
/// get model_prefix in front. Where all names have it, or stand beside those of optimizers and random generators, as
/// `export --all` writes them, they stay as they are. Pure.
[[nodiscard]] std::vector<std::optional<std::string>> entry_names(std::span<const std::string> names);

}  // namespace trainyard::checkpoint
