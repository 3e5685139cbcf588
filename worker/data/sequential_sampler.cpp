#include <fmt/format.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>

#include "include/trainyard/data.hpp"

namespace trainyard {
namespace {

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

std::unique_ptr<Sampler> make_sequential_sampler(std::int64_t samples) {
  if (samples < 1)
    throw InvalidJob{fmt::format("a sequential sampler needs at least 1 sample an epoch, got {}", samples)};
  return std::make_unique<SequentialSampler>(samples);
}

}  // namespace trainyard
