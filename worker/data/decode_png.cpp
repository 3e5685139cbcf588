#include "worker/data/decode_png.hpp"

#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "common/try.hpp"
#include "worker/data/decoded_size.hpp"

namespace trainyard::data {
namespace {

/// Bounds each side in libpng itself, before it takes memory for a row.
constexpr png_uint_32 png_side_max = 1U << 20;

/// libpng reports errors by a function that must not return: a jump back to where decoding began. All objects with
/// destructors are therefore made before the jump's target.
struct PngDecoder {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::span<const std::uint8_t> rest;
  std::string message;
  std::vector<png_bytep> rows;
  AllocateMemory allocate;
  bool lacks_memory = false;  // An allocation has failed.

  explicit PngDecoder(AllocateMemory allocate) : allocate{allocate} {}
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;
  ~PngDecoder() { png_destroy_read_struct(&png, &info, nullptr); }
};

[[noreturn]] void leave_png(png_structp png, png_const_charp message) {
  static_cast<PngDecoder*>(png_get_error_ptr(png))->message = message;
  png_longjmp(png, 1);
}

png_voidp allocate_png_memory(png_structp png, png_alloc_size_t bytes) {
  PngDecoder& decoder = *static_cast<PngDecoder*>(png_get_mem_ptr(png));
  void* memory = decoder.allocate(bytes);
  if (memory == nullptr) decoder.lacks_memory = true;
  return memory;
}

void free_png_memory(png_structp /*png*/, png_voidp memory) {
  std::free(memory);  // NOLINT(cppcoreguidelines-no-malloc): it is of AllocateMemory, as malloc gives it.
}

void ignore_png_warning(png_structp /*png*/, png_const_charp /*message*/) {}

void read_png_bytes(png_structp png, png_bytep into, std::size_t bytes) {
  PngDecoder& decoder = *static_cast<PngDecoder*>(png_get_io_ptr(png));
  if (bytes > decoder.rest.size()) png_error(png, "it ends early");
  std::copy_n(decoder.rest.begin(), bytes, into);
  decoder.rest = decoder.rest.subspan(bytes);
}

/// False after an error of libpng.
bool read_png_header(PngDecoder& decoder) {
  if (setjmp(png_jmpbuf(decoder.png)) != 0) return false;
  png_set_read_fn(decoder.png, &decoder, read_png_bytes);
  png_set_user_limits(decoder.png, png_side_max, png_side_max);
  // Skips every chunk but those that the pixels need: IHDR, PLTE, tRNS, IDAT and IEND. libpng would inflate texts and
  // profiles and keep them, so that a file of a few megabytes could take all memory.
  png_set_keep_unknown_chunks(decoder.png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_read_info(decoder.png, decoder.info);
  // Eight bits of red, green and blue, whatever the file has.
  png_set_expand(decoder.png);
  png_set_scale_16(decoder.png);
  png_set_strip_alpha(decoder.png);
  png_set_gray_to_rgb(decoder.png);
  png_set_interlace_handling(decoder.png);
  png_read_update_info(decoder.png, decoder.info);
  return true;
}

/// False after an error of libpng.
bool read_png_rows(PngDecoder& decoder) {
  if (setjmp(png_jmpbuf(decoder.png)) != 0) return false;
  png_read_image(decoder.png, decoder.rows.data());
  png_read_end(decoder.png, nullptr);
  return true;
}

tl::unexpected<Error> png_failure(const PngDecoder& decoder) {
  if (decoder.lacks_memory) return fail(ErrorKind::unavailable, "libpng got too little memory for it");
  return fail(ErrorKind::corrupt, fmt::format("it is no whole PNG: {}", decoder.message));
}

}  // namespace

Result<torch::Tensor> decode_png(std::span<const std::uint8_t> bytes, AllocateMemory allocate) {
  PngDecoder decoder{allocate};
  decoder.rest = bytes;
  decoder.png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &decoder, leave_png, ignore_png_warning, &decoder,
                                         allocate_png_memory, free_png_memory);
  decoder.info = decoder.png == nullptr ? nullptr : png_create_info_struct(decoder.png);
  if (decoder.info == nullptr) return png_failure(decoder);
  if (!read_png_header(decoder)) return png_failure(decoder);
  const auto width = static_cast<std::int64_t>(png_get_image_width(decoder.png, decoder.info));
  const auto height = static_cast<std::int64_t>(png_get_image_height(decoder.png, decoder.info));
  TRY(check_image_size(width, height));
  torch::Tensor pixels = torch::empty({height, width, 3}, torch::kUInt8);
  for (std::int64_t row = 0; row < height; ++row)
    decoder.rows.push_back(pixels.data_ptr<std::uint8_t>() + row * width * 3);
  if (!read_png_rows(decoder)) return png_failure(decoder);
  return pixels;
}

}  // namespace trainyard::data
