#include "worker/strategy/per_rank_model.hpp"

#include <ATen/Functions.h>
#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <utility>

#include "common/try.hpp"
#include "common/word_hash.hpp"
#include "worker/dist/torch_error.hpp"
#include "worker/strategy/ddp.hpp"

namespace trainyard::strategy {

FlatParameters::FlatParameters(const std::vector<torch::Tensor>& parameters, torch::ScalarType type) {
  std::int64_t elements = 0;
  for (const torch::Tensor& parameter : parameters) elements += parameter.numel();
  const auto device = parameters.empty() ? torch::Device{torch::kCPU} : parameters.front().device();
  flat_ = torch::zeros({elements}, torch::dtype(type).device(device));
  std::int64_t begin = 0;
  for (const torch::Tensor& parameter : parameters) {
    parameters_.push_back(parameter.detach());
    views_.push_back(flat_.slice(0, begin, begin + parameter.numel()).view(parameter.sizes()));
    begin += parameter.numel();
  }
}

void FlatParameters::pack() {
  const torch::NoGradGuard no_grad;
  if (!parameters_.empty()) at::_foreach_copy_(views_, parameters_);
}

void FlatParameters::unpack() {
  const torch::NoGradGuard no_grad;
  if (!parameters_.empty()) at::_foreach_copy_(parameters_, views_);
}

void FlatParameters::add() {
  const torch::NoGradGuard no_grad;
  if (!parameters_.empty()) at::_foreach_add_(parameters_, views_);
}

namespace {

constexpr std::string_view what_is_exchanged = "the exchange of the parameters";

NamedTensors trained(const NamedTensors& parameters) {
  NamedTensors found;
  std::ranges::copy_if(parameters, std::back_inserter(found),
                       [](const auto& one) { return one.second.requires_grad(); });
  return found;
}

/// The optimizer of a module, before whose steps something else changes the parameters.
class AfterAverage final : public Optimizer {
 public:
  AfterAverage(std::unique_ptr<Optimizer> optimizer, std::function<void()> average)
      : optimizer_{std::move(optimizer)}, average_{std::move(average)} {}

  void step() override {
    average_();
    optimizer_->step();
  }
  void step_unless(const torch::Tensor& found_inf) override {
    average_();
    optimizer_->step_unless(found_inf);
  }
  void set_lr_factor(double factor) override { optimizer_->set_lr_factor(factor); }
  [[nodiscard]] NamedTensors state() override { return optimizer_->state(); }
  void before_save() override { optimizer_->before_save(); }
  void after_restore() override { optimizer_->after_restore(); }

