#include "worker/data/decode_image.hpp"

#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/try.hpp"
#include "include/trainyard/options.hpp"
#include "worker/data/read_file.hpp"

// libjpeg's headers need <cstdio> before them.
#include <jerror.h>
#include <jpeglib.h>

namespace trainyard::data {
namespace {

/// A progressive file can have any number of scans, each of which is decoded over the whole picture.
constexpr int jpeg_scans_max = 500;

/// libjpeg reports errors by a function that must not return: a jump back to where decoding began. All objects with
/// destructors are therefore made before the jump's target, and nothing between is destroyed by the jump.
struct JpegDecoder {
  jpeg_decompress_struct picture{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf on_error{};
  std::array<char, JMSG_LENGTH_MAX> message{};
  bool has_too_many_scans = false;
  std::vector<std::uint8_t> inks;  // A row of CMYK.
};

JpegDecoder& decoder_of(j_common_ptr picture) {
  return *static_cast<JpegDecoder*>(picture->client_data);
}

[[noreturn]] void leave(j_common_ptr picture) {
  JpegDecoder& decoder = decoder_of(picture);
  picture->err->format_message(picture, decoder.message.data());
  std::longjmp(decoder.on_error, 1);
}

/// libjpeg fills what is missing with gray, and only warns, where the file ends early or a scan does.
void note_message(j_common_ptr picture, int level) {
  const int code = picture->err->msg_code;
  if (level < 0 && (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER)) leave(picture);
}

void bound_scans(j_common_ptr picture) {
  if (decoder_of(picture).picture.input_scan_number <= jpeg_scans_max) return;
  decoder_of(picture).has_too_many_scans = true;
  leave(picture);
}

void begin_decoder(JpegDecoder& decoder) {
  decoder.picture.err = jpeg_std_error(&decoder.errors);
  decoder.errors.error_exit = leave;
  decoder.errors.emit_message = note_message;
  decoder.picture.client_data = &decoder;
  jpeg_create_decompress(&decoder.picture);
  decoder.progress.progress_monitor = bound_scans;
  decoder.picture.progress = &decoder.progress;
}

/// Ends libjpeg's use of its memory at the end of the scope.
class JpegMemory {
 public:
  explicit JpegMemory(JpegDecoder& decoder) : decoder_{decoder} {}
  JpegMemory(const JpegMemory&) = delete;
  JpegMemory& operator=(const JpegMemory&) = delete;
  ~JpegMemory() { jpeg_destroy_decompress(&decoder_.picture); }

