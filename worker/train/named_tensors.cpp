#include "worker/train/named_tensors.hpp"

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

}  // namespace

NamedTensors named_parameters(const torch::nn::Module& module) {
  return without_repeats(module.named_parameters());
}

NamedTensors named_buffers(const torch::nn::Module& module) {
  return without_repeats(module.named_buffers());
}

}  // namespace trainyard::train
