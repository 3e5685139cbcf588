#include "worker/train/named_tensors.hpp"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>

namespace trainyard::train {
namespace {

/// A tensor shared by two layers (tied weights) has two names and is one tensor.
template <typename Items>
NamedTensors without_repeats(const Items& items) {
  NamedTensors found;
  for (const auto& item : items) {
    const bool is_known =
        std::any_of(found.begin(), found.end(), [&](const auto& known) { return known.second.is_same(item.value()); });
    if (!is_known) found.emplace_back(item.key(), item.value());
  }
  return found;
}

template <typename Items>
void add_repeats(const Items& items, std::vector<std::string>& names) {
  const NamedTensors once = without_repeats(items);
  for (const auto& item : items) {
    const bool is_first =
        std::any_of(once.begin(), once.end(), [&](const auto& known) { return known.first == item.key(); });
    if (!is_first) names.push_back(item.key());
  }
}

}  // namespace

NamedTensors named_parameters(const torch::nn::Module& module) {
  return without_repeats(module.named_parameters());
}

NamedTensors named_buffers(const torch::nn::Module& module) {
  return without_repeats(module.named_buffers());
}

std::vector<std::string> further_names(const torch::nn::Module& module) {
  std::vector<std::string> names;
  add_repeats(module.named_parameters(), names);
  add_repeats(module.named_buffers(), names);
  return names;
}

}  // namespace trainyard::train
