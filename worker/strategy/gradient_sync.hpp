#pragma once

#include "common/result.hpp"

namespace trainyard::strategy {

/// Combines the gradients of all ranks. All ranks make the same calls in the same order, from the training thread.
/// Errors come from the group: unavailable, timeout, cancelled (see dist/wait_or_fail.hpp). After an error the object
/// must not be used any more.
/// A step: zero_gradients, then for each batch forward, begin_backward, loss.backward(); then finish_gradients,
/// optimizer.
class GradientSync {
 public:
  virtual ~GradientSync() = default;

  /// Gives every rank the parameters and buffers of rank 0. To be called before the first step, and again after rank
  /// 0's were replaced. ErrorKind::invalid when the ranks' models differ in a tensor's name, shape or type; the message
  /// names the first such tensor.
  [[nodiscard]] virtual Result<void> synchronize_model() = 0;
  virtual void zero_gradients() = 0;
  /// `is_last_batch`: the next backward pass is the step's last. The passes before it only add to grad().
  virtual void begin_backward(bool is_last_batch) = 0;
  /// After success each parameter's grad() is the mean over the ranks of what the step's backward passes have added up,
  /// or undefined where no rank's loss used the parameter. On a GPU that holds for what is queued on the current stream
  /// afterwards; the exchange itself may still run, and fail later.
  [[nodiscard]] virtual Result<void> finish_gradients() = 0;
};

}  // namespace trainyard::strategy
