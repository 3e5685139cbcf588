#include "worker/strategy/ddp.hpp"

#include <fmt/format.h>
#include <torch/types.h>

#include <cstddef>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "common/try.hpp"
#include "worker/dist/torch_error.hpp"

namespace trainyard::strategy {
namespace {

std::vector<torch::Tensor> exchanged(const NamedTensors& parameters, const DdpOptions& options) {
  std::vector<torch::Tensor> found;
  if (!options.exchanges_gradients) return found;
  for (const auto& [name, parameter] : parameters) {
    if (parameter.requires_grad()) found.push_back(parameter);
  }
  return found;
}

MakeExchange exchange_for(const DdpOptions& options, const NamedTensors& parameters) {
  if (!options.exchange) return make_all_reduce;
  std::vector<std::string> names;
  for (const auto& [name, parameter] : parameters) {
    if (parameter.requires_grad()) names.push_back(name);
  }
  return options.exchange(std::move(names));
}

std::vector<torch::Tensor> detached(const NamedTensors& tensors) {
  std::vector<torch::Tensor> found;
  for (const auto& [name, tensor] : tensors) found.push_back(tensor.detach());
  return found;
}

/// `tensors` in their order, divided into messages of at least one tensor and otherwise at most 32 MiB. A rank has a
/// packed copy of one message at a time: one of a whole model would be the most memory that a training ever takes.
std::vector<std::vector<torch::Tensor>> in_messages(const std::vector<torch::Tensor>& tensors) {
  constexpr std::size_t message_bytes_max = std::size_t{32} << 20;
  std::vector<std::vector<torch::Tensor>> messages;
  std::size_t bytes = 0;
  for (const torch::Tensor& tensor : tensors) {
    if (messages.empty() || bytes + tensor.nbytes() > message_bytes_max) {
      messages.emplace_back();
      bytes = 0;
    }
    messages.back().push_back(tensor);
    bytes += tensor.nbytes();
  }
  return messages;
}

/// True when `error`, thrown while `tensors` were sent, is the failure of this rank's own device or kernels and not the
/// loss of a peer.
bool is_own_failure(const std::exception& error, const NamedTensors& tensors) {
  return !tensors.front().second.is_cpu() && dist::failed_part(error) != dist::FailedPart::communication;
}

NamedTensors joined(NamedTensors first, const NamedTensors& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

}  // namespace

BufferBroadcast::BufferBroadcast(const std::vector<torch::Tensor>& tensors,
                                 c10::intrusive_ptr<c10d::ProcessGroup> process_group)
    : packed_{tensors}, process_group_{std::move(process_group)} {}

c10::intrusive_ptr<c10d::Work> BufferBroadcast::begin() {
  if (process_group_->getRank() == 0) packed_.pack();
  std::vector<torch::Tensor> message{packed_.bytes()};
  return process_group_->broadcast(message, {.rootRank = 0});
}

c10::intrusive_ptr<c10d::Work> BufferBroadcast::meet() {
  std::vector<torch::Tensor> one{torch::zeros({1}, packed_.bytes().options().dtype(torch::kFloat))};
  return process_group_->allreduce(one);
}

void BufferBroadcast::finish() {
  if (process_group_->getRank() != 0) packed_.unpack();
}

Ddp::Ddp(NamedTensors parameters, NamedTensors buffers, c10::intrusive_ptr<c10d::ProcessGroup> process_group,
         checkpoint::Communicator& communicator, WaitForWork wait, const DdpOptions& options)
    : parameters_{std::move(parameters)},
      buffers_{std::move(buffers)},
      process_group_{std::move(process_group)},
      communicator_{communicator},
      wait_{std::move(wait)},
      follow_{options.follow ? options.follow : wait_},
      gradients_{exchanged(parameters_, options), process_group_, options.limits, exchange_for(options, parameters_),
                 options.tuning} {
  if (options.timeline != nullptr) gradients_.record_in(*options.timeline);
  if (options.synchronizes_batch_norm) {
    batch_norm_.emplace(process_group_, follow_);
    gradients_.send_at_end();
  }
  if (buffers_.empty()) return;
  if (options.broadcasts_buffers) {
    buffer_broadcast_.emplace(detached(buffers_), process_group_);
  } else {
    own_buffers_.emplace(buffers_, "buffer");
  }
}

Result<void> Ddp::synchronize_model() {
  const NamedTensors model = joined(parameters_, buffers_);
  TRY(agree_on_layout(model, communicator_));
  return broadcast(model, "the model");
}

Result<void> broadcast_from_rank0(const NamedTensors& tensors,
                                  const c10::intrusive_ptr<c10d::ProcessGroup>& process_group, const WaitForWork& wait,
                                  std::string_view what) {
  if (tensors.empty()) return {};
  const std::string name = fmt::format("the broadcast of {}", what);
  try {
    std::optional<BufferBroadcast> broadcast;
    for (const std::vector<torch::Tensor>& message : in_messages(detached(tensors))) {
      broadcast.emplace(message, process_group);
      TRY(wait(broadcast->begin(), name));
      broadcast->finish();
    }
    TRY(wait(broadcast->meet(), name));
  } catch (const std::exception& error) {
    if (is_own_failure(error, tensors)) throw;
    return fail(ErrorKind::unavailable, fmt::format("broadcasting {}: {}", what, dist::message_of(error)));
  }
  return {};
}

std::unique_ptr<Optimizer> Ddp::adapt(std::unique_ptr<Optimizer> optimizer) {
  return gradients_.adapt(std::move(optimizer));
}

void Ddp::zero_gradients() {
  gradients_.zero();
}

void Ddp::begin_forward() {
  if (batch_norm_) batch_norm_->activate();
}

void Ddp::end_forward() {
  if (batch_norm_) SyncBatchNorm::deactivate();
}

void Ddp::begin_backward(bool is_last_batch) {
  gradients_.begin_backward(is_last_batch);
  if (!buffer_broadcast_ || !is_last_batch) return;
  try {
    buffers_under_way_ = buffer_broadcast_->begin();
    buffer_bytes_ += buffer_broadcast_->bytes();
  } catch (const std::exception& error) {
    buffers_error_ = dist::message_of(error);  // finish_gradients() returns it, or throws own_failure_.
    if (is_own_failure(error, buffers_)) own_failure_ = std::current_exception();
  }
}

Result<void> Ddp::finish_gradients() {
  TRY(gradients_.finish(wait_, follow_));
  if (own_failure_) std::rethrow_exception(own_failure_);
  if (!buffers_error_.empty())
    return fail(ErrorKind::unavailable, fmt::format("broadcasting buffers: {}", buffers_error_));
  if (!buffers_under_way_) return {};
  TRY(follow_(buffers_under_way_, "the broadcast of the buffers"));
  buffer_broadcast_->finish();
  buffers_under_way_.reset();
  return {};
}

NamedTensors Ddp::state() const {
  NamedTensors state = gradients_.state();
  return own_buffers_ ? joined(std::move(state), own_buffers_->state()) : state;
}

void Ddp::before_save() {
  if (own_buffers_) own_buffers_->before_save();
}

Result<void> Ddp::after_restore() {
  if (own_buffers_) own_buffers_->after_restore();
  NamedTensors on_host, on_device;  // One message has the tensors of one device.
  for (const torch::Tensor& tensor : gradients_.common_state())
    (tensor.is_cpu() ? on_host : on_device).emplace_back("", tensor);
  TRY(broadcast(on_host, "the strategy's state"));
  return broadcast(on_device, "the strategy's state");
}

std::uint64_t Ddp::exchanged_bytes() const {
  const std::uint64_t of_batch_norm = batch_norm_ ? batch_norm_->exchanged_bytes() : 0;
  return gradients_.exchanged_bytes() + buffer_bytes_ + of_batch_norm;
}

}  // namespace trainyard::strategy
