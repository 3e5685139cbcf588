#pragma once

#include "common/result.hpp"

namespace trainyard::strategy {

/// How the gradients of all ranks become one. All ranks make the same calls in the same order, from the training
/// thread. Errors come from the group: unavailable, timeout, cancelled (see dist/wait_or_fail.hpp); after one, the
/// object is only to be left alone.
///
/// A step: zero_gradients, forward, begin_backward, loss.backward(), finish_gradients, optimizer.
class GradientSync {
 public:
  virtual ~GradientSync() = default;

  /// Makes every rank's parameters and buffers rank 0's. Before the first step, and again where rank 0's were replaced
  /// since. invalid when the ranks' models differ in a parameter's name, shape or type; the message names the first.
  [[nodiscard]] virtual Result<void> synchronize_model() = 0;
  virtual void zero_gradients() = 0;
  virtual void begin_backward() = 0;
  /// Afterwards each parameter's grad() is the mean over the ranks, or undefined where no rank's loss used the
  /// parameter.
  [[nodiscard]] virtual Result<void> finish_gradients() = 0;
};

}  // namespace trainyard::strategy
