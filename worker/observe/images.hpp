#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string_view>

#include "common/result.hpp"

namespace trainyard {

/// Where a module's images go.
class ImageSink {
 public:
  virtual ~ImageSink() = default;
  /// `image` is one that check_image() takes, and may change afterwards. Never waits for the device.
  virtual void log_image(std::string_view name, const torch::Tensor& image) = 0;
};

namespace observe {

inline constexpr std::int64_t images_in_one_max = 256;
inline constexpr std::int64_t image_side_max = 8192;

/// Success for what Module::log_image() takes. ErrorKind::invalid says what an image is and what this one is. Looks at
/// shape and type only, so that it never waits for the device.
[[nodiscard]] Result<void> check_image(std::string_view name, const torch::Tensor& image);

/// A copy of `image`, one that check_image() takes, as uint8 [N, C, H, W] on its device: floats in [0, 1] become 0 to
/// 255, what is outside is cut off, and what is no number becomes 0. Never waits for the device.
[[nodiscard]] torch::Tensor to_image_bytes(const torch::Tensor& image);

}  // namespace observe
}  // namespace trainyard
