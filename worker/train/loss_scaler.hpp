#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "worker/train/named_tensors.hpp"

namespace trainyard::train {

struct LossScaling {
  double first = 65536.0;
  double growth = 2.0;
  double backoff = 0.5;
  std::int64_t growth_interval = 2000;  ///< So many steps in turn with finite gradients let the scale grow.
};

/// Scales losses, so that the gradients of float16 do not vanish, and finds out when the scale was too large. All of it
/// stays on the device: nothing waits for it. Algorithm and numbers: torch.amp.GradScaler. The scales of the ranks stay
/// equal, because gradients are looked at after their exchange.
/// A step: scale, backward, exchange, unscale, Optimizer::step_unless(found_inf), update.
class LossScaler {
 public:
  explicit LossScaler(torch::Device device, const LossScaling& options = {});

  [[nodiscard]] torch::Tensor scale(const torch::Tensor& loss) const { return loss * scale_; }
  /// Divides `gradients` by the scale, and looks for numbers that are not finite.
  void unscale(const std::vector<torch::Tensor>& gradients);
  /// float scalar: 1 when unscale() found a number that is not finite, else 0.
  [[nodiscard]] const torch::Tensor& found_inf() const { return found_inf_; }
  /// Changes the scale for the next step. `is_bad_loss`: a scalar that is 1 where the loss itself was not finite, so
  /// that the scale is not to blame and stays; undefined: it was finite.
  void update(const torch::Tensor& is_bad_loss = {});
  /// The tensors that a checkpoint needs.
  [[nodiscard]] NamedTensors state() const { return {{"scale", scale_}, {"growth_tracker", growth_tracker_}}; }

 private:
  LossScaling options_;
  torch::Tensor scale_;           // float scalar
  torch::Tensor growth_tracker_;  // int32 scalar
  torch::Tensor found_inf_;       // float scalar
};

}  // namespace trainyard::train
