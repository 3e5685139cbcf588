#include "worker/data/synthetic.hpp"

#include <torch/types.h>

#include "common/check.hpp"

namespace trainyard::data {
namespace {

constexpr std::int64_t classes = 10;
constexpr std::int64_t side = 28;

torch::Generator make_generator(std::int64_t seed) {
  return at::detail::createCPUGenerator(static_cast<std::uint64_t>(seed));
}

}  // namespace

LabeledImages make_synthetic_images(std::int64_t samples, std::int64_t seed, std::int64_t part) {
  check(samples > 0, "there is at least one sample");
  auto of_task = make_generator(seed);
  // The patterns are coarse blocks rather than single pixels, so that a convolution can learn them.
  const torch::Tensor blocks = torch::randint(0, 128, {classes, 1, side / 4, side / 4}, of_task, torch::kUInt8);
  const torch::Tensor patterns = blocks.repeat_interleave(4, 2).repeat_interleave(4, 3);

  auto of_part = make_generator(seed + 1 + part);
  torch::Tensor labels = torch::randint(0, classes, {samples}, of_part, torch::kInt64);
  torch::Tensor images = torch::randint(0, 128, {samples, 1, side, side}, of_part, torch::kUInt8);
  images.add_(patterns.index_select(0, labels));
  return {.images = std::move(images), .labels = std::move(labels)};
}

}  // namespace trainyard::data
