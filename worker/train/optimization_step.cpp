#include "worker/train/optimization_step.hpp"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/try.hpp"
#include "worker/observe/metric_sinks.hpp"
#include "worker/train/named_tensors.hpp"
#include "worker/train/program_call.hpp"
#include "worker/train/tensor_groups.hpp"

namespace trainyard::train {

torch::Tensor norm_of(const std::vector<torch::Tensor>& gradients) {
  if (gradients.empty()) return torch::zeros({});
  const torch::NoGradGuard no_grad;
  const auto groups = by_type(gradients);
  std::vector<torch::Tensor> norms;
  for (const auto& group : groups) {
    for (const torch::Tensor& norm : norms_of(group)) norms.push_back(norm);
  }
  if (groups.size() > 1) {
    for (torch::Tensor& norm : norms) norm = norm.to(torch::kDouble);
  }
  return torch::linalg_vector_norm(torch::stack(norms));
}

void clip_gradients(const api::GradientClipSpec& clip, const torch::Tensor& norm,
                    const std::vector<torch::Tensor>& gradients) {
  const torch::NoGradGuard no_grad;
  for (const auto& group : by_type(gradients)) {
    if (clip.norm) {
      const torch::Tensor factor = (*clip.norm / (norm + 1e-6)).clamp_max(1.0);
      at::_foreach_mul_(group, factor.to(group.front().scalar_type()));
    } else {
      at::_foreach_clamp_min_(group, -*clip.value);
      at::_foreach_clamp_max_(group, *clip.value);
    }
  }
}

namespace {

void check_loss(const torch::Tensor& loss) {
  TORCH_CHECK(loss.defined() && loss.numel() == 1,
              "the training step gave no scalar loss: training_step returns one, or training_step_end makes it");
}

std::vector<torch::Tensor> that_need_gradients(const std::vector<torch::Tensor>& parameters) {
  std::vector<torch::Tensor> found;
  std::ranges::copy_if(parameters, std::back_inserter(found), [](const auto& one) { return one.requires_grad(); });
  return found;
}

/// The gradients of those `parameters` that have one.
std::vector<torch::Tensor> gradients_of(const std::vector<torch::Tensor>& parameters) {
  std::vector<torch::Tensor> found;
  for (const torch::Tensor& parameter : parameters) {
    if (parameter.grad().defined()) found.push_back(parameter.grad());
  }
  return found;
}

}  // namespace

OptimizationStep::OptimizationStep(StepParts parts)
    : parts_{std::move(parts)}, format_{number_format(parts_.training)} {
  const api::OnNonFiniteLoss policy = parts_.training.on_non_finite_loss;
  for (OptimizerTurn& of : parts_.turns) {
    Turn& turn = turns_.emplace_back(
        Turn{.of = of, .parameters = {}, .trained = {}, .updated = {}, .scaler = {}, .losses = {}, .loss = {}});
    for (const auto& [name, parameter] : of.parameters) {
      turn.parameters.push_back(parameter);
      if (parameter.requires_grad()) turn.trained.emplace_back(name, parameter);
    }
    for (const ParameterShard& shard : of.gradients->shards()) turn.updated.push_back(shard.rows);
    if (turn.updated.empty()) turn.updated = turn.parameters;
    if (format_.scales_loss) turn.scaler.emplace(parts_.device);
    if (policy != api::OnNonFiniteLoss::proceed) turn.losses.emplace(parts_.process_group, parts_.wait, parts_.device);
  }
  if (policy != api::OnNonFiniteLoss::skip) return;
  for (const auto& [name, buffer] : named_buffers(parts_.module))
    buffers_.emplace_back(buffer.detach(), buffer.detach().clone());
}

Result<torch::Tensor> OptimizationStep::run(const Batch& batch, std::int64_t batch_index, BatchOfStep of_step) {
  if (of_step.index == 0) {
    keep_buffers();
    found_bad_ = torch::Tensor{};
  }
  const Batch used = converted(batch, format_);
  torch::Tensor sum;
  for (Turn& turn : turns_) {
    const torch::Tensor loss = run_turn(turn, used, batch_index, of_step);
    sum = sum.defined() ? sum + loss : loss;
    if (!of_step.is_last() || &turn == &turns_.back()) continue;
    TRY(finish_gradients(turn));
    TRY(update(turn));
  }
  return sum;
}

torch::Tensor OptimizationStep::run_turn(Turn& turn, const Batch& batch, std::int64_t batch_index,
                                         BatchOfStep of_step) {
  const ProgramCall in_turn{turn.of.name.empty() ? "" : " in the turn of the optimizer ", turn.of.name};
  if (of_step.index == 0) turn.of.gradients->zero_gradients();
  const bool has_samples = batch.size() > 0;
  const torch::Tensor loss = has_samples ? forward(turn, batch, batch_index) : torch::zeros({}, parts_.device);
  parts_.timer.end(observe::StepPart::forward);
  const torch::Tensor part = of_step.count > 1 ? loss / of_step.count : loss;
  if (turn.losses) {
    turn.loss = of_step.index == 0 ? part.detach() : turn.loss + part.detach();
    if (of_step.is_last()) turn.losses->begin(turn.loss);
  }
  run_backward(turn, has_samples ? part : torch::Tensor{}, of_step);
  if (!turn.of.name.empty() && has_samples) log(turn, "loss", loss, {.on_epoch = true});
  parts_.timer.end(observe::StepPart::backward);
  return loss.detach();
}

void OptimizationStep::run_backward(Turn& turn, const torch::Tensor& loss, BatchOfStep of_step) {
  const strategy::BackwardScope scope{*turn.of.gradients, of_step.is_last()};
  if (!loss.defined()) return;
  const torch::Tensor scaled = turn.scaler ? turn.scaler->scale(loss) : loss;
  const ProgramCall call{"backward() of the loss"};
  if (turn.of.name.empty()) {
    scaled.backward();
  } else {
    const std::vector<torch::Tensor> trained = that_need_gradients(turn.parameters);
    TORCH_CHECK(!trained.empty(), "no parameter of the optimizer '", turn.of.name,
                "' needs a gradient in its own turn: freeze only what other optimizers train");
    // Parameters of other optimizers get no gradient, and the pass skips the work that only those would need.
    scaled.backward(/*gradient=*/{}, /*retain_graph=*/std::nullopt, /*create_graph=*/false, trained);
  }
}

torch::Tensor OptimizationStep::forward(const Turn& turn, const Batch& batch, std::int64_t batch_index) {
  const Autocast autocast{format_, parts_.device};
  const strategy::ForwardScope scope{*turn.of.gradients};
  parts_.module.set_optimizer_turn(turn.of.name);
  torch::Tensor loss = training_step_end(training_step(turn, batch, batch_index));
  parts_.module.set_optimizer_turn({});
  check_loss(loss);
  return loss;
}

StepOutput OptimizationStep::training_step(const Turn& turn, const Batch& batch, std::int64_t batch_index) {
  const ProgramCall call{"training_step()"};
  if (parts_.replicas == nullptr) return parts_.module.training_step(batch, batch_index);
  return parts_.replicas->training_step(batch, batch_index,
                                        {.name = turn.of.name, .is_first = &turn == &turns_.front()});
}

torch::Tensor OptimizationStep::training_step_end(StepOutput output) {
  const ProgramCall call{"training_step_end()"};
  return parts_.module.training_step_end(std::move(output));
}

Result<void> OptimizationStep::finish_gradients() {
  return finish_gradients(turns_.back());
}

Result<void> OptimizationStep::finish_gradients(Turn& turn) {
  TRY(turn.of.gradients->finish_gradients());
  if (turn.losses) {
    TRY(turn.losses->finish());
  }
  return {};
}

bool OptimizationStep::asks_for_losses() const {
  const api::OnNonFiniteLoss policy = parts_.training.on_non_finite_loss;
  return policy == api::OnNonFiniteLoss::stop || policy == api::OnNonFiniteLoss::rewind;
}

std::optional<BadLoss> OptimizationStep::bad_loss() const {
  if (!asks_for_losses()) return std::nullopt;
  for (const Turn& turn : turns_) {
    auto bad = turn.losses->first_bad();
    if (!bad) continue;
    bad->turn = turn.of.name;
    return bad;
  }
  return std::nullopt;
}

Result<void> OptimizationStep::update() {
  return update(turns_.back());
}

Result<void> OptimizationStep::update(Turn& turn) {
  parts_.timer.end(observe::StepPart::communication);
  if (parts_.before_update) parts_.before_update();
  parts_.timer.end(observe::StepPart::checkpoint);
  torch::Tensor is_bad_loss;
  if (parts_.training.on_non_finite_loss == api::OnNonFiniteLoss::skip) {
    is_bad_loss = found_bad_up_to(turn);
    // The turns that follow may still need the buffers as this turn has left them.
    if (&turn == &turns_.back()) {
      take_back_buffers(is_bad_loss);
      skipped_ = skipped_.defined() ? skipped_ + is_bad_loss : is_bad_loss;
    }
  }
  torch::Tensor found_inf = is_bad_loss;
  const std::vector<torch::Tensor> gradients = gradients_of(turn.updated);
  if (turn.scaler) {
    turn.scaler->unscale(gradients);
    TRY(turn.of.gradients->max_over_ranks(turn.scaler->found_inf()));
    found_inf = found_inf.defined() ? torch::maximum(found_inf, turn.scaler->found_inf()) : turn.scaler->found_inf();
  }
  if (parts_.before_step) parts_.before_step(turn.of.name, turn.trained);
  if (const auto& clip = parts_.training.gradient_clip) {
    const torch::Tensor norm = TRY(turn.of.gradients->norm_of_all_gradients(norm_of(gradients)));
    clip_gradients(*clip, norm, gradients);
    log(turn, "grad_norm", norm, {});
  }
  step_optimizer(turn, found_inf);
  if (turn.scaler) turn.scaler->update(is_bad_loss);
  parts_.timer.end(observe::StepPart::optimizer);
  TRY(turn.of.gradients->after_update());
  parts_.timer.end(observe::StepPart::communication);
  return {};
}

void OptimizationStep::step_optimizer(const Turn& turn, const torch::Tensor& found_inf) {
  const ProgramCall call{turn.of.name.empty() ? "the optimizer's step()" : "step() of the optimizer ", turn.of.name};
  if (found_inf.defined()) {
    turn.of.optimizer->step_unless(found_inf);
  } else {
    turn.of.optimizer->step();
  }
}

std::optional<std::int64_t> OptimizationStep::skipped_steps() const {
  if (parts_.training.on_non_finite_loss != api::OnNonFiniteLoss::skip) return std::nullopt;
  return skipped_.defined() ? skipped_.to(torch::kLong).item<std::int64_t>() : 0;
}

torch::Tensor OptimizationStep::found_bad_up_to(const Turn& turn) {
  const torch::Tensor found = turn.losses->found_bad();
  found_bad_ = found_bad_.defined() ? torch::maximum(found_bad_, found) : found;
  return found_bad_;
}

void OptimizationStep::log(const Turn& turn, const std::string& name, const torch::Tensor& value,
                           const LogOptions& options) {
  if (observe::MetricSink* sink = parts_.module.metric_sink())
    sink->log_own(name_in_turn(turn.of.name, "_", name), value.detach(), options);
}

std::vector<checkpoint::Entry> OptimizationStep::entries() const {
  std::vector<checkpoint::Entry> entries;
  for (const Turn& turn : turns_) {
    for (const auto& [name, tensor] : turn.of.gradients->state()) {
      entries.push_back(
          {.name = fmt::format("{}{}", checkpoint::strategy_prefix, name_in_turn(turn.of.name, ".", name)),
           .placement = checkpoint::Placement::per_rank,
           .tensor = tensor,
           // A rank's own parameters. Its buffers may be infinite, as masks are.
           .must_be_finite = name.starts_with("parameter.") && tensor.is_floating_point()});
    }
    if (!turn.scaler) continue;
    for (const auto& [name, tensor] : turn.scaler->state()) {
      entries.push_back({.name = fmt::format("{}{}", checkpoint::scaler_prefix, name_in_turn(turn.of.name, ".", name)),
                         .placement = checkpoint::Placement::replicated,
                         .tensor = tensor,
                         .is_steady = true});
    }
  }
  return entries;
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
