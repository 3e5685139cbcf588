#include "worker/strategy/min_max_uint8.hpp"

#include <torch/types.h>

namespace trainyard::strategy {
namespace {

constexpr std::int64_t header_bytes = 32;
constexpr std::int64_t row_alignment_bytes = 32;
constexpr std::int64_t number_bytes = 4;
constexpr double level_max = 255.0;
constexpr double range_min = 1e-7;  // Added to each range, so that none is zero.

/// How the bytes of a row stand for numbers: number = (byte + least) / scale.
struct Levels {
  torch::Tensor scale;     // [R, 1], like the others
  torch::Tensor greatest;  // the greatest number's level
  torch::Tensor least;     // what stands for byte 0
};

Levels levels_between(const torch::Tensor& least, const torch::Tensor& greatest) {
  const torch::Tensor scale = level_max / (greatest - least + range_min);
  const torch::Tensor upper = torch::round(greatest * scale);
  return {.scale = scale, .greatest = upper, .least = upper - level_max};
}

torch::Tensor as_bytes(const torch::Tensor& numbers) {
  return numbers.contiguous().view(torch::kUInt8);
}

}  // namespace

std::int64_t compressed_bytes(std::int64_t columns) {
  return header_bytes + (columns + row_alignment_bytes - 1) / row_alignment_bytes * row_alignment_bytes;
}

torch::Tensor compress(const torch::Tensor& rows) {
  const std::int64_t columns = rows.size(1);
  torch::Tensor compressed =
      torch::zeros({rows.size(0), compressed_bytes(columns)}, rows.options().dtype(torch::kUInt8));
  const torch::Tensor least = rows.amin(1, /*keepdim=*/true);
  const torch::Tensor greatest = rows.amax(1, /*keepdim=*/true);
  const Levels levels = levels_between(least, greatest);
  const torch::Tensor level = torch::minimum(torch::round(rows * levels.scale), levels.greatest) - levels.least;
  compressed.slice(1, 0, number_bytes).copy_(as_bytes(least));
  compressed.slice(1, number_bytes, 2 * number_bytes).copy_(as_bytes(greatest));
  // Large numbers that hardly differ have levels that float32 rounds beyond a byte.
  compressed.slice(1, header_bytes, header_bytes + columns).copy_(level.nan_to_num(0.0).clamp(0.0, level_max));
  return compressed;
}

torch::Tensor decompress(const torch::Tensor& compressed, std::int64_t columns) {
  const auto number_at = [&](std::int64_t begin) {
    return compressed.slice(1, begin, begin + number_bytes).contiguous().view(torch::kFloat);
  };
  const Levels levels = levels_between(number_at(0), number_at(number_bytes));
  const torch::Tensor bytes = compressed.slice(1, header_bytes, header_bytes + columns).to(torch::kFloat);
  return (bytes + levels.least) / levels.scale;
}

}  // namespace trainyard::strategy
