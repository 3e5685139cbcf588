#pragma once

#include <fmt/format.h>

#include <cstdint>

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

}  // namespace trainyard::data
