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

/// Success when the lists of all ranks have equal names, shapes and dtypes. Otherwise ErrorKind::invalid names the
/// first tensor that differs, and two ranks. Collective; equal lists cost one small message.
[[nodiscard]] Result<void> agree_on_layout(const NamedTensors& tensors, checkpoint::Communicator& communicator);

/// A 64-bit hash of the tensors' bytes in order: FNV-1a over words of eight bytes.
[[nodiscard]] std::uint64_t checksum(const NamedTensors& tensors);

/// The checksum, when it is equal on all ranks. Otherwise ErrorKind::corrupt names the ranks that differ from rank 0.
/// Collective.
[[nodiscard]] Result<std::uint64_t> agree_on_values(const NamedTensors& tensors,
                                                    checkpoint::Communicator& communicator);

}  // namespace trainyard::strategy
