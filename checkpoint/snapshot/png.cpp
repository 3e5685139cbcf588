#include "checkpoint/snapshot/png.hpp"

#include <fmt/format.h>
#include <png.h>

#include "common/check.hpp"

namespace trainyard::snapshot {

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
