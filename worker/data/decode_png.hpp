#pragma once

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "common/result.hpp"

namespace trainyard::data {

/// Memory as std::malloc gives it: nullptr when there is too little. std::free frees it.
using AllocateMemory = void* (*)(std::size_t bytes);

/// decode_image() for PNG: uint8 [H, W, 3]. libpng's memory is of `allocate`.
[[nodiscard]] Result<torch::Tensor> decode_png(std::span<const std::uint8_t> bytes,
                                               AllocateMemory allocate = std::malloc);

}  // namespace trainyard::data
