#include "worker/strategy/bucket_exchange.hpp"

#include <torch/types.h>

namespace trainyard::strategy {
namespace {

class AllReduce final : public BucketExchange {
 public:
  AllReduce(std::vector<ExchangedBucket> buckets, c10::intrusive_ptr<c10d::ProcessGroup> process_group)
      : BucketExchange{std::move(process_group)}, buckets_{std::move(buckets)} {}

  [[nodiscard]] c10::intrusive_ptr<c10d::Work> begin(std::size_t bucket) override { return sum(buckets_[bucket].flat); }
  [[nodiscard]] c10::intrusive_ptr<c10d::Work> proceed(std::size_t /*bucket*/) override { return {}; }

 private:
  std::vector<ExchangedBucket> buckets_;
};

class AdjustedAllReduce final : public BucketExchange {
 public:
  AdjustedAllReduce(std::vector<ExchangedBucket> buckets, c10::intrusive_ptr<c10d::ProcessGroup> process_group,
                    const AllReduceOptions& options)
      : BucketExchange{std::move(process_group)}, buckets_{std::move(buckets)}, options_{options} {
    for (const ExchangedBucket& bucket : buckets_) {
      sent_.push_back(options_.dtype ? torch::empty(bucket.flat.sizes(), bucket.flat.options().dtype(*options_.dtype))
                                     : bucket.flat);
    }
  }

  [[nodiscard]] double factor() const override {
    if (!options_.is_mean) return 1.0;
    return options_.predivide_factor ? 1.0 / *options_.predivide_factor : BucketExchange::factor();
  }
  [[nodiscard]] c10::intrusive_ptr<c10d::Work> begin(std::size_t bucket) override {
    const torch::NoGradGuard no_grad;
    if (options_.dtype) sent_[bucket].copy_(buckets_[bucket].flat);
    return sum(sent_[bucket]);
  }
  [[nodiscard]] c10::intrusive_ptr<c10d::Work> proceed(std::size_t bucket) override {
    const torch::NoGradGuard no_grad;
    if (options_.dtype) buckets_[bucket].flat.copy_(sent_[bucket]);
    if (options_.is_mean && options_.predivide_factor)
      buckets_[bucket].flat.mul_(*options_.predivide_factor / world_size());
    return {};
  }

 private:
  std::vector<ExchangedBucket> buckets_;
  AllReduceOptions options_;
  std::vector<torch::Tensor> sent_;  // by bucket: what is added up
};

}  // namespace

c10::intrusive_ptr<c10d::Work> BucketExchange::sum(const torch::Tensor& tensor) {
  if (world_size() == 1) return {};
  count(tensor.nbytes());
  std::vector<torch::Tensor> message{tensor};
  return process_group_->allreduce(message);
}

std::unique_ptr<BucketExchange> make_all_reduce(std::vector<ExchangedBucket> buckets,
                                                c10::intrusive_ptr<c10d::ProcessGroup> process_group) {
  return std::make_unique<AllReduce>(std::move(buckets), std::move(process_group));
}

MakeExchange all_reduce(AllReduceOptions options) {
  return [options](std::vector<ExchangedBucket> buckets, c10::intrusive_ptr<c10d::ProcessGroup> process_group) {
    return std::make_unique<AdjustedAllReduce>(std::move(buckets), std::move(process_group), options);
  };
}

}  // namespace trainyard::strategy
