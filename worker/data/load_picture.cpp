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
