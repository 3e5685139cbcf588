#include "worker/data/decode_image.hpp"

#include <algorithm>
#include <array>

#include "common/try.hpp"
#include "worker/data/decode_jpeg.hpp"
#include "worker/data/decode_png.hpp"

namespace trainyard::data {
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

}  // namespace trainyard::data
