#include "worker/observe/images.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "common/text.hpp"

namespace trainyard::observe {
namespace {

bool is_of_image_type(const torch::Tensor& image) {
  return image.scalar_type() == torch::kByte || image.is_floating_point();
}

bool has_image_shape(const torch::Tensor& image) {
  if (image.dim() != 3 && image.dim() != 4) return false;
  const std::int64_t channels = image.size(-3);
  const auto is_side = [](std::int64_t size) { return size >= 1 && size <= image_side_max; };
  const std::int64_t count = image.dim() == 4 ? image.size(0) : 1;
  return (channels == 1 || channels == 3) && is_side(image.size(-2)) && is_side(image.size(-1)) && count >= 1 &&
         count <= images_in_one_max;
}

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= name_bytes_max && name.front() != ' ' &&
         std::none_of(name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

}  // namespace

Result<void> check_name(std::string_view name) {
  if (is_name(name)) return {};
  const nlohmann::json quoted = keep_beginning(name, name_bytes_max);
  return fail(
      ErrorKind::invalid,
      fmt::format(
          "a name is one line of 1 to {} bytes, without control characters and without a blank at its beginning; "
          "this one is {}, {} bytes",
          name_bytes_max, quoted.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace),
          name.size()));
}

std::string describe(const torch::Tensor& tensor) {
  if (!tensor.defined()) return "no tensor";
  if (tensor.layout() != torch::kStrided) return "not dense";
  return fmt::format("{} [{}]", c10::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ", "));
}

Result<void> check_image(std::string_view name, const torch::Tensor& image) {
  if (const auto named = check_name(name); !named)
    return fail(named.error().kind, "log_image: " + named.error().message);
  if (image.defined() && image.layout() == torch::kStrided && is_of_image_type(image) && has_image_shape(image))
    return {};
  return fail(
      ErrorKind::invalid,
      fmt::format("log_image(\"{}\"): an image is [C, H, W], or [N, C, H, W] for N of them (at most {}), with 1 "
                  "or 3 channels, sides of 1 to {} and numbers that are uint8, or float in [0, 1]; this one is "
                  "{}",
                  name, images_in_one_max, image_side_max, describe(image)));
}

torch::Tensor to_image_bytes(const torch::Tensor& image) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor batch = image.dim() == 3 ? image.unsqueeze(0) : image;
  if (batch.scalar_type() == torch::kByte) return batch.clone(at::MemoryFormat::Contiguous);
  torch::Tensor scaled = batch.to(torch::kFloat, /*non_blocking=*/false, /*copy=*/true);
  scaled.nan_to_num_(0.0).clamp_(0.0, 1.0).mul_(255.0).round_();
  return scaled.to(torch::kByte).contiguous();
}

}  // namespace trainyard::observe
