#pragma once

#include <c10/core/Allocator.h>
#include <torch/types.h>

#include <cstddef>
#include <cstdint>

/// Tensors that are freed and made again in each step.
namespace trainyard::strategy {

/// What becomes of the memory of freed CPU tensors.
enum class FreedMemory {
  kept,      ///< The process's allocator keeps most of it for the next tensors.
  returned,  ///< That of tensors from 1 MiB on goes back to the system at once, which zeroes it for the next ones.
};

/// `bytes` of the host's memory, with any values, of FreedMemory::returned. Throws as torch does when there is none.
[[nodiscard]] c10::DataPtr allocate_returned(std::size_t bytes);

/// A tensor of `count` elements with any values. On devices its memory is that of torch's allocator.
[[nodiscard]] torch::Tensor make_buffer(std::int64_t count, const torch::TensorOptions& options, FreedMemory freed);

}  // namespace trainyard::strategy
