#include "worker/strategy/gradient_buckets.hpp"

#include <ATen/ScalarOps.h>
#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <stdexcept>
#include <utility>

#include "common/try.hpp"
#include "include/trainyard/options.hpp"
#include "worker/dist/torch_error.hpp"

namespace trainyard::strategy {

GradientBuckets::GradientBuckets(std::vector<torch::Tensor> parameters,
                                 c10::intrusive_ptr<c10d::ProcessGroup> process_group, const BucketLimits& limits,
                                 const MakeExchange& make_exchange)
    : parameters_{std::move(parameters)} {
  slots_.resize(parameters_.size());
  std::vector<ExchangedBucket> exchanged;
  for (BucketIndices& indices : assign_buckets(parameters_, limits)) {
    std::int64_t elements = 0;
    for (const std::size_t parameter : indices) elements += parameters_[parameter].numel();
    const auto count = static_cast<std::int64_t>(indices.size());
    const torch::Tensor flat =
        torch::zeros({elements + count}, parameters_[indices.front()].options().requires_grad(false));
    ExchangedBucket shown{.flat = flat, .used = flat.slice(0, elements), .parts = {}};
    std::int64_t begin = 0;
    for (std::size_t place = 0; place < indices.size(); ++place) {
      const torch::Tensor& parameter = parameters_[indices[place]];
      TORCH_CHECK(parameter.is_non_overlapping_and_dense(),
                  "a parameter is a view with gaps or overlaps, whose gradient cannot be reduced: make it contiguous");
      // The view has the parameter's strides, because fused optimizers walk both by address.
      slots_[indices[place]] = {.bucket = buckets_.size(),
                                .place = place,
                                .view = flat.as_strided(parameter.sizes(), parameter.strides(), begin)};
      shown.parts.push_back({.parameter = indices[place],
                             .of = parameter,
                             .gradient = slots_[indices[place]].view,
                             .elements = flat.slice(0, begin, begin + parameter.numel())});
      begin += parameter.numel();
    }
    buckets_.push_back({.parameters = std::move(indices), .flat = flat, .used = shown.used, .work = {}});
    exchanged.push_back(std::move(shown));
  }
  exchange_ = make_exchange(std::move(exchanged), std::move(process_group));
  take_scale();
  hooks_.emplace(parameters_, [this](std::size_t parameter) { take_gradient(parameter); });
}

void GradientBuckets::record_in(ExchangeTimeline& timeline) {
  timeline_ = &timeline;
  for (std::size_t index = 0; index < buckets_.size(); ++index) {
    Bucket& bucket = buckets_[index];
    bucket.track = timeline.add_track(fmt::format("bucket {}: {} parameters", index, bucket.parameters.size()),
                                      static_cast<std::int64_t>(bucket.flat.nbytes()));
  }
}

void GradientBuckets::zero() {
  for (torch::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
  for (Slot& slot : slots_) slot.is_ready = false;
  for (Bucket& bucket : buckets_) {
    bucket.ready_count = 0;
    bucket.work.reset();
  }
  next_bucket_ = 0;
  is_last_batch_ = true;
  take_scale();
}

void GradientBuckets::take_scale() {
  if (scale_factor_.defined() && scale_ == exchange_->factor()) return;
  scale_ = exchange_->factor();
  scale_factor_ = at::native::wrapped_scalar_tensor(scale_);
}

Result<void> GradientBuckets::finish(const WaitForWork& wait, const WaitForWork& follow) {
  bool uses_all = true;
  for (Bucket& bucket : buckets_) {
    for (const std::size_t parameter : bucket.parameters) {
      if (slots_[parameter].is_ready) continue;
      if (parameters_[parameter].grad().defined()) {  // Only an earlier batch of the step used the parameter.
        copy_into_bucket(parameter);
        continue;
      }
      slots_[parameter].view.zero_();
      uses_all = false;
    }
    if (bucket.ready_count < bucket.parameters.size() && timeline_ != nullptr) timeline_->note_filled(bucket.track);
    bucket.ready_count = bucket.parameters.size();
  }
  send_full_buckets();
  TRY(kept_failure());
  TRY(finish_exchange(uses_all ? follow : wait));
  exchange_->end_step();
  if (uses_all) return {};
  for (const Bucket& bucket : buckets_) take_gradients_used_elsewhere(bucket);
  return {};
}

Result<void> GradientBuckets::finish_exchange(const WaitForWork& wait) {
  for (bool is_any_under_way = true; is_any_under_way;) {
    is_any_under_way = false;
    for (std::size_t index = 0; index < buckets_.size(); ++index) {
      Bucket& bucket = buckets_[index];
      if (!bucket.work) continue;
      TRY(wait(bucket.work, "the gradients' all-reduce"));
      try {
        bucket.work = exchange_->proceed(index);
      } catch (const std::exception& error) {
        keep(error, bucket);
      }
      TRY(kept_failure());
      if (timeline_ != nullptr && !bucket.work) timeline_->note_finished(bucket.track);
      is_any_under_way = is_any_under_way || bucket.work;
    }
  }
  return {};
}

void GradientBuckets::keep(const std::exception& error, const Bucket& bucket) {
  send_error_ = dist::message_of(error);
  // The program's mistakes, and the failure of this rank's own device or kernels, are not the loss of a peer.
  const bool is_own = dynamic_cast<const InvalidJob*>(&error) != nullptr ||
                      dynamic_cast<const ProgramFailed*>(&error) != nullptr ||
                      (!bucket.flat.is_cpu() && dist::failed_part(error) != dist::FailedPart::communication);
  if (is_own) own_failure_ = std::current_exception();
}

Result<void> GradientBuckets::kept_failure() const {
  if (own_failure_) std::rethrow_exception(own_failure_);
  if (send_error_.empty()) return {};
  return fail(ErrorKind::unavailable, fmt::format("sending gradients: {}", send_error_));
}

void GradientBuckets::take_gradient(std::size_t parameter) {
  const Slot& slot = slots_[parameter];
  if (slot.is_ready) {
    throw std::logic_error(
        "a parameter got its gradient twice in one step: training_step must not call backward() itself");
  }
  // An autograd function may give an input no gradient. The parameter is then unused, as for c10d::Reducer.
  if (!is_last_batch_ || !parameters_[parameter].grad().defined()) return;
  copy_into_bucket(parameter);
  Bucket& bucket = buckets_[slot.bucket];
  const bool is_full = ++bucket.ready_count == bucket.parameters.size();
  if (is_full && timeline_ != nullptr) timeline_->note_filled(bucket.track);
  if (is_full && !sends_at_end_) send_full_buckets();
}

void GradientBuckets::copy_into_bucket(std::size_t parameter) {
  const torch::NoGradGuard no_grad;
  Slot& slot = slots_[parameter];
  torch::Tensor& gradient = parameters_[parameter].mutable_grad();
  TORCH_CHECK(!gradient.is_sparse(), "sparse gradients are not reduced: give the embedding sparse(false)");
  // Scaling while copying costs nothing extra: the memory is read once either way.
  torch::mul_out(slot.view, gradient, scale_factor_);
  gradient = slot.view;
  slot.is_ready = true;
}

void GradientBuckets::send_full_buckets() {
  while (send_error_.empty() && next_bucket_ < buckets_.size()) {
    Bucket& bucket = buckets_[next_bucket_];
    if (bucket.ready_count < bucket.parameters.size()) return;
    try {
      send(next_bucket_);
    } catch (const std::exception& error) {
      keep(error, bucket);  // Thrown through the backward pass, the error would look like the model's.
    }
    ++next_bucket_;
  }
}

void GradientBuckets::send(std::size_t index) {
  Bucket& bucket = buckets_[index];
  bucket.used.fill_(scale_);
  for (const std::size_t parameter : bucket.parameters) {
    if (!slots_[parameter].is_ready) bucket.used[static_cast<std::int64_t>(slots_[parameter].place)].zero_();
  }
  if (timeline_ != nullptr) timeline_->note_sent(bucket.track);
  bucket.work = exchange_->begin(index);
}

void GradientBuckets::take_gradients_used_elsewhere(const Bucket& bucket) {
  // Only ranks that did not use a parameter read the numbers, so that a usual step reads nothing back from the device.
  torch::Tensor used;
  for (const std::size_t parameter : bucket.parameters) {
    Slot& slot = slots_[parameter];
    if (slot.is_ready) continue;
    if (!used.defined()) used = bucket.used.to(torch::kCPU, torch::kDouble);
    const bool is_used_elsewhere = used.data_ptr<double>()[slot.place] > 0.0;
    if (is_used_elsewhere) parameters_[parameter].mutable_grad() = slot.view;
  }
}

}  // namespace trainyard::strategy
