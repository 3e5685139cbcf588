#pragma once

#include <fmt/format.h>
#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <span>

#include "common/result.hpp"

namespace trainyard::data {

/// Source of the bound: a picture of 8192 x 8192. Its pixels take 192 MiB.
constexpr std::int64_t image_pixels_max = std::int64_t{1} << 26;

/// invalid: a picture of this size is not decoded, because a small file can claim one that no memory holds.
[[nodiscard]] inline Result<void> check_image_size(std::int64_t width, std::int64_t height) {
  if (height > 0 && width > 0 && width <= image_pixels_max / height) return {};
  return fail(ErrorKind::invalid,
              fmt::format("it has {} x {} pixels; from 1 to {} are read", width, height, image_pixels_max));
}

/// decode_image() for JPEG: uint8 [H, W, 3].
[[nodiscard]] Result<torch::Tensor> decode_jpeg(std::span<const std::uint8_t> bytes);

/// Memory as std::malloc gives it: nullptr when there is too little. std::free frees it.
using AllocateMemory = void* (*)(std::size_t bytes);

/// decode_image() for PNG: uint8 [H, W, 3]. libpng's memory is of `allocate`.
[[nodiscard]] Result<torch::Tensor> decode_png(std::span<const std::uint8_t> bytes,
                                               AllocateMemory allocate = std::malloc);

/// The picture of a JPEG or PNG file's bytes: uint8 [3, H, W], red, green and blue. Gray becomes three equal channels,
/// CMYK is converted, transparency is dropped, 16 bits become 8, and EXIF's orientation is ignored, as by torchvision.
/// corrupt: the file is neither, is cut off, or is broken; invalid: it has more than 2^26 pixels, or more scans than
/// any camera writes; unavailable: a decoder got too little memory. The bounds limit the memory and the time that a
/// hostile file takes. May be called by several threads.
[[nodiscard]] Result<torch::Tensor> decode_image(std::span<const std::uint8_t> bytes);

/// The picture in `file`: uint8 [channels, H, W]. channels: 3, or 1 for gray with the weights of ITU-R 601. Throws
/// InvalidJob, naming the file, where the file is none that decode_image() reads; std::runtime_error where it cannot be
/// read, which another attempt may do. May be called by several threads.
[[nodiscard]] torch::Tensor load_picture(const std::filesystem::path& file, std::int64_t channels);

}  // namespace trainyard::data
