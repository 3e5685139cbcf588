#include "worker/checkpoint/samples.hpp"

#include <algorithm>

namespace trainyard::checkpoint {
namespace {

constexpr std::uint64_t part_count_min = 64;
constexpr std::uint64_t line_bytes_min = 64;

}  // namespace

SamplePlan plan_samples(std::uint64_t bytes, std::uint64_t element_bytes, double random) {
  if (bytes <= part_count_min * line_bytes_min) return {.count = 1, .line_bytes = bytes, .first = 0, .stride = bytes};
  const std::uint64_t line_elements = std::max<std::uint64_t>(1, line_bytes_min / element_bytes);
  const std::uint64_t stride_elements = bytes / element_bytes / part_count_min;
  if (stride_elements < line_elements) return {.count = 1, .line_bytes = bytes, .first = 0, .stride = bytes};
  // The parts' size is rounded down, so a small tensor has some more parts. Less than one part remains at the end.
  const std::uint64_t count = bytes / element_bytes / stride_elements;
  const std::uint64_t room = bytes / element_bytes - (count - 1) * stride_elements - line_elements;
  const auto first = static_cast<std::uint64_t>(random * static_cast<double>(room + 1));
  return {.count = count,
          .line_bytes = line_elements * element_bytes,
          .first = std::min(first, room) * element_bytes,
          .stride = stride_elements * element_bytes};
}

std::vector<std::byte> samples_of(std::span<const std::byte> bytes, const SamplePlan& plan) {
  std::vector<std::byte> samples;
  samples.reserve(plan.count * plan.line_bytes);
  for (std::uint64_t line = 0; line < plan.count; ++line) {
    const auto part = bytes.subspan(plan.first + line * plan.stride, plan.line_bytes);
    samples.insert(samples.end(), part.begin(), part.end());
  }
  return samples;
}

torch::Tensor samples_on_device(const torch::Tensor& tensor, const SamplePlan& plan) {
  const auto in_elements = [&](std::uint64_t bytes) {
    return static_cast<std::int64_t>(bytes / static_cast<std::uint64_t>(tensor.element_size()));
  };
  return tensor
      .as_strided({static_cast<std::int64_t>(plan.count), in_elements(plan.line_bytes)}, {in_elements(plan.stride), 1},
                  tensor.storage_offset() + in_elements(plan.first))
      .clone();
}

}  // namespace trainyard::checkpoint
