#include "worker/strategy/sharded.hpp"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <exception>
#include <optional>
#include <utility>

#include "common/logging.hpp"
#include "common/try.hpp"
#include "worker/dist/torch_error.hpp"

namespace trainyard::strategy {
namespace {

NamedTensors that_need_gradients(const NamedTensors& parameters) {
  NamedTensors found;
  for (const auto& parameter : parameters) {
    if (parameter.second.requires_grad()) found.push_back(parameter);
  }
  return found;
}

DdpOptions without_gradients(DdpOptions options) {
  options.exchanges_gradients = false;
  return options;
}

ShardedGradients::Options gradient_options(WaitForWork wait, const DdpOptions& options) {
  return {.limits = options.limits,
          .wait = wait,
          .follow = options.follow ? options.follow : wait,
          .sends_at_end = options.synchronizes_batch_norm,
          .has_own_rows = options.shards_parameters};
}

}  // namespace

Sharded::Sharded(NamedTensors parameters, NamedTensors buffers, c10::intrusive_ptr<c10d::ProcessGroup> process_group,
                 checkpoint::Communicator& communicator, WaitForWork wait, const DdpOptions& options)
    : device_{parameters.empty() ? torch::Device{torch::kCPU} : parameters.front().second.device()},
      process_group_{process_group},
      follow_{options.follow ? options.follow : wait},
      ddp_{parameters, std::move(buffers), process_group, communicator, wait, without_gradients(options)},
      gradients_{that_need_gradients(parameters), std::move(process_group), gradient_options(wait, options)},
      keeps_gradients_{options.synchronizes_batch_norm} {
  for (const auto& [name, parameter] : parameters) {
    parameter_bytes_ += static_cast<std::int64_t>(parameter.nbytes());
    if (!parameter.requires_grad()) untrained_bytes_ += static_cast<std::int64_t>(parameter.nbytes());
  }
  if (options.shards_parameters)
    gathered_.emplace(that_need_gradients(parameters), gradients_, process_group_, communicator, follow_);
}

Result<void> Sharded::synchronize_model() {
  TRY(ddp_.synchronize_model());
  if (gathered_) gathered_->take_rows();
  // To count the optimizer's state makes it, which waits until whole parameters are freed.
  if (optimizer_ != nullptr) log_memory(*std::exchange(optimizer_, nullptr));
  return {};
}

std::unique_ptr<Optimizer> Sharded::adapt(std::unique_ptr<Optimizer> optimizer) {
  optimizer->shard(shards());
  optimizer_ = optimizer.get();
  return optimizer;
}

void Sharded::log_memory(Optimizer& optimizer) const {
  if (process_group_->getRank() != 0) return;
  const ShardedMemory bytes = memory(optimizer);
  logging::info(
      "sharded: bytes of a rank's memory for one optimizer's parameters, without activations, buffers and "
      "accumulated gradients",
      {{"parameters", bytes.parameter_bytes},
       {"gatheredParameters", bytes.gathered_bytes},
       {"gradients", bytes.gradient_bytes},
       {"optimizerState", bytes.state_bytes},
       {"buckets", bytes.bucket_bytes},
       {"total", bytes.total()}});
}

ShardedMemory Sharded::memory(Optimizer& optimizer) const {
  ShardedSizes sizes{.parameter_bytes = parameter_bytes_,
                     .untrained_bytes = untrained_bytes_,
                     .largest_bucket_bytes = gradients_.largest_bucket_bytes(),
                     .keeps_gradients = keeps_gradients_,
                     .shards_parameters = gathered_.has_value()};
  for (const ParameterShard& shard : shards()) sizes.own_bytes += static_cast<std::int64_t>(shard.rows.nbytes());
  for (const auto& [name, tensor] : optimizer.state()) sizes.state_bytes += static_cast<std::int64_t>(tensor.nbytes());
  return sharded_memory(sizes);
}

void Sharded::zero_gradients() {
  ddp_.zero_gradients();
  gradients_.zero();
}

void Sharded::begin_forward() {
  ddp_.begin_forward();
  begin_pass(Pass::forward);
}

void Sharded::end_forward() {
  ddp_.end_forward();
  end_pass();
}

void Sharded::begin_backward(bool is_last_batch) {
  ddp_.begin_backward(is_last_batch);
  gradients_.begin_backward(is_last_batch);
  begin_pass(Pass::backward);
}

void Sharded::end_backward() {
  end_pass();
}

void Sharded::begin_pass(Pass pass) {
  if (!gathered_) return;
  exceptions_before_pass_ = std::uncaught_exceptions();
  gathered_->begin(pass);
}

void Sharded::end_pass() {
  if (!gathered_) return;
  // The other ranks learn of an exception of this rank when it has gone.
  if (std::uncaught_exceptions() > exceptions_before_pass_) return gathered_->leave();
  try {
    if (auto ended = gathered_->end(); !ended) pass_error_ = ended.error();
  } catch (...) {
    own_failure_ = std::current_exception();
  }
}

Result<void> Sharded::finish_gradients() {
  if (own_failure_) std::rethrow_exception(own_failure_);
  if (pass_error_) return tl::unexpected(*pass_error_);
  std::optional<NoOperatorAsks> none_asks;
  if (gathered_) {
    gathered_->drop();
    none_asks.emplace();
  }
  TRY(gradients_.finish());
  return ddp_.finish_gradients();
}

Result<void> Sharded::after_update() {
  return gathered_ ? Result<void>{} : gradients_.gather();
}

Result<void> Sharded::read_parameters(const std::function<void()>& read) {
  if (!gathered_) return GradientSync::read_parameters(read);
  gathered_->begin(Pass::reading);
  try {
    read();
  } catch (...) {
    gathered_->leave();
    throw;
  }
  TRY(gathered_->end());
  gathered_->drop();  // The rows may change before the next use.
  return {};
}

Result<void> Sharded::make_parameters_whole() {
  return gathered_ ? gathered_->make_whole() : Result<void>{};
}

Result<torch::Tensor> Sharded::norm_of_all_gradients(const torch::Tensor& norm) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor squares = norm.to(device_, torch::kDouble).square();
  TRY(reduce(squares, c10d::ReduceOp::SUM));
  return squares.sqrt();
}

Result<void> Sharded::max_over_ranks(const torch::Tensor& value) {
  return reduce(value, c10d::ReduceOp::MAX);
}

Result<void> Sharded::reduce(const torch::Tensor& value, c10d::ReduceOp::RedOpType operation) {
  std::vector<torch::Tensor> message{value};
  c10::intrusive_ptr<c10d::Work> work;
  try {
    work = process_group_->allreduce(message, {.reduceOp = operation});
  } catch (const std::exception& error) {
    // The failure of this rank's own device or kernels is not the loss of a peer.
    if (!value.is_cpu() && dist::failed_part(error) != dist::FailedPart::communication) throw;
    return fail(ErrorKind::unavailable,
                fmt::format("sending a number of the gradients' rows: {}", dist::message_of(error)));
  }
  return follow_(work, "the exchange of a number of the gradients' rows");
}

std::uint64_t Sharded::exchanged_bytes() const {
  return ddp_.exchanged_bytes() + gradients_.exchanged_bytes() + (gathered_ ? gathered_->exchanged_bytes() : 0);
}

}  // namespace trainyard::strategy
