#include "worker/strategy/byte_grad.hpp"

#include <torch/types.h>

#include <cstdint>
#include <utility>

#include "worker/strategy/byte_mean.hpp"

namespace trainyard::strategy {
namespace {

class ByteGrad final : public BucketExchange {
 public:
  ByteGrad(const std::vector<ExchangedBucket>& buckets, c10::intrusive_ptr<c10d::ProcessGroup> process_group)
      : BucketExchange{std::move(process_group)} {
    for (const ExchangedBucket& of : buckets) {
      const torch::Tensor gradients = of.flat.slice(0, 0, of.flat.numel() - of.used.numel());
      buckets_.push_back({.mean = ByteMean{gradients, this->process_group()}, .used = of.used, .sum_of_used = {}});
    }
  }

  [[nodiscard]] double factor() const override { return 1.0; }

  [[nodiscard]] c10::intrusive_ptr<c10d::Work> begin(std::size_t index) override {
    Bucket& bucket = buckets_[index];
    count(bucket.mean.bytes());
    auto work = bucket.mean.begin();
    bucket.sum_of_used = sum(bucket.used);
    return work;
  }

  [[nodiscard]] c10::intrusive_ptr<c10d::Work> proceed(std::size_t index) override {
    Bucket& bucket = buckets_[index];
    if (!bucket.sum_of_used) return {};
    auto work = bucket.mean.proceed();
    return work ? work : std::exchange(bucket.sum_of_used, {});
  }

 private:
  struct Bucket {
    ByteMean mean;
    torch::Tensor used;
    c10::intrusive_ptr<c10d::Work> sum_of_used;  // nothing once proceed() has returned it
  };

  std::vector<Bucket> buckets_;
};

}  // namespace

std::unique_ptr<BucketExchange> make_byte_grad(std::vector<ExchangedBucket> buckets,
                                               c10::intrusive_ptr<c10d::ProcessGroup> process_group) {
  return std::make_unique<ByteGrad>(buckets, std::move(process_group));
}

}  // namespace trainyard::strategy
