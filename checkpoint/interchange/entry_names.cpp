#include "checkpoint/interchange/entry_names.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "checkpoint/format/entry.hpp"

namespace trainyard::checkpoint {
namespace {

constexpr std::array entry_prefixes = {model_prefix,  optimizer_prefix, random_prefix,  ema_prefix,
                                       scaler_prefix, strategy_prefix,  callback_prefix};

bool has_entry_prefix(const std::string& name) {
  return std::any_of(entry_prefixes.begin(), entry_prefixes.end(),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

}  // namespace

std::vector<std::optional<std::string>> entry_names(std::span<const std::string> names) {
  const auto is_model = [](const std::string& name) { return name.starts_with(model_prefix); };
  const bool are_entries =
      std::all_of(names.begin(), names.end(), has_entry_prefix) && std::any_of(names.begin(), names.end(), is_model);
  std::vector<std::optional<std::string>> entries;
  for (const std::string& name : names) {
    if (!are_entries)
      entries.push_back(std::string{model_prefix} + name);
    else if (is_model(name))
      entries.push_back(name);
    else
      entries.push_back(std::nullopt);
  }
  return entries;
}

}  // namespace trainyard::checkpoint
