#include "worker/data/load_picture.hpp"

#include <fmt/format.h>

#include <stdexcept>
#include <string>

#include "include/trainyard/options.hpp"
#include "worker/data/decode_image.hpp"
#include "worker/data/read_file.hpp"

namespace trainyard::data {
namespace {

constexpr std::int64_t picture_bytes_max = std::int64_t{1} << 28;

/// Source of the weights, and of the rounding: Pillow's conversion to "L".
torch::Tensor gray_of(const torch::Tensor& picture) {
  const torch::Tensor colors = picture.to(torch::kInt32);
  return (colors[0] * 19595 + colors[1] * 38470 + colors[2] * 7471 + 0x8000)
      .bitwise_right_shift(16)
      .to(torch::kUInt8)
      .unsqueeze(0);
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
    throw InvalidJob{fmt::format("the picture {} cannot be decoded: {}; replace the file or remove it", file.string(),
                                 picture.error().message)};
  }
  return channels == 1 ? gray_of(*picture) : *picture;
}

}  // namespace trainyard::data
