#pragma once

#include <torch/types.h>

#include <cstdint>
#include <span>

#include "common/result.hpp"

namespace trainyard::data {

/// decode_image() for PNG: uint8 [H, W, 3].
[[nodiscard]] Result<torch::Tensor> decode_png(std::span<const std::uint8_t> bytes);

}  // namespace trainyard::data
