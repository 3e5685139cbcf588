#pragma once

#include <c10/core/Allocator.h>
#include <torch/types.h>

#include <cstddef>
#include <cstdint>

/// Tensors that are freed and made again in each step.
namespace trainyard::strategy {

/// Says who gets the memory of a CPU tensor that is freed.
enum class FreedMemory {
  kept,      ///< The process's allocator, which keeps most of it for the next tensors.
  returned,  ///< From 1 MiB on, the system, at once. It zeroes the memory before it hands it out again.
};

/// `bytes` of memory with any values: on the host of FreedMemory::returned, on other devices from torch's allocator.
/// Throws as torch does when there is none.
[[nodiscard]] c10::DataPtr allocate_returned(std::size_t bytes, c10::DeviceType device);

/// A tensor of `count` elements with any values. `freed` matters on the host alone.
[[nodiscard]] torch::Tensor make_buffer(std::int64_t count, const torch::TensorOptions& options, FreedMemory freed);

}  // namespace trainyard::strategy
