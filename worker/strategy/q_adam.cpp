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
    for (const ExchangedBucket& of : buckets) {
      const torch::Tensor momenta = of.flat.slice(0, 0, of.flat.numel() - of.used.numel());
      buckets_.push_back({.of = of, .mean = ByteMean{momenta, this->process_group()}, .sum_of_used = {}});
    }
  }

  [[nodiscard]] std::unique_ptr<Optimizer> adapt(std::unique_ptr<Optimizer> optimizer) override {
    adam_ = dynamic_cast<AdamOfMomenta*>(optimizer.get());
    if (adam_ == nullptr)
      throw InvalidJob{
          "training.strategy.algorithm: qadam trains only with Trainyard's own adam, and the model configures another "
          "optimizer: let it make one by make_optimizer() with the name adam, or choose another algorithm"};
    for (const AdamOfMomenta::Parameter& parameter : adam_->momentum_parameters()) {
      for (Bucket& bucket : buckets_) take_moment(bucket, parameter);
    }
    return optimizer;
  }

  [[nodiscard]] double factor() const override { return is_warm() ? 1.0 : BucketExchange::factor(); }

  [[nodiscard]] c10::intrusive_ptr<c10d::Work> begin(std::size_t index) override {
    Bucket& bucket = buckets_[index];
    if (!is_warm()) return sum(bucket.of.flat);
    const torch::NoGradGuard no_grad;
    for (const Momentum& momentum : bucket.momenta) {
      torch::Tensor gradient = momentum.gradient;
      if (momentum.weight_decay != 0.0) gradient.add_(momentum.parameter, momentum.weight_decay);
      gradient.mul_(1.0 - adam_->beta1()).add_(momentum.first_moment, adam_->beta1());
    }
    if (world_size() == 1) return {};
    count(bucket.mean.bytes());
    auto work = bucket.mean.begin();
    bucket.sum_of_used = sum(bucket.of.used);
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
    adam_->take_momenta(is_warm());
    steps_.add_(1);
  }

  [[nodiscard]] NamedTensors state() const override { return {{"qadam.steps", steps_}}; }
  [[nodiscard]] std::vector<torch::Tensor> common_state() const override { return {steps_}; }

 private:
  struct Momentum {
    torch::Tensor gradient;  // a view of the bucket
    torch::Tensor parameter;
    torch::Tensor first_moment;
    double weight_decay = 0.0;
  };
  struct Bucket {
    ExchangedBucket of;
    ByteMean mean;
    c10::intrusive_ptr<c10d::Work> sum_of_used;  // nothing in the warm-up, and once proceed() has returned it
    std::vector<Momentum> momenta{};             // of the parameters that the optimizer trains
  };

  [[nodiscard]] bool is_warm() const { return *steps_.const_data_ptr<std::int64_t>() >= warmup_steps_; }

  static void take_moment(Bucket& bucket, const AdamOfMomenta::Parameter& parameter) {
    for (const ExchangedBucket::Part& part : bucket.of.parts) {
      if (!part.of.is_same(parameter.tensor)) continue;
      bucket.momenta.push_back({.gradient = part.gradient,
                                .parameter = parameter.tensor.detach(),
                                .first_moment = parameter.first_moment,
                                .weight_decay = parameter.weight_decay});
    }
  }

  std::int64_t warmup_steps_;
  std::vector<Bucket> buckets_;
  AdamOfMomenta* adam_ = nullptr;  // set by adapt()
  torch::Tensor steps_;            // int64 [1], on the host: the steps exchanged so far
};

}  // namespace

MakeExchange q_adam(std::int64_t warmup_steps) {
  return [warmup_steps](std::vector<ExchangedBucket> buckets, c10::intrusive_ptr<c10d::ProcessGroup> process_group) {
    return std::make_unique<QAdam>(buckets, std::move(process_group), warmup_steps);
  };
}

}  // namespace trainyard::strategy
