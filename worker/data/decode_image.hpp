#pragma once

#include <torch/types.h>

#include <cstdint>
#include <span>

#include "common/result.hpp"

namespace trainyard::data {

/// The picture of a JPEG or PNG file's bytes: uint8 [3, H, W], red, green and blue. Gray becomes three equal channels,
/// CMYK is converted, transparency is dropped, 16 bits become 8, and EXIF's orientation is ignored, as by torchvision.
/// corrupt: the file is neither, is cut off, or is broken; invalid: it has more than 2^26 pixels, or more scans than
/// any camera writes; unavailable: a decoder got too little memory. The bounds limit the memory and the time that a
/// hostile file takes. May be called by several threads.
[[nodiscard]] Result<torch::Tensor> decode_image(std::span<const std::uint8_t> bytes);

}  // namespace trainyard::data
