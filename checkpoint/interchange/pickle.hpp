#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/interchange/tensor_type.hpp"

namespace trainyard::checkpoint {

/// A contiguous tensor, whose bytes are record `record` of the archive.
struct PickledTensor {
  std::string_view name;
  Dtype dtype;
  std::span<const std::int64_t> shape;
  std::uint64_t bytes = 0;
  std::size_t record = 0;
};

/// The pickle (protocol 2) of a dict of `tensors`, as torch.save writes it. Uses only opcodes and globals that
/// weights_only=True allows.
[[nodiscard]] std::string pickle_tensors(std::span<const PickledTensor> tensors);

}  // namespace trainyard::checkpoint
