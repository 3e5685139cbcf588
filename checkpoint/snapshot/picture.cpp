#include "checkpoint/snapshot/picture.hpp"

#include <fmt/format.h>
#include <png.h>

#include <algorithm>

#include "common/check.hpp"

namespace trainyard::snapshot {
namespace {

constexpr std::int64_t columns_max = 8;
constexpr std::int64_t gap_pixels = 2;

// The pixels of `count` images of `size` pixels, with the gaps between.
std::int64_t extent(std::int64_t count, std::int64_t size) {
  return count * size + (count - 1) * gap_pixels;
}

}  // namespace

Picture lay_out(const Planes& planes) {
  const auto& [images, channels, height, width, bytes] = planes;
  check(images > 0 && static_cast<std::int64_t>(bytes.size()) == images * channels * height * width,
        "an image has as many bytes as its shape says");
  const std::int64_t columns = std::min(images, columns_max);
  const std::int64_t rows = (images + columns - 1) / columns;
  Picture picture{.channels = channels, .height = extent(rows, height), .width = extent(columns, width), .pixels = {}};
  picture.pixels.resize(static_cast<std::size_t>(picture.height * picture.width * channels));
  auto byte = bytes.begin();
  for (std::int64_t image = 0; image < images; ++image) {
    const std::int64_t top = image / columns * (height + gap_pixels);
    const std::int64_t left = image % columns * (width + gap_pixels);
    for (std::int64_t channel = 0; channel < channels; ++channel) {
      for (std::int64_t y = top; y < top + height; ++y) {
        for (std::int64_t x = left; x < left + width; ++x) {
          picture.pixels[static_cast<std::size_t>((y * picture.width + x) * channels + channel)] = *byte++;
        }
      }
    }
  }
  return picture;
}

Result<std::string> encode_png(const Picture& picture) {
  check(picture.channels == 1 || picture.channels == 3, "a picture is gray or in colours");
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(picture.width);
  image.height = static_cast<png_uint_32>(picture.height);
  image.format = picture.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  // Takes memory for the worst case: to ask libpng for the size would compress everything twice.
  png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string file(bytes, '\0');
  if (png_image_write_to_memory(&image, file.data(), &bytes, 0, picture.pixels.data(), 0, nullptr) == 0)
    return fail(ErrorKind::internal, fmt::format("an image of {} x {} pixels cannot be written as PNG: {}",
                                                 picture.width, picture.height, &image.message[0]));
  file.resize(bytes);
  file.shrink_to_fit();
  return file;
}

}  // namespace trainyard::snapshot
