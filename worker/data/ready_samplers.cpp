#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>

#include "include/trainyard/data.hpp"
#include "worker/data/sample_random.hpp"

namespace trainyard {
namespace {

/// The sums of the weights up to each sample, float64 [N] on the CPU. Throws InvalidJob.
torch::Tensor checked_sums(const torch::Tensor& weights) {
  if (!weights.defined()) throw InvalidJob{"a weighted sampler needs a weight for each sample, got none"};
  if (weights.dim() != 1) {
    throw InvalidJob{fmt::format("the weights of a sampler must have one dimension, the samples, got the shape [{}]",
                                 fmt::join(weights.sizes(), ", "))};
  }
  if (weights.is_complex()) throw InvalidJob{"the weights of a sampler must be real numbers, got complex ones"};
  const torch::Tensor values = weights.detach().to(torch::kCPU, torch::kDouble);
  // Not a number is not at least 0 either.
  const torch::Tensor wrong = values.isfinite().logical_and_(values.ge(0)).logical_not_().nonzero();
  if (wrong.numel() > 0) {
    const auto place = wrong[0].item<std::int64_t>();
    throw InvalidJob{fmt::format("the weights of a sampler must be finite and not negative: weight {} is {}", place,
                                 values[place].item<double>())};
  }
  torch::Tensor sums = values.cumsum(0);
  const double sum = sums.numel() == 0 ? 0.0 : sums[-1].item<double>();
  if (!(sum > 0) || !std::isfinite(sum))
    throw InvalidJob{fmt::format("the weights of a sampler must have a finite sum above 0, got {}", sum)};
  return sums;
}

class WeightedSampler final : public Sampler {
 public:
  WeightedSampler(torch::Tensor sums, std::int64_t samples, std::int64_t seed)
      : sums_{std::move(sums)}, samples_{samples}, seed_{seed} {}
  [[nodiscard]] std::int64_t size() const override { return samples_; }
  [[nodiscard]] torch::Tensor order(std::int64_t epoch) const override {
    // Mixed, and not added, so that seed 1 does not draw in epoch 0 what seed 0 draws in epoch 1.
    auto generator = at::detail::createCPUGenerator(data::SampleRandom{seed_, epoch, /*sample=*/0}.bits());
    const torch::Tensor sum = sums_[-1];
    const torch::Tensor draws = torch::rand({samples_}, generator, torch::kDouble).mul_(sum);
    // The first sample whose sum is above the draw: one of weight 0 is never that. torch.multinomial would do the same,
    // but for at most 2^24 weights. A draw that is rounded up to the whole sum is of the last sample with a weight.
    const torch::Tensor last = torch::searchsorted(sums_, sum);
    return torch::searchsorted(sums_, draws, /*out_int32=*/false, /*right=*/true).minimum(last);
  }

 private:
  torch::Tensor sums_;
  std::int64_t samples_;
  std::int64_t seed_;
};

class SequentialSampler final : public Sampler {
 public:
  explicit SequentialSampler(std::int64_t samples) : samples_{samples} {}
  [[nodiscard]] std::int64_t size() const override { return samples_; }
  [[nodiscard]] torch::Tensor order(std::int64_t /*epoch*/) const override {
    return torch::arange(samples_, torch::kInt64);
  }

 private:
  std::int64_t samples_;
};

}  // namespace

std::unique_ptr<Sampler> make_weighted_sampler(const torch::Tensor& weights, std::int64_t samples, std::int64_t seed) {
  torch::Tensor sums = checked_sums(weights);
  if (samples < 1)
    throw InvalidJob{fmt::format("a weighted sampler needs at least 1 sample an epoch, got {}", samples)};
  return std::make_unique<WeightedSampler>(std::move(sums), samples, seed);
}

std::unique_ptr<Sampler> make_sequential_sampler(std::int64_t samples) {
  if (samples < 1)
    throw InvalidJob{fmt::format("a sequential sampler needs at least 1 sample an epoch, got {}", samples)};
  return std::make_unique<SequentialSampler>(samples);
}

}  // namespace trainyard
