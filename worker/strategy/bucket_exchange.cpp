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

class RoundedAllReduce final : public BucketExchange {
 public:
  RoundedAllReduce(std::vector<ExchangedBucket> buckets, c10::intrusive_ptr<c10d::ProcessGroup> process_group,
                   torch::ScalarType dtype)
      : BucketExchange{std::move(process_group)}, buckets_{std::move(buckets)} {
    for (const ExchangedBucket& bucket : buckets_)
      rounded_.push_back(torch::empty(bucket.flat.sizes(), bucket.flat.options().dtype(dtype)));
  }

  [[nodiscard]] c10::intrusive_ptr<c10d::Work> begin(std::size_t bucket) override {
    const torch::NoGradGuard no_grad;
    rounded_[bucket].copy_(buckets_[bucket].flat);
    return sum(rounded_[bucket]);
  }
  [[nodiscard]] c10::intrusive_ptr<c10d::Work> proceed(std::size_t bucket) override {
    const torch::NoGradGuard no_grad;
    buckets_[bucket].flat.copy_(rounded_[bucket]);
    return {};
  }

 private:
  std::vector<ExchangedBucket> buckets_;
  std::vector<torch::Tensor> rounded_;  // by bucket
};

}  // namespace

c10::intrusive_ptr<c10d::Work> BucketExchange::sum(const torch::Tensor& tensor) {
  count(tensor);
  std::vector<torch::Tensor> message{tensor};
  return process_group_->allreduce(message);
}

std::unique_ptr<BucketExchange> make_all_reduce(std::vector<ExchangedBucket> buckets,
                                                c10::intrusive_ptr<c10d::ProcessGroup> process_group) {
  return std::make_unique<AllReduce>(std::move(buckets), std::move(process_group));
}

MakeExchange rounded_all_reduce(torch::ScalarType dtype) {
  return [dtype](std::vector<ExchangedBucket> buckets, c10::intrusive_ptr<c10d::ProcessGroup> process_group) {
    return std::make_unique<RoundedAllReduce>(std::move(buckets), std::move(process_group), dtype);
  };
}

}  // namespace trainyard::strategy
