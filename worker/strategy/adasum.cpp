#include "worker/strategy/adasum.hpp"

#include <ATen/OpMathType.h>
#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <bit>
#include <exception>
#include <limits>
#include <string_view>
#include <utility>

#include "common/try.hpp"
#include "include/trainyard/options.hpp"
#include "worker/dist/torch_error.hpp"

namespace trainyard::strategy {
namespace {

constexpr std::string_view broadcast_of_state = "the broadcast of the optimizer's state";

std::vector<torch::Tensor> real_that_need_gradients(const NamedTensors& parameters) {
  std::vector<torch::Tensor> found;
  for (const auto& [name, parameter] : parameters) {
    if (!parameter.requires_grad()) continue;
    if (parameter.is_complex())
      throw InvalidJob{fmt::format("training.strategy.op: adasum trains no complex numbers, which {} has", name)};
    found.push_back(parameter);
  }
  return found;
}

void check_world_size(int world_size) {
  const auto ranks = static_cast<unsigned>(world_size);
  if (std::has_single_bit(ranks)) return;
  throw InvalidJob{
      fmt::format("training.strategy.op: adasum combines pairs of ranks, and pairs of pairs, so that it needs a power "
                  "of two ranks, and this group has {}: take {} or {}, or another op",
                  world_size, std::bit_floor(ranks), std::bit_ceil(ranks))};
}

DdpOptions without_exchange(DdpOptions options) {
  options.exchanges_gradients = false;
  return options;
}

/// How much of a change with the square `square` of its length is kept, if its product with the other one is `dot`.
torch::Tensor kept_part(const torch::Tensor& dot, const torch::Tensor& square) {
  return torch::where(square > 0, 1.0 - dot / (2.0 * square), torch::ones_like(square));
}

/// The error of what was thrown while `tensor` was sent, unless this rank's own device or kernels failed: that is not
/// the loss of a peer, and is thrown on. To be called from a catch block.
tl::unexpected<Error> lost_peer(const std::exception& error, const torch::Tensor& tensor, std::string_view what) {
  if (!tensor.is_cpu() && dist::failed_part(error) != dist::FailedPart::communication) throw;
  return fail(ErrorKind::unavailable, fmt::format("sending {}: {}", what, dist::message_of(error)));
}

torch::Tensor sum_of_products(const torch::Tensor& a, const torch::Tensor& b) {
  return (a * b).sum(torch::kDouble);
}

}  // namespace

torch::Tensor adasum(const torch::Tensor& a, const torch::Tensor& b) {
  const torch::Tensor dot = sum_of_products(a, b);
  const torch::Tensor of_a = kept_part(dot, sum_of_products(a, a)).to(a.scalar_type());
  const torch::Tensor of_b = kept_part(dot, sum_of_products(b, b)).to(b.scalar_type());
  // The two ranks of a pair add in different orders, and the sum of two NaNs has the bits of the first.
  const torch::Tensor sum = a * of_a + b * of_b;
  return torch::where(sum.isnan(), std::numeric_limits<double>::quiet_NaN(), sum);
}

/// The optimizer of one rank, whose state is asked for once.
class AdasumSync::LocalOptimizer final : public Optimizer {
 public:
  explicit LocalOptimizer(std::unique_ptr<Optimizer> optimizer)
      : optimizer_{std::move(optimizer)}, state_{optimizer_->state()} {}

  void step() override { optimizer_->step(); }
  void step_unless(const torch::Tensor& found_inf) override { optimizer_->step_unless(found_inf); }
  void set_lr_factor(double factor) override { optimizer_->set_lr_factor(factor); }
  [[nodiscard]] NamedTensors state() override { return state_; }
  void before_save() override { optimizer_->before_save(); }
  void after_restore() override { optimizer_->after_restore(); }

