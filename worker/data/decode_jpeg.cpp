#include "worker/data/decode_jpeg.hpp"

#include <fmt/format.h>

#include <array>
#include <csetjmp>
#include <cstdio>
#include <string>
#include <vector>

// libjpeg's headers need <cstdio> before them.
#include <jerror.h>
#include <jpeglib.h>

#include "common/try.hpp"
#include "worker/data/decoded_size.hpp"

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

}  // namespace trainyard::data
