#include "worker/strategy/sync_batch_norm.hpp"

#include <ATen/OpMathType.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/batch_norm_native.h>
#include <ATen/ops/instance_norm_native.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>
#include <torch/types.h>

#include <optional>
#include <utility>
#include <vector>

#include "worker/dist/torch_error.hpp"
#include "worker/strategy/exchange_failed.hpp"
#include "worker/strategy/wait_for_work.hpp"

namespace trainyard::strategy {
namespace {

thread_local SyncBatchNorm* active = nullptr;

/// All dimensions but the channels'.
std::vector<std::int64_t> other_dimensions(const torch::Tensor& input) {
  std::vector<std::int64_t> dimensions{0};
  for (std::int64_t dimension = 2; dimension < input.dim(); ++dimension) dimensions.push_back(dimension);
  return dimensions;
}

/// One number for each channel, to be used with `input`.
torch::Tensor beside(const torch::Tensor& of_channels, const torch::Tensor& input) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(input.dim()), 1);
  shape[1] = of_channels.numel();
  return of_channels.to(input.scalar_type()).view(shape);
}

torch::Tensor widened(const torch::Tensor& tensor) {
  return tensor.to(at::toOpMathType(tensor.scalar_type()));
}

struct Moments {
  torch::Tensor mean;      // float64 [C], like the next one
  torch::Tensor variance;  // biased
  torch::Tensor count;     // float64 []: the numbers of one channel on all ranks
};

/// The moments of `input`, [B, C, ...], over all ranks together: each rank's mean and squared deviations are combined
/// as by Chan et al. (1979), in the order of the ranks.
Moments moments_of_all(const torch::Tensor& input, SyncBatchNorm& group) {
  const std::int64_t channels = input.size(1);
  const auto dimensions = other_dimensions(input);
  const torch::Tensor own_mean = input.mean(dimensions);
  const torch::Tensor own_squares = (input - beside(own_mean, input)).square().sum(dimensions);
  const auto own_count = static_cast<double>(input.numel() / channels);
  const torch::Tensor own =
      torch::cat({own_mean.to(torch::kDouble), own_squares.to(torch::kDouble),
                  torch::full({1}, own_count, input.options().dtype(torch::kDouble).requires_grad(false))});
  const torch::Tensor all = group.gather(own);
  const torch::Tensor means = all.slice(1, 0, channels);
  const torch::Tensor squares = all.slice(1, channels, 2 * channels);
  const torch::Tensor counts = all.slice(1, 2 * channels);
  const torch::Tensor count = counts.sum();
  const torch::Tensor mean = (means * counts).sum(0) / count;
  const torch::Tensor deviation = (squares + counts * (means - mean).square()).sum(0);
  return {.mean = mean, .variance = deviation / count, .count = count};
}

/// Moves a running statistic, if there is one, by `momentum` towards `value`.
void follow_statistic(const std::optional<torch::Tensor>& running, const torch::Tensor& value, double momentum) {
  if (!running || !running->defined()) return;
  torch::Tensor target = *running;
  target.copy_(target.to(torch::kDouble) * (1.0 - momentum) + value * momentum);
}

struct NormOverRanks final : torch::autograd::Function<NormOverRanks> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& input,
                               const std::optional<torch::Tensor>& given_weight,
                               const std::optional<torch::Tensor>& given_bias,
                               const std::optional<torch::Tensor>& running_mean,
                               const std::optional<torch::Tensor>& running_variance, double momentum, double eps,
                               std::int64_t group_address) {
    auto& group = *reinterpret_cast<SyncBatchNorm*>(group_address);
    const torch::Tensor weight = given_weight.value_or(torch::Tensor{}), bias = given_bias.value_or(torch::Tensor{});
    const torch::Tensor wide = widened(input);
    const Moments moments = moments_of_all(wide, group);
    follow_statistic(running_mean, moments.mean, momentum);
    follow_statistic(running_variance, moments.variance * moments.count / (moments.count - 1.0), momentum);
    const torch::Tensor scale = (moments.variance + eps).rsqrt();
    torch::Tensor output = (wide - beside(moments.mean, wide)) * beside(scale, wide);
    if (weight.defined()) output = output * beside(weight, wide);
    if (bias.defined()) output = output + beside(bias, wide);
    context->save_for_backward({input, weight, moments.mean, scale, moments.count});
    context->saved_data["group"] = group_address;  // The group outlives the step, and so the graph.
    context->saved_data["has_bias"] = bias.defined();
    return output.to(input.scalar_type());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    TORCH_CHECK(!at::GradMode::is_enabled(),
                "training.strategy.syncBatchNorm has no second derivative: leave it out, or take the gradient of a "
                "gradient through no batch normalisation");
    auto& group = *reinterpret_cast<SyncBatchNorm*>(context->saved_data["group"].toInt());
    const auto saved = context->get_saved_variables();
    const torch::Tensor &input = saved[0], &weight = saved[1], &mean = saved[2], &scale = saved[3], &count = saved[4];
    const torch::Tensor wide = widened(input);
    const torch::Tensor gradient = gradients[0].to(wide.scalar_type());
    const torch::Tensor normal = (wide - beside(mean, wide)) * beside(scale, wide);
    const auto dimensions = other_dimensions(wide);
    const std::int64_t channels = wide.size(1);
    const torch::Tensor own = torch::cat({gradient.sum(dimensions), (gradient * normal).sum(dimensions)});
    const torch::Tensor all = own.to(torch::kDouble, /*non_blocking=*/false, /*copy=*/true);
    group.sum(all);
    const torch::Tensor mean_gradient = all.slice(0, 0, channels) / count;
    const torch::Tensor mean_product = all.slice(0, channels) / count;
    const torch::Tensor factor = weight.defined() ? scale * weight.to(torch::kDouble) : scale;
    torch::Tensor of_input = (gradient - beside(mean_gradient, wide) - normal * beside(mean_product, wide));
    of_input = (of_input * beside(factor, wide)).to(input.scalar_type());
    // The gradients of weight and bias are this rank's, and are exchanged with those of the other parameters.
    const torch::Tensor of_weight =
        weight.defined() ? own.slice(0, channels).to(weight.scalar_type()) : torch::Tensor{};
    const torch::Tensor of_bias =
        context->saved_data["has_bias"].toBool()
            ? own.slice(0, 0, channels).to(weight.defined() ? weight.scalar_type() : input.scalar_type())
            : torch::Tensor{};
    return {of_input, of_weight, of_bias, {}, {}, {}, {}, {}};
  }
};