 private:
  std::unique_ptr<Optimizer> optimizer_;
  NamedTensors state_;
};

AdasumSync::AdasumSync(NamedTensors parameters, NamedTensors buffers,
                       c10::intrusive_ptr<c10d::ProcessGroup> process_group, checkpoint::Communicator& communicator,
                       WaitForWork wait, DdpOptions options)
    : parameters_{real_that_need_gradients(parameters)},
      process_group_{process_group},
      wait_{wait},
      follow_{options.follow ? options.follow : wait},
      ddp_{std::move(parameters), std::move(buffers), std::move(process_group),
           communicator,          std::move(wait),    without_exchange(options)},
      is_saved_{torch::zeros({1}, torch::kUInt8)} {
  check_world_size(process_group_->getSize());
  for (const BucketIndices& indices : assign_buckets(parameters_, options.limits)) add_bucket(parameters_, indices);
}

AdasumSync::~AdasumSync() = default;

void AdasumSync::add_bucket(const std::vector<torch::Tensor>& parameters, const BucketIndices& indices) {
  Bucket& bucket = buckets_.emplace_back();
  std::int64_t elements = 0;
  for (const std::size_t index : indices) {
    const torch::Tensor parameter = parameters[index].detach();
    const std::int64_t begin = std::exchange(elements, elements + parameter.numel());
    bucket.parts.push_back(
        {.parameter = parameter, .start = torch::empty_like(parameter), .begin = begin, .end = elements});
  }
  const torch::Tensor& first = bucket.parts.front().parameter;
  bucket.own = torch::zeros({elements}, first.options().dtype(at::toOpMathType(first.scalar_type())));
  bucket.peers = torch::zeros_like(bucket.own);
}

std::unique_ptr<Optimizer> AdasumSync::adapt(std::unique_ptr<Optimizer> optimizer) {
  auto local = std::make_unique<LocalOptimizer>(std::move(optimizer));
  optimizer_ = local.get();
  return local;
}

void AdasumSync::zero_gradients() {
  for (torch::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
  ddp_.zero_gradients();
}

Result<void> AdasumSync::finish_gradients() {
  const torch::NoGradGuard no_grad;
  TRY(ddp_.finish_gradients());
  for (Bucket& bucket : buckets_)
    for (Part& part : bucket.parts) part.start.copy_(part.parameter);
  return {};
}

Result<void> AdasumSync::after_update() {
  const torch::NoGradGuard no_grad;
  for (Bucket& bucket : buckets_) {
    for (const Part& part : bucket.parts)
      bucket.own.slice(0, part.begin, part.end).view(part.start.sizes()).copy_(part.parameter - part.start);
  }
  for (std::int64_t distance = 1; distance < process_group_->getSize(); distance *= 2) {
    TRY(exchange_with_rank_at(distance));
  }
  for (Bucket& bucket : buckets_) {
    for (Part& part : bucket.parts) {
      const torch::Tensor change = bucket.own.slice(0, part.begin, part.end).view(part.start.sizes());
      part.parameter.copy_(part.start + change);
    }
  }
  return {};
}

Result<void> AdasumSync::exchange_with_rank_at(std::int64_t distance) {
  const std::int64_t rank = process_group_->getRank();
  const auto peer = static_cast<std::size_t>(rank ^ distance);
  try {
    for (Bucket& bucket : buckets_) {
      std::vector<std::int64_t> elements(static_cast<std::size_t>(process_group_->getSize()), 0);
      elements[peer] = bucket.own.numel();
      bytes_ += bucket.own.nbytes();
      bucket.work = process_group_->alltoall_base(bucket.peers, bucket.own, elements, elements);
    }
  } catch (const std::exception& error) {
    return lost_peer(error, buckets_.front().own, "the changes of parameters");
  }
  for (Bucket& bucket : buckets_) {
    TRY(follow_(std::exchange(bucket.work, {}), "the exchange of the changes of parameters"));
    for (const Part& part : bucket.parts) {
      torch::Tensor own = bucket.own.slice(0, part.begin, part.end);
      own.copy_(adasum(own, bucket.peers.slice(0, part.begin, part.end)));
    }
  }
  return {};
}

NamedTensors AdasumSync::state() const {
  NamedTensors state = ddp_.state();
  state.emplace_back("adasum.has_optimizer", is_saved_);
  return state;
}

void AdasumSync::before_save() {
  ddp_.before_save();
  is_saved_.fill_(1);
}

Result<void> AdasumSync::after_restore() {
  TRY(ddp_.after_restore());
  if (optimizer_ == nullptr) return {};
  std::vector<torch::Tensor> on_host, on_device;  // One message has the tensors of one device.
  for (const auto& [name, tensor] : optimizer_->state())
    (tensor.is_cpu() ? on_host : on_device).push_back(tensor.detach());
  TRY(take_from_rank0(on_host));
  TRY(take_from_rank0(on_device));
  optimizer_->after_restore();
  return {};
}

/// Gives a rank that the checkpoint lacks the values that rank 0 has in `tensors`.
Result<void> AdasumSync::take_from_rank0(const std::vector<torch::Tensor>& tensors) {
  if (tensors.empty()) return {};
  try {
    BufferBroadcast broadcast{tensors, process_group_};
    TRY(wait_(broadcast.begin(), broadcast_of_state));
    if (!is_saved_.item<bool>()) broadcast.finish();
    TRY(wait_(broadcast.meet(), broadcast_of_state));
  } catch (const std::exception& error) {
    return lost_peer(error, tensors.front(), "the optimizer's state");
  }
  return {};
}

}  // namespace trainyard::strategy
