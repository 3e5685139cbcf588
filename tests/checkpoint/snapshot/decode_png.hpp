#pragma once

#include <gtest/gtest.h>
#include <png.h>

#include <string>

#include "checkpoint/snapshot/picture.hpp"

namespace trainyard::snapshot {

/// The picture that libpng reads from a PNG file's bytes.
inline Picture decode_png(const std::string& file) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  EXPECT_NE(png_image_begin_read_from_memory(&image, file.data(), file.size()), 0) << image.message;
  Picture picture{.channels = (image.format & PNG_FORMAT_FLAG_COLOR) != 0 ? 3 : 1,
                  .height = image.height,
                  .width = image.width,
                  .pixels = {}};
  picture.pixels.resize(PNG_IMAGE_SIZE(image));
  EXPECT_NE(png_image_finish_read(&image, nullptr, picture.pixels.data(), 0, nullptr), 0) << image.message;
  return picture;
}

}  // namespace trainyard::snapshot