 private:
  JpegDecoder& decoder_;
};

/// False after an error of libjpeg.
bool read_jpeg_header(JpegDecoder& decoder, std::span<const std::uint8_t> bytes) {
  if (setjmp(decoder.on_error) != 0) return false;
  begin_decoder(decoder);
  jpeg_mem_src(&decoder.picture, bytes.data(), bytes.size());
  jpeg_read_header(&decoder.picture, TRUE);
  const bool is_cmyk = decoder.picture.jpeg_color_space == JCS_CMYK || decoder.picture.jpeg_color_space == JCS_YCCK;
  decoder.picture.out_color_space = is_cmyk ? JCS_CMYK : JCS_RGB;
  return true;
}

/// Writes a row of red, green and blue to `pixels`. inks: a row of CMYK. Adobe's programs store the inks inverted.
void write_rgb_of_cmyk(std::span<const std::uint8_t> inks, bool is_inverted, std::uint8_t* pixels) {
  const auto light = [&](std::size_t place) { return is_inverted ? inks[place] : 255 - inks[place]; };
  for (std::size_t pixel = 0; pixel < inks.size(); pixel += 4) {
    for (std::size_t color = 0; color < 3; ++color)
      *pixels++ = static_cast<std::uint8_t>((light(pixel + color) * light(pixel + 3) + 127) / 255);
  }
}

/// Writes the picture's rows to `pixels`. False after an error of libjpeg.
bool read_jpeg_rows(JpegDecoder& decoder, std::uint8_t* pixels) {
  const bool is_cmyk = decoder.picture.out_color_space == JCS_CMYK;
  if (is_cmyk) decoder.inks.resize(std::size_t{decoder.picture.image_width} * 4);
  if (setjmp(decoder.on_error) != 0) return false;
  jpeg_start_decompress(&decoder.picture);
  while (decoder.picture.output_scanline < decoder.picture.output_height) {
    std::uint8_t* into =
        pixels + std::size_t{decoder.picture.output_scanline} * std::size_t{decoder.picture.output_width} * 3;
    JSAMPROW row = is_cmyk ? decoder.inks.data() : into;
    jpeg_read_scanlines(&decoder.picture, &row, 1);
    if (is_cmyk) write_rgb_of_cmyk(decoder.inks, decoder.picture.saw_Adobe_marker != 0, into);
  }
  jpeg_finish_decompress(&decoder.picture);
  return true;
}

tl::unexpected<Error> jpeg_failure(const JpegDecoder& decoder) {
  if (decoder.has_too_many_scans) {
    return fail(ErrorKind::invalid,
                fmt::format("it is a JPEG of more than {} scans, which takes too long to decode", jpeg_scans_max));
  }
  // The second is the error of a libjpeg that was built without files for what does not fit into memory.
  const int code = decoder.errors.msg_code;
  if (code == JERR_OUT_OF_MEMORY || code == JERR_NO_BACKING_STORE) {
    return fail(ErrorKind::unavailable,
                fmt::format("libjpeg got too little memory for it: {}", decoder.message.data()));
  }
  return fail(ErrorKind::corrupt, fmt::format("it is no whole JPEG: {}", decoder.message.data()));
}

}  // namespace

Result<torch::Tensor> decode_jpeg(std::span<const std::uint8_t> bytes) {
  JpegDecoder decoder;
  const JpegMemory memory{decoder};
  if (!read_jpeg_header(decoder, bytes)) return jpeg_failure(decoder);
  TRY(check_image_size(decoder.picture.image_width, decoder.picture.image_height));
  torch::Tensor pixels = torch::empty({decoder.picture.image_height, decoder.picture.image_width, 3}, torch::kUInt8);
  if (!read_jpeg_rows(decoder, pixels.data_ptr<std::uint8_t>())) return jpeg_failure(decoder);
  return pixels;
}

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

namespace {

constexpr std::array<std::uint8_t, 3> jpeg_beginning{0xff, 0xd8, 0xff};
constexpr std::array<std::uint8_t, 8> png_beginning{0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};

bool begins_with(std::span<const std::uint8_t> bytes, std::span<const std::uint8_t> beginning) {
  return bytes.size() >= beginning.size() && std::equal(beginning.begin(), beginning.end(), bytes.begin());
}

}  // namespace

Result<torch::Tensor> decode_image(std::span<const std::uint8_t> bytes) {
  // By the first bytes and not by the name: ImageNet has a PNG that is called .JPEG.
  const bool is_png = begins_with(bytes, png_beginning);
  if (!is_png && !begins_with(bytes, jpeg_beginning))
    return fail(ErrorKind::corrupt, "it is neither JPEG nor PNG by its first bytes");
  const torch::Tensor pixels = TRY(is_png ? decode_png(bytes) : decode_jpeg(bytes));
  return pixels.permute({2, 0, 1}).contiguous();
}

namespace {

constexpr std::int64_t picture_bytes_max = std::int64_t{1} << 28;

/// picture: contiguous uint8 [3, H, W]. Source of the weights, and of the rounding: Pillow's conversion to "L".
torch::Tensor gray_of(const torch::Tensor& picture) {
  // By a loop, because tensors of wider numbers would take many times the memory of a large picture.
  torch::Tensor gray = torch::empty({1, picture.size(1), picture.size(2)}, torch::kUInt8);
  const std::int64_t count = gray.numel();
  const std::uint8_t* red = picture.const_data_ptr<std::uint8_t>();
  const std::uint8_t* green = red + count;
  const std::uint8_t* blue = green + count;
  auto* to = gray.data_ptr<std::uint8_t>();
  for (std::int64_t place = 0; place < count; ++place) {
    to[place] =
        static_cast<std::uint8_t>((red[place] * 19595 + green[place] * 38470 + blue[place] * 7471 + 0x8000) >> 16);
  }
  return gray;
}

/// True for errors that another attempt would meet again.
bool is_of_the_file(ErrorKind kind) {
  return kind == ErrorKind::invalid || kind == ErrorKind::corrupt;
}

}  // namespace

torch::Tensor load_picture(const std::filesystem::path& file, std::int64_t channels) {
  const auto bytes = read_file(file, picture_bytes_max);
  if (!bytes) {
    if (bytes.error().kind == ErrorKind::invalid) throw InvalidJob{"the data's file " + bytes.error().message};
    throw std::runtime_error{"the data's file " + bytes.error().message};
  }
  const auto picture = decode_image(*bytes);
  if (!picture) {
    const std::string message =
        fmt::format("the picture {} cannot be decoded: {}", file.string(), picture.error().message);
    if (!is_of_the_file(picture.error().kind)) throw std::runtime_error{message};
    throw InvalidJob{message + "; replace the file or remove it"};
  }
  return channels == 1 ? gray_of(*picture) : *picture;
}

}  // namespace trainyard::data
