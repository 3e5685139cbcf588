#include "worker/strategy/comm_hook.hpp"

#include <ATen/core/ivalue.h>
#include <fmt/format.h>
#include <torch/types.h>

#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "include/trainyard/options.hpp"

namespace trainyard::strategy {
namespace {

using Future = c10::intrusive_ptr<c10::ivalue::Future>;

/// A hook's future as a c10d::Work, which is what waits for collectives take.
class HookWork final : public c10d::Work {
 public:
  explicit HookWork(Future future) : future_{std::move(future)} {}

  bool isCompleted() override { return future_->completed(); }
  [[nodiscard]] bool isSuccess() const override { return future_->completed() && !future_->hasError(); }
  [[nodiscard]] std::exception_ptr exception() const override {
    return future_->completed() && future_->hasError() ? future_->exception_ptr() : nullptr;
  }
  void synchronize() override { future_->wait(); }
  bool wait(std::chrono::milliseconds /*timeout*/) override {
    future_->waitAndThrow();
    return true;
  }
  Future getFuture() override { return future_; }

 private:
  Future future_;
};

std::string text_of(const torch::Tensor& tensor) {
  std::ostringstream text;
  if (!tensor.defined()) return "no tensor";
  text << tensor.numel() << " elements of " << tensor.dtype() << " on " << tensor.device();
  return text.str();
}

class HookedExchange final : public BucketExchange {
 public:
  HookedExchange(std::vector<ExchangedBucket> buckets, c10::intrusive_ptr<c10d::ProcessGroup> process_group,
                 std::shared_ptr<c10d::CommHookInterface> hook)
      : BucketExchange{std::move(process_group)}, hook_{std::move(hook)} {
    for (ExchangedBucket& bucket : buckets) {
      const torch::Tensor gradients = bucket.flat.slice(0, 0, bucket.flat.numel() - bucket.used.numel());
      buckets_.push_back({.of = std::move(bucket), .gradients = gradients, .future = {}});
    }
  }

  /// A hook divides by the number of ranks itself, as with PyTorch's DDP.
  [[nodiscard]] double factor() const override { return 1.0; }

  [[nodiscard]] c10::intrusive_ptr<c10d::Work> begin(std::size_t index) override {
    Bucket& bucket = buckets_[index];
    c10d::GradBucket shown = show(index);
    const torch::NoGradGuard no_grad;
    bucket.future = hook_->runHook(shown);
    if (!bucket.future)
      throw InvalidJob{fmt::format("the communication hook has returned no future for bucket {}", index)};
    return c10::make_intrusive<HookWork>(bucket.future);
  }

  [[nodiscard]] c10::intrusive_ptr<c10d::Work> proceed(std::size_t index) override {
    Bucket& bucket = buckets_[index];
    if (!bucket.future) return {};
    const torch::NoGradGuard no_grad;
    const torch::Tensor result = hook_->parseHookResult(std::exchange(bucket.future, {})->value());
    const torch::Tensor& gradients = bucket.gradients;
    const bool fits = result.defined() && result.numel() == gradients.numel() && result.dtype() == gradients.dtype() &&
                      result.device() == gradients.device();
    if (!fits) {
      throw InvalidJob{
          fmt::format("the communication hook's result for bucket {} has {}, and the bucket has {}: give the gradients "
                      "back in the bucket's form",
                      index, text_of(result), text_of(gradients))};
    }
    if (result.const_data_ptr() != gradients.const_data_ptr()) bucket.gradients.copy_(result.reshape_as(gradients));
    return sum(bucket.of.used);
  }

 private:
  struct Bucket {
    ExchangedBucket of;
    torch::Tensor gradients;  // all gradients of the bucket, a view of its memory
    Future future;            // the hook's, until proceed() has taken its result
  };

  [[nodiscard]] c10d::GradBucket show(std::size_t index) const {
    const Bucket& bucket = buckets_[index];
    std::vector<std::size_t> offsets, lengths;
    std::vector<c10::IntArrayRef> sizes;
    std::vector<torch::Tensor> parameters;
    for (const ExchangedBucket::Part& part : bucket.of.parts) {
      offsets.push_back(static_cast<std::size_t>(part.elements.storage_offset() - bucket.gradients.storage_offset()));
      lengths.push_back(static_cast<std::size_t>(part.elements.numel()));
      sizes.push_back(part.of.sizes());
      parameters.push_back(part.of);
    }
    return c10d::GradBucket{index,
                            buckets_.size(),
                            bucket.gradients,
                            std::move(offsets),
                            std::move(lengths),
                            std::move(sizes),
                            std::move(parameters),
                            std::nullopt};
  }

  std::shared_ptr<c10d::CommHookInterface> hook_;
  std::vector<Bucket> buckets_;
};

}  // namespace

MakeExchange by_comm_hook(std::shared_ptr<c10d::CommHookInterface> hook) {
  return [hook = std::move(hook)](std::vector<ExchangedBucket> buckets,
                                  c10::intrusive_ptr<c10d::ProcessGroup> process_group) {
    return std::make_unique<HookedExchange>(std::move(buckets), std::move(process_group), hook);
  };
}

}  // namespace trainyard::strategy
