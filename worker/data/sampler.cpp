#include "worker/data/sampler.hpp"

#include <torch/types.h>

#include <algorithm>

#include "common/check.hpp"

namespace trainyard::data {

torch::Tensor epoch_order(std::int64_t samples, std::int64_t seed, std::int64_t epoch) {
  check(samples > 0, "there are samples");
  auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(seed + epoch));
  return torch::randperm(samples, generator, torch::kInt64);
}

torch::Tensor step_samples(const torch::Tensor& order, std::int64_t position, std::int64_t batch_size,
                           const GroupRank& self) {
  const std::int64_t samples = order.size(0);
  check(position >= 0 && position < samples, "the position is in the epoch");
  const std::int64_t taken = next_position(samples, position, batch_size, self.world_size) - position;
  const std::int64_t each = (taken + self.world_size - 1) / self.world_size;
  const torch::Tensor places = torch::arange(each, torch::kInt64).mul_(self.world_size).add_(position + self.rank);
  return order.index_select(0, places.remainder_(samples));
}

std::int64_t next_position(std::int64_t samples, std::int64_t position, std::int64_t batch_size,
                           std::int64_t world_size) {
  return std::min(position + batch_size * world_size, samples);
}

std::int64_t steps_for(std::int64_t samples, std::int64_t batch_size, std::int64_t world_size) {
  return (samples + batch_size * world_size - 1) / (batch_size * world_size);
}

torch::Tensor evaluation_samples(std::int64_t samples, const GroupRank& self) {
  if (self.rank >= samples) return torch::empty({0}, torch::kInt64);
  return torch::arange(self.rank, samples, self.world_size, torch::kInt64);
}

}  // namespace trainyard::data
