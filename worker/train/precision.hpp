#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <optional>

#include "api/training_spec.hpp"
#include "include/trainyard/data.hpp"

namespace trainyard::train {

/// How a training's numbers are kept and computed.
struct NumberFormat {
  /// Type of parameters, buffers and batches; if it is empty, they keep the type that they have.
  std::optional<torch::ScalarType> type{};
  /// Type of the forward pass, in the operations that torch.autocast takes for safe.
  std::optional<torch::ScalarType> autocast{};
  bool scales_loss = false;  ///< The loss is scaled for the backward pass.
  bool channels_last = false;
};

/// The number format that the job's `precision` and `channelsLast` ask for.
[[nodiscard]] NumberFormat number_format(const api::TrainingSpec& training);

/// Converts the floating-point parameters and buffers of `module`, and lays out four-dimensional parameters with their
/// channels last, if `format` says so. To be called before anything keeps the tensors.
void convert(torch::nn::Module& module, const NumberFormat& format);

/// `batch` with its floating-point tensors in the format's type, and four-dimensional inputs as the format lays them
/// out.
[[nodiscard]] Batch converted(Batch batch, const NumberFormat& format);

/// torch.autocast while it lives: the operations of this thread compute in `format.autocast` on `device` where that is
/// safe. Restores the state from before, and forgets the weights that were converted meanwhile.
class Autocast {
 public:
  Autocast(const NumberFormat& format, torch::Device device);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  bool is_active_;
  torch::DeviceType device_;
  bool was_enabled_ = false;
  torch::ScalarType previous_type_ = torch::kFloat;
};

/// Sets what torch keeps for the whole process: float32MatmulPrecision, cudnnBenchmark and deterministic.
void apply_math_settings(const api::TrainingSpec& training);

}  // namespace trainyard::train
