#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/group/communicator.hpp"
#include "common/result.hpp"

namespace trainyard::strategy {

using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

/// Success when all ranks' lists have equal names, shapes and dtypes. invalid otherwise, naming the first tensor that
/// differs and two ranks. Collective; equal lists cost one small message.
[[nodiscard]] Result<void> agree_on_layout(const NamedTensors& tensors, checkpoint::Communicator& communicator);

/// A 64-bit hash of the tensors' bytes, in order: equal for equal bits. FNV-1a over words of eight bytes.
[[nodiscard]] std::uint64_t checksum(const NamedTensors& tensors);

/// The checksum, when it is the same on all ranks. corrupt otherwise, naming the ranks that differ from rank 0.
/// Collective.
[[nodiscard]] Result<std::uint64_t> agree_on_values(const NamedTensors& tensors,
                                                    checkpoint::Communicator& communicator);

}  // namespace trainyard::strategy
