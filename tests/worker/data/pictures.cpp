#include "tests/worker/data/pictures.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <vector>

// libjpeg's header needs <cstdio> before it.
#include <jpeglib.h>
#include <png.h>
#include <zlib.h>

namespace trainyard::fakes {
namespace {

std::uint8_t* bytes_of(const torch::Tensor& picture) {
  return picture.data_ptr<std::uint8_t>();
}

void change_nothing(jpeg_compress_struct& /*writer*/) {}

/// `change`: what is other than libjpeg's defaults.
std::string write_jpeg(const torch::Tensor& picture, void (*change)(jpeg_compress_struct&)) {
  const torch::Tensor dense = picture.contiguous();
  jpeg_compress_struct writer{};
  jpeg_error_mgr errors{};
  writer.err = jpeg_std_error(&errors);
  jpeg_create_compress(&writer);
  unsigned char* bytes = nullptr;
  unsigned long count = 0;  // NOLINT(google-runtime-int): libjpeg's type.
  jpeg_mem_dest(&writer, &bytes, &count);
  const auto channels = static_cast<int>(dense.size(2));
  writer.image_height = static_cast<JDIMENSION>(dense.size(0));
  writer.image_width = static_cast<JDIMENSION>(dense.size(1));
  writer.input_components = channels;
  writer.in_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&writer);
  jpeg_set_quality(&writer, 100, TRUE);
  change(writer);
  jpeg_start_compress(&writer, TRUE);
  while (writer.next_scanline < writer.image_height) {
    JSAMPROW row = bytes_of(dense) + std::int64_t{writer.next_scanline} * dense.size(1) * channels;
    jpeg_write_scanlines(&writer, &row, 1);
  }
  jpeg_finish_compress(&writer);
  jpeg_destroy_compress(&writer);
  std::string file{reinterpret_cast<const char*>(bytes), count};
  std::free(bytes);  // NOLINT(cppcoreguidelines-no-malloc): libjpeg took it by malloc.
  return file;
}

}  // namespace

std::string jpeg_of(const torch::Tensor& picture) {
  return write_jpeg(picture, change_nothing);
}

std::string plain_cmyk_jpeg_of(const torch::Tensor& picture) {
  return write_jpeg(picture, [](jpeg_compress_struct& writer) { writer.write_Adobe_marker = FALSE; });
}

std::string ycck_jpeg_of(const torch::Tensor& picture) {
  return write_jpeg(picture, [](jpeg_compress_struct& writer) { jpeg_set_colorspace(&writer, JCS_YCCK); });
}

std::string jpeg_of_scans(const torch::Tensor& picture, int count) {
  std::string file = progressive_jpeg_of(picture);
  const std::size_t begin = file.find("\xff\xda");
  std::size_t end = begin + 2;
  // Within a scan's data, 0xff is followed by 0.
  while (file[end] != '\xff' || file[end + 1] == '\0') ++end;
  const std::string scan = file.substr(begin, end - begin);
  for (int number = 1; number < count; ++number) file.insert(begin, scan);
  return file;
}

std::string png_of(const torch::Tensor& picture) {
  constexpr std::array<png_uint_32, 4> formats{PNG_FORMAT_GRAY, PNG_FORMAT_GA, PNG_FORMAT_RGB, PNG_FORMAT_RGBA};
  const torch::Tensor dense = picture.contiguous();
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.height = static_cast<png_uint_32>(dense.size(0));
  image.width = static_cast<png_uint_32>(dense.size(1));
  image.format = formats.at(static_cast<std::size_t>(dense.size(2) - 1));
  png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string file(bytes, '\0');
  if (png_image_write_to_memory(&image, file.data(), &bytes, 0, bytes_of(dense), 0, nullptr) == 0) std::abort();
  file.resize(bytes);
  return file;
}

std::string progressive_jpeg_of(const torch::Tensor& picture) {
  return write_jpeg(picture, [](jpeg_compress_struct& writer) { jpeg_simple_progression(&writer); });
}

std::string big_endian_text(std::uint32_t number) {
  return {static_cast<char>(number >> 24), static_cast<char>(number >> 16), static_cast<char>(number >> 8),
          static_cast<char>(number)};
}

std::string png_chunk(const std::string& type, const std::string& bytes) {
  const std::string summed = type + bytes;
  const uLong checksum = crc32(0, reinterpret_cast<const Bytef*>(summed.data()), static_cast<uInt>(summed.size()));
  return big_endian_text(static_cast<std::uint32_t>(bytes.size())) + summed +
         big_endian_text(static_cast<std::uint32_t>(checksum));
}

std::string deflated(const std::string& bytes) {
  uLongf size = compressBound(bytes.size());
  std::string result(size, '\0');
  if (compress2(reinterpret_cast<Bytef*>(result.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()),
                bytes.size(), Z_BEST_SPEED) != Z_OK)
    std::abort();
  result.resize(size);
  return result;
}

torch::Tensor plain_picture(std::int64_t height, std::int64_t width, int red, int green, int blue) {
  return torch::tensor({red, green, blue}, torch::kUInt8).expand({height, width, 3}).contiguous();
}

}  // namespace trainyard::fakes
