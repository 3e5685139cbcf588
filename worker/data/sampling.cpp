#include "worker/data/sampling.hpp"

#include <c10/core/ScalarType.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>

#include "common/check.hpp"
#include "worker/data/sample_random.hpp"

namespace trainyard::data {
namespace {

std::string shape_of(const torch::Tensor& order) {
  if (!order.defined()) return "no tensor";
  return fmt::format("{} [{}] on {}", c10::toString(order.scalar_type()), fmt::join(order.sizes(), ", "),
                     order.device().str());
}

void check_order(const torch::Tensor& order, std::int64_t epoch, std::int64_t size, std::int64_t dataset_samples) {
  const bool is_list = order.defined() && order.scalar_type() == torch::kInt64 && order.device().is_cpu() &&
                       order.dim() == 1 && order.size(0) == size;
  if (!is_list) {
    throw InvalidJob{fmt::format("the sampler's order of epoch {} must be int64 [{}] on the CPU, got {}", epoch, size,
                                 shape_of(order))};
  }
  const torch::Tensor wrong = order.lt(0).logical_or_(order.ge(dataset_samples)).nonzero();
  if (wrong.numel() == 0) return;
  const auto place = wrong[0].item<std::int64_t>();
  throw InvalidJob{
      fmt::format("the sampler's order of epoch {} has sample {} at place {}, but the training set has "
                  "only {} samples (0 to {})",
                  epoch, order[place].item<std::int64_t>(), place, dataset_samples, dataset_samples - 1)};
}

}  // namespace

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

std::int64_t epoch_samples(const Sampling& sampling, std::int64_t world_size) {
  if (!sampling.order_sizes.empty()) return std::ranges::max(sampling.order_sizes) * world_size;
  const std::int64_t samples = sampling.sampler == nullptr ? sampling.dataset_samples : sampling.sampler->size();
  return sampling.is_shared ? samples : samples * world_size;
}

std::int64_t samples_in(const Sampling& sampling, std::int64_t begin, std::int64_t end) {
  if (sampling.order_sizes.empty()) return end - begin;
  const auto ranks = static_cast<std::int64_t>(sampling.order_sizes.size());
  std::int64_t samples = 0;
  for (const std::int64_t size : sampling.order_sizes)
    samples += std::min(end / ranks, size) - std::min(begin / ranks, size);
  return samples;
}

torch::Tensor order_of(const Sampling& sampling, std::int64_t epoch, const GroupRank& self) {
  if (sampling.sampler != nullptr) {
    torch::Tensor order = sampling.sampler->order(epoch);
    const std::int64_t size = sampling.order_sizes.empty()
                                  ? sampling.sampler->size()
                                  : sampling.order_sizes.at(static_cast<std::size_t>(self.rank));
    check_order(order, epoch, size, sampling.dataset_samples);
    return order;
  }
  if (sampling.is_shared) return epoch_order(sampling.dataset_samples, sampling.seed, epoch);
  // Mixed, and not added, so that no rank repeats in one epoch what another rank had in an earlier one.
  auto generator = at::detail::createCPUGenerator(SampleRandom{sampling.seed, epoch, self.rank}.bits());
  return torch::randperm(sampling.dataset_samples, generator, torch::kInt64);
}

torch::Tensor batch_samples(const Sampling& sampling, const torch::Tensor& order, std::int64_t position,
                            std::int64_t batch_size, const GroupRank& self) {
  if (sampling.is_shared) return step_samples(order, position, batch_size, self);
  // An order of the rank's own is shared with nobody: it is that of a job of one rank.
  const std::int64_t own_position = position / self.world_size;
  if (own_position >= order.size(0)) return torch::empty({0}, torch::kInt64);
  return step_samples(order, own_position, batch_size, {.rank = 0, .world_size = 1});
}

}  // namespace trainyard::data
