#pragma once

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"

namespace trainyard::observe {

inline constexpr std::size_t name_bytes_max = 200;

/// Refuses as invalid what is no name for a metric or an image: a name is one line of 1 to name_bytes_max bytes,
/// without control characters, that begins with no blank.
[[nodiscard]] Result<void> check_name(std::string_view name);
/// The type and shape of `tensor`, for messages: "Float [3, 4]".
[[nodiscard]] std::string describe(const torch::Tensor& tensor);

/// Takes the images that a module logs.
class ImageSink {
 public:
  virtual ~ImageSink() = default;
  /// check_image() has accepted `image`, which may change after the call. Never waits for the device.
  virtual void log_image(std::string_view name, const torch::Tensor& image) = 0;
};

/// Gives each image to several sinks.
class ImageSinks final : public ImageSink {
 public:
  /// `sink` outlives the object; nullptr is left out.
  void add(ImageSink* sink) {
    if (sink != nullptr) sinks_.push_back(sink);
  }
  void log_image(std::string_view name, const torch::Tensor& image) override {
    for (ImageSink* sink : sinks_) sink->log_image(name, image);
  }

 private:
  std::vector<ImageSink*> sinks_;
};

inline constexpr std::int64_t images_in_one_max = 256;
inline constexpr std::int64_t image_side_max = 8192;

/// Success when Module::log_image() accepts `image`. ErrorKind::invalid describes `image` and what is accepted. Checks
/// shape and type only, so that it never waits for the device.
[[nodiscard]] Result<void> check_image(std::string_view name, const torch::Tensor& image);

/// A copy of `image`, which check_image() has accepted, as uint8 [N, C, H, W] on its device. Floats in [0, 1] become 0
/// to 255; numbers outside are clamped, and not-a-number becomes 0. Never waits for the device.
[[nodiscard]] torch::Tensor to_image_bytes(const torch::Tensor& image);

}  // namespace trainyard::observe
