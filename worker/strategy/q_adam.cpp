#include "worker/strategy/q_adam.hpp"

#include <torch/types.h>
#include <torch/utils.h>

#include <utility>

#include "common/check.hpp"
#include "include/trainyard/options.hpp"
#include "worker/strategy/byte_grad.hpp"

namespace trainyard::strategy {
namespace {

class QAdam final : public BucketExchange {
 public:
  QAdam(const std::vector<ExchangedBucket>& buckets, c10::intrusive_ptr<c10d::ProcessGroup> process_group,
        std::int64_t warmup_steps)
      : BucketExchange{std::move(process_group)},
        warmup_steps_{warmup_steps},
        steps_{torch::zeros({1}, torch::kInt64)} {
    for (const ExchangedBucket& bucket : buckets) {
      const torch::Tensor moments = bucket.flat.slice(0, 0, bucket.flat.numel() - bucket.used.numel());
      buckets_.push_back({.exchanged = bucket, .mean = ByteMean{moments, this->process_group()}, .sum_of_used = {}});
    }
  }

  [[nodiscard]] std::unique_ptr<Optimizer> adapt(std::unique_ptr<Optimizer> optimizer) override {
    adam_ = dynamic_cast<AdamWithExchangedMoments*>(optimizer.get());
    if (adam_ == nullptr)
      throw InvalidJob{
          "training.strategy.algorithm: qadam trains only with Trainyard's own adam, and the model configures another "
          "optimizer: let it make one by make_optimizer() with the name adam, or choose another algorithm"};
    for (const AdamWithExchangedMoments::Parameter& parameter : adam_->parameters_with_moments()) {
      for (Bucket& bucket : buckets_) add_first_moments(bucket, parameter);
    }
    return optimizer;
  }

  [[nodiscard]] double factor() const override { return is_warmed_up() ? 1.0 : BucketExchange::factor(); }

  [[nodiscard]] c10::intrusive_ptr<c10d::Work> begin(std::size_t index) override {
    Bucket& bucket = buckets_[index];
    if (!is_warmed_up()) return sum(bucket.exchanged.flat);
    const torch::NoGradGuard no_grad;
    for (const FirstMoment& moment : bucket.first_moments) {
      torch::Tensor gradient = moment.gradient;
      if (moment.weight_decay != 0.0) gradient.add_(moment.parameter, moment.weight_decay);
      gradient.mul_(1.0 - adam_->beta1()).add_(moment.last, adam_->beta1());
    }
    if (world_size() == 1) return {};
    count(bucket.mean.bytes());
    auto work = bucket.mean.begin();
    bucket.sum_of_used = sum(bucket.exchanged.used);
    return work;
  }

  [[nodiscard]] c10::intrusive_ptr<c10d::Work> proceed(std::size_t index) override {
    Bucket& bucket = buckets_[index];
    if (!bucket.sum_of_used) return {};
    auto work = bucket.mean.proceed();
    return work ? work : std::exchange(bucket.sum_of_used, {});
  }

  void end_step() override {
    check(adam_ != nullptr, "adapt() is called before the first step");
    using Grad = AdamWithExchangedMoments::Grad;
    adam_->take_grad_for(is_warmed_up() ? Grad::first_moment : Grad::gradient);
    steps_.add_(1);
  }

  [[nodiscard]] NamedTensors state() const override { return {{"qadam.steps", steps_}}; }
  [[nodiscard]] std::vector<torch::Tensor> common_state() const override { return {steps_}; }

 private:
  struct FirstMoment {
    torch::Tensor gradient;  // a view of the bucket
    torch::Tensor parameter;
    torch::Tensor last;  // of the step before
    double weight_decay = 0.0;
  };
  struct Bucket {
    ExchangedBucket exchanged;
    ByteMean mean;
    c10::intrusive_ptr<c10d::Work> sum_of_used;  // nothing in the warm-up, and once proceed() has returned it
    std::vector<FirstMoment> first_moments{};    // of the parameters that the optimizer trains
  };

  [[nodiscard]] bool is_warmed_up() const { return *steps_.const_data_ptr<std::int64_t>() >= warmup_steps_; }

  static void add_first_moments(Bucket& bucket, const AdamWithExchangedMoments::Parameter& parameter) {
    for (const ExchangedBucket::Part& part : bucket.exchanged.parts) {
      if (!part.of.is_same(parameter.tensor)) continue;
      bucket.first_moments.push_back({.gradient = part.gradient,
                                      .parameter = parameter.tensor.detach(),
                                      .last = parameter.first_moment,
                                      .weight_decay = parameter.weight_decay});
    }
  }

  std::int64_t warmup_steps_;
  std::vector<Bucket> buckets_;
  AdamWithExchangedMoments* adam_ = nullptr;  // set by adapt()
  torch::Tensor steps_;                       // int64 [1], on the host: the steps exchanged so far
};

}  // namespace

MakeExchange q_adam(std::int64_t warmup_steps) {
  return [warmup_steps](std::vector<ExchangedBucket> buckets, c10::intrusive_ptr<c10d::ProcessGroup> process_group) {
    return std::make_unique<QAdam>(buckets, std::move(process_group), warmup_steps);
  };
}

}  // namespace trainyard::strategy
