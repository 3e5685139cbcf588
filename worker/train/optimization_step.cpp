#include "worker/train/optimization_step.hpp"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "common/try.hpp"
#include "worker/train/gradient_clip.hpp"
#include "worker/train/named_tensors.hpp"

namespace trainyard::train {
namespace {

void check_loss(const torch::Tensor& loss) {
  TORCH_CHECK(loss.defined() && loss.numel() == 1,
              "the training step gave no scalar loss: training_step returns one, or training_step_end makes it");
}

}  // namespace

OptimizationStep::OptimizationStep(StepParts parts)
    : parts_{std::move(parts)}, format_{number_format(parts_.training)} {
  for (const auto& [name, parameter] : named_parameters(parts_.module)) parameters_.push_back(parameter);
  if (format_.scales_loss) scaler_.emplace(parts_.device);
  const api::OnNonFiniteLoss policy = parts_.training.on_non_finite_loss;
  if (policy != api::OnNonFiniteLoss::proceed) losses_.emplace(parts_.process_group, parts_.wait, parts_.device);
  if (policy != api::OnNonFiniteLoss::skip) return;
  for (const auto& [name, buffer] : named_buffers(parts_.module))
    buffers_.emplace_back(buffer.detach(), buffer.detach().clone());
}

torch::Tensor OptimizationStep::run(const Batch& batch, std::int64_t batch_index, BatchOfStep of_step) {
  if (of_step.index == 0) {
    parts_.gradients.zero_gradients();
    keep_buffers();
  }
  const torch::Tensor loss = forward(batch, batch_index);
  parts_.timer.end(observe::StepPart::forward);
  const torch::Tensor part = of_step.count > 1 ? loss / of_step.count : loss;
  if (losses_) {
    loss_ = of_step.index == 0 ? part.detach() : loss_ + part.detach();
    if (of_step.is_last()) losses_->begin(loss_);
  }
  parts_.gradients.begin_backward(of_step.is_last());
  (scaler_ ? scaler_->scale(part) : part).backward();
  parts_.timer.end(observe::StepPart::backward);
  return loss.detach();
}

torch::Tensor OptimizationStep::forward(const Batch& batch, std::int64_t batch_index) {
  const Autocast autocast{format_, parts_.device};
  const strategy::ForwardScope scope{parts_.gradients};
  torch::Tensor loss =
      parts_.module.training_step_end(parts_.module.training_step(converted(batch, format_), batch_index));
  check_loss(loss);
  return loss;
}

Result<void> OptimizationStep::finish_gradients() {
  TRY(parts_.gradients.finish_gradients());
  if (losses_) {
    TRY(losses_->finish());
  }
  return {};
}

bool OptimizationStep::asks_for_losses() const {
  const api::OnNonFiniteLoss policy = parts_.training.on_non_finite_loss;
  return policy == api::OnNonFiniteLoss::stop || policy == api::OnNonFiniteLoss::rewind;
}

std::optional<BadLoss> OptimizationStep::bad_loss() const {
  return asks_for_losses() ? losses_->first_bad() : std::nullopt;
}

void OptimizationStep::update() {
  const bool is_skipping = parts_.training.on_non_finite_loss == api::OnNonFiniteLoss::skip;
  torch::Tensor is_bad_loss;
  if (is_skipping) {
    is_bad_loss = losses_->found_bad();
    take_back_buffers(is_bad_loss);
  }
  torch::Tensor found_inf = is_bad_loss;
  if (scaler_) {
    scaler_->unscale(gradients());
    found_inf = found_inf.defined() ? torch::maximum(found_inf, scaler_->found_inf()) : scaler_->found_inf();
  }
  if (const auto& clip = parts_.training.gradient_clip) grad_norm_ = clip_gradients(*clip, gradients());
  if (found_inf.defined()) {
    parts_.optimizer.step_unless(found_inf);
  } else {
    parts_.optimizer.step();
  }
  if (scaler_) scaler_->update(is_bad_loss);
  parts_.timer.end(observe::StepPart::optimizer);
}

std::vector<checkpoint::Entry> OptimizationStep::entries() const {
  std::vector<checkpoint::Entry> entries;
  for (const auto& [name, tensor] : parts_.gradients.state()) {
    entries.push_back({.name = fmt::format("{}{}", checkpoint::strategy_prefix, name),
                       .placement = checkpoint::Placement::per_rank,
                       .tensor = tensor});
  }
  if (!scaler_) return entries;
  for (const auto& [name, tensor] : scaler_->state()) {
    entries.push_back({.name = fmt::format("{}{}", checkpoint::scaler_prefix, name),
                       .placement = checkpoint::Placement::replicated,
                       .tensor = tensor,
                       .is_steady = true});
  }
  return entries;
}

std::vector<torch::Tensor> OptimizationStep::gradients() const {
  std::vector<torch::Tensor> found;
  for (const torch::Tensor& parameter : parameters_) {
    if (parameter.grad().defined()) found.push_back(parameter.grad());
  }
  return found;
}

void OptimizationStep::keep_buffers() {
  const torch::NoGradGuard no_grad;
  for (auto& [buffer, before] : buffers_) before.copy_(buffer);
}

void OptimizationStep::take_back_buffers(const torch::Tensor& found_bad) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor is_bad = found_bad.gt(0);
  for (auto& [buffer, before] : buffers_) buffer.copy_(torch::where(is_bad, before, buffer));
}

}  // namespace trainyard::train
