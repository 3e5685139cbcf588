#include "worker/train/precision.hpp"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <string>

namespace trainyard::train {
namespace {

constexpr std::int64_t image_dimensions = 4;

torch::Tensor converted(const torch::Tensor& tensor, const NumberFormat& format, bool lays_out) {
  if (!tensor.defined() || !tensor.is_floating_point()) return tensor;
  const torch::Tensor typed = format.type ? tensor.to(*format.type) : tensor;
  return lays_out && format.channels_last && typed.dim() == image_dimensions
             ? typed.contiguous(at::MemoryFormat::ChannelsLast)
             : typed;
}

std::string torch_name(api::Float32MatmulPrecision precision) {
  switch (precision) {
    case api::Float32MatmulPrecision::highest:
      return "highest";
    case api::Float32MatmulPrecision::high:
      return "high";
    case api::Float32MatmulPrecision::medium:
      return "medium";
  }
  return "highest";
}

}  // namespace

NumberFormat number_format(const api::TrainingSpec& training) {
  NumberFormat format{.channels_last = training.channels_last};
  switch (training.precision) {
    case api::Precision::fp32:
      break;
    case api::Precision::fp64:
      format.type = torch::kDouble;
      break;
    case api::Precision::fp16:
      format.type = torch::kHalf;
      break;
    case api::Precision::bf16:
      format.type = torch::kBFloat16;
      break;
    case api::Precision::fp16_mixed:
      format.autocast = torch::kHalf;
      format.scales_loss = true;
      break;
    case api::Precision::bf16_mixed:
      format.autocast = torch::kBFloat16;
      break;
  }
  return format;
}

void convert(torch::nn::Module& module, const NumberFormat& format) {
  if (!format.type && !format.channels_last) return;
  const torch::NoGradGuard no_grad;
  for (torch::Tensor& parameter : module.parameters()) {
    parameter.set_data(converted(parameter.detach(), format, /*lays_out=*/true));
  }
  for (torch::Tensor& buffer : module.buffers())
    buffer.set_data(converted(buffer.detach(), format, /*lays_out=*/false));
}

Batch converted(Batch batch, const NumberFormat& format) {
  if (!format.type && !format.channels_last) return batch;
  const auto change = [&](const torch::Tensor& tensor) { return converted(tensor, format, /*lays_out=*/true); };
  batch.inputs = change(batch.inputs);
  batch.targets = converted(batch.targets, format, /*lays_out=*/false);
  batch.named = batch.named.map(change);
  return batch;
}

Autocast::Autocast(const NumberFormat& format, torch::Device device)
    : is_active_{format.autocast.has_value()}, device_{device.type()} {
  if (!is_active_) return;
  was_enabled_ = at::autocast::is_autocast_enabled(device_);
  previous_type_ = at::autocast::get_autocast_dtype(device_);
  at::autocast::set_autocast_enabled(device_, true);
  at::autocast::set_autocast_dtype(device_, *format.autocast);
  at::autocast::increment_nesting();
}

Autocast::~Autocast() {
  if (!is_active_) return;
  // A cached copy of a weight would be stale after the optimizer's step.
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, was_enabled_);
  at::autocast::set_autocast_dtype(device_, previous_type_);
}

void apply_math_settings(const api::TrainingSpec& training) {
  at::globalContext().setFloat32MatmulPrecision(torch_name(training.float32_matmul_precision));
  at::globalContext().setBenchmarkCuDNN(training.cudnn_benchmark);
  at::globalContext().setDeterministicAlgorithms(training.deterministic, /*warn_only=*/false);
  at::globalContext().setDeterministicCuDNN(training.deterministic);
}

}  // namespace trainyard::train