torch::Tensor batch_norm(const torch::Tensor& input, const std::optional<torch::Tensor>& weight,
                         const std::optional<torch::Tensor>& bias, const std::optional<torch::Tensor>& running_mean,
                         const std::optional<torch::Tensor>& running_variance, bool is_training, double momentum,
                         double eps, bool is_cudnn_enabled) {
  if (active == nullptr || !is_training) {
    return at::native::batch_norm(input, weight, bias, running_mean, running_variance, is_training, momentum, eps,
                                  is_cudnn_enabled);
  }
  return NormOverRanks::apply(input, weight, bias, running_mean, running_variance, momentum, eps,
                              reinterpret_cast<std::int64_t>(active));
}

/// torch makes instance normalisation of a batch_norm over one sample's channels, which is no matter of other ranks.
torch::Tensor instance_norm(const torch::Tensor& input, const std::optional<torch::Tensor>& weight,
                            const std::optional<torch::Tensor>& bias, const std::optional<torch::Tensor>& running_mean,
                            const std::optional<torch::Tensor>& running_variance, bool uses_input_statistics,
                            double momentum, double eps, bool is_cudnn_enabled) {
  struct Inactive {
    Inactive() = default;
    Inactive(const Inactive&) = delete;
    Inactive& operator=(const Inactive&) = delete;
    ~Inactive() { active = before; }
    SyncBatchNorm* before = std::exchange(active, nullptr);
  };
  const Inactive inactive;
  return at::native::instance_norm(input, weight, bias, running_mean, running_variance, uses_input_statistics, momentum,
                                   eps, is_cudnn_enabled);
}

/// Registers batch_norm() and instance_norm() for the process, once.
void replace_batch_norm() {
  static const auto libraries = [] {
    std::vector<torch::Library> registered;
    for (const auto key : {c10::DispatchKey::AutogradCPU, c10::DispatchKey::AutogradCUDA}) {
      registered.emplace_back(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
      registered.back().impl("batch_norm", &batch_norm);
      registered.back().impl("instance_norm", &instance_norm);
    }
    return registered;
  }();
}

}  // namespace

SyncBatchNorm::SyncBatchNorm(c10::intrusive_ptr<c10d::ProcessGroup> process_group, WaitForWork follow)
    : process_group_{std::move(process_group)}, follow_{std::move(follow)} {
  replace_batch_norm();
}

SyncBatchNorm::~SyncBatchNorm() {
  if (active == this) deactivate();
}

void SyncBatchNorm::activate() {
  active = this;
}

void SyncBatchNorm::deactivate() {
  active = nullptr;
}

torch::Tensor SyncBatchNorm::gather(const torch::Tensor& own) {
  std::vector<std::vector<torch::Tensor>> all(1);
  for (int rank = 0; rank < process_group_->getSize(); ++rank) all[0].push_back(torch::empty_like(own));
  std::vector<torch::Tensor> message{own};
  exchange(own, "the exchange of batch statistics", [&] { return process_group_->allgather(all, message); });
  return torch::stack(all[0]);
}

void SyncBatchNorm::sum(const torch::Tensor& tensor) {
  std::vector<torch::Tensor> message{tensor};
  exchange(tensor, "the exchange of batch statistics' gradients", [&] { return process_group_->allreduce(message); });
}

void SyncBatchNorm::exchange(const torch::Tensor& tensor, std::string_view what,
                             const std::function<c10::intrusive_ptr<c10d::Work>()>& send) {
  exchanged_bytes_ += tensor.nbytes();
  c10::intrusive_ptr<c10d::Work> work;
  try {
    work = send();
  } catch (const std::exception& error) {
    // The failure of this rank's own device or kernels is not the loss of a peer.
    if (!tensor.is_cpu() && dist::failed_part(error) != dist::FailedPart::communication) throw;
    throw ExchangeFailed{{.kind = ErrorKind::unavailable,
                          .message = fmt::format("{}: {}", what, dist::message_of(error)),
                          .retry_after = {}}};
  }
  if (auto done = follow_(work, what); !done) throw ExchangeFailed{done.error()};
}

}  // namespace trainyard::strategy