 private:
  std::unique_ptr<Optimizer> optimizer_;
  std::function<void()> average_;
};

std::vector<torch::Tensor> without_names(const NamedTensors& tensors) {
  std::vector<torch::Tensor> found;
  for (const auto& [name, tensor] : tensors) found.push_back(tensor);
  return found;
}

}  // namespace

c10d::ProcessGroup& peers_of(const PerRankModelParts& parts) {
  return parts.pods ? *parts.pods->first_ranks : *parts.process_group;
}

PerRankModel::PerRankModel(PerRankModelParts parts, torch::ScalarType type)
    : parts_{std::move(parts)},
      flat_{without_names(trained(parts_.parameters)), type},
      own_parameters_{trained(parts_.parameters), "parameter"},
      own_buffers_{parts_.buffers, "buffer"},
      steps_{torch::zeros({1}, torch::kInt64)} {}

Result<void> PerRankModel::synchronize_model() {
  NamedTensors model = parts_.parameters;
  model.insert(model.end(), parts_.buffers.begin(), parts_.buffers.end());
  TRY(agree_on_layout(model, parts_.communicator));
  return broadcast_from_rank0(model, parts_.process_group, parts_.wait, "the model");
}

void PerRankModel::zero_gradients() {
  for (auto& [name, parameter] : parts_.parameters) parameter.mutable_grad().reset();
}

Result<void> PerRankModel::after_update() {
  steps_.add_(1);
  return {};
}

NamedTensors PerRankModel::state() const {
  NamedTensors state{{"steps", steps_}};
  for (const PerRankTensors* own : {&own_parameters_, &own_buffers_}) {
    for (auto& named : own->state()) state.push_back(std::move(named));
  }
  return state;
}

void PerRankModel::before_save() {
  own_parameters_.before_save();
  own_buffers_.before_save();
}

Result<void> PerRankModel::after_restore() {
  own_parameters_.after_restore();
  return restore_steps_and_buffers();
}

Result<void> PerRankModel::restore_steps_and_buffers() {
  own_buffers_.after_restore();
  return broadcast_from_rank0({{"steps", steps_}}, parts_.process_group, parts_.wait, "the strategy's state");
}

FlatParameters PerRankModel::make_flat() const {
  return {without_names(trained(parts_.parameters)), flat_tensor().scalar_type()};
}

bool PerRankModel::is_exchange_due() const {
  return steps() % parts_.interval == 0;
}

std::int64_t PerRankModel::exchanges() const {
  return (steps() + parts_.interval - 1) / parts_.interval;
}

std::int64_t PerRankModel::peers_number() const {
  if (!parts_.pods) return world_size();
  std::vector<std::int64_t> numbers{world_size()};
  for (const dist::Pod& pod : parts_.pods->pods) numbers.push_back(pod.first_rank);
  // Below zero, so that it is no number of ranks.
  return -1 - static_cast<std::int64_t>(word_hash(word_hash_start, std::as_bytes(std::span{numbers})) >> 1U);
}

void PerRankModel::begin_sum_of_pod() {
  const auto start = [this] {
    std::vector<torch::Tensor> message{flat_tensor()};
    c10d::ProcessGroup& own = *parts_.pods->own;
    return is_one_pod() ? own.allreduce(message) : own.reduce(message, {.rootRank = 0});
  };
  begin_exchange(start, flat_tensor().nbytes());
}

void PerRankModel::begin_result_of_pod() {
  const auto start = [this] {
    std::vector<torch::Tensor> message{flat_tensor()};
    return parts_.pods->own->broadcast(message, {.rootRank = 0});
  };
  begin_exchange(start, flat_tensor().nbytes());
}

void PerRankModel::begin_exchange(const std::function<c10::intrusive_ptr<c10d::Work>()>& start, std::uint64_t bytes) {
  exchanged_bytes_ += bytes;
  try {
    work_ = start();
  } catch (const std::exception& error) {
    error_ = dist::message_of(error);
    // The failure of this rank's own device or kernels is not the loss of a peer.
    const bool is_own = !flat_.flat().is_cpu() && dist::failed_part(error) != dist::FailedPart::communication;
    if (is_own) own_failure_ = std::current_exception();
  }
}

Result<bool> PerRankModel::finish_exchange() {
  if (own_failure_) std::rethrow_exception(own_failure_);
  if (!error_.empty()) return fail(ErrorKind::unavailable, fmt::format("{}: {}", what_is_exchanged, error_));
  if (!work_) return false;
  TRY(parts_.follow(std::exchange(work_, {}), what_is_exchanged));
  return true;
}

std::unique_ptr<Optimizer> after_average(std::unique_ptr<Optimizer> optimizer, std::function<void()> average) {
  return std::make_unique<AfterAverage>(std::move(optimizer), std::move(average));
}

torch::ScalarType averaged_type(const NamedTensors& parameters) {
  const auto is_double = [](const auto& parameter) { return parameter.second.scalar_type() == torch::kDouble; };
  return std::ranges::any_of(parameters, is_double) ? torch::kDouble : torch::kFloat;
}

std::vector<std::int64_t> parts_for(const std::vector<std::int64_t>& peers, std::int64_t elements,
                                    std::int64_t world_size) {
  std::vector<std::int64_t> parts(static_cast<std::size_t>(world_size), 0);
  for (const std::int64_t peer : peers) parts[static_cast<std::size_t>(peer)] = elements;
  return parts;
}

}  // namespace trainyard::strategy
