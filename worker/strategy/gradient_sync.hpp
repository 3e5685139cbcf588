#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "common/result.hpp"
#include "include/trainyard/optimizer.hpp"
#include "worker/strategy/model_agreement.hpp"

namespace trainyard::strategy {

/// A strategy: keeps the models of all ranks one model, mostly by exchanging gradients. All ranks make the same calls
/// in the same order, from the training thread. Errors come from the group: unavailable, timeout, cancelled (see
/// dist/wait_or_fail.hpp). After an error the object must not be used any more.
/// A step: zero_gradients, then for each batch begin_forward, forward, end_forward, begin_backward, loss.backward(),
/// end_backward; then finish_gradients, the step of the optimizer that adapt() gave, after_update.
class GradientSync {
 public:
  virtual ~GradientSync() = default;

  /// Gives every rank the parameters and buffers of rank 0. To be called before the first step, and again after rank
  /// 0's were replaced. ErrorKind::invalid when the ranks' models differ in a tensor's name, shape or type; the message
  /// names the first such tensor.
  [[nodiscard]] virtual Result<void> synchronize_model() = 0;
  /// The optimizer that trains in place of `optimizer`, which the module has configured: that one itself, unless the
  /// strategy also decides how parameters change. To be called once, before the first step. Throws InvalidJob for an
  /// optimizer with which the strategy cannot train.
  [[nodiscard]] virtual std::unique_ptr<Optimizer> adapt(std::unique_ptr<Optimizer> optimizer) { return optimizer; }
  virtual void zero_gradients() = 0;
  /// Encloses, with end_forward(), the forward pass of a training step. Layers that ask other ranks there throw
  /// ExchangeFailed when one is lost.
  virtual void begin_forward() {}
  virtual void end_forward() {}
  /// `is_last_batch`: the next backward pass is the step's last. The passes before it only add to grad().
  virtual void begin_backward(bool is_last_batch) = 0;
  /// Encloses, with begin_backward(), the backward pass of one batch.
  virtual void end_backward() {}
  /// After success each parameter's grad() is the mean over the ranks of what the step's backward passes have added up,
  /// or undefined where no rank's loss used the parameter. Strategies whose optimizer
  /// takes something else (QAdam), or whose ranks have parameters of their own (PerRankModel), leave in grad() what
  /// their classes describe. On a GPU that holds for what is queued on the current stream afterwards; the exchange
  /// itself may still run, and fail later.
  [[nodiscard]] virtual Result<void> finish_gradients() = 0;
  /// The rows of parameters that this rank's optimizer updates, in place of whole parameters. finish_gradients() then
  /// gives these rows their gradients, and the parameters none. Empty: it updates all parameters.
  [[nodiscard]] virtual const std::vector<ParameterShard>& shards() const {
    static const std::vector<ParameterShard> none;
    return none;
  }
  /// The norm of the gradients of all ranks' shards(), a scalar. `norm` is the norm of those of this rank's shards().
  /// Without shards: `norm`.
  [[nodiscard]] virtual Result<torch::Tensor> norm_of_all_gradients(const torch::Tensor& norm) { return norm; }
  /// Replaces `value`, which this rank has computed from the gradients of its shards(), by the maximum over all ranks.
  /// Without shards it stays: each rank's optimizer reads whole gradients.
  [[nodiscard]] virtual Result<void> max_over_ranks(const torch::Tensor& /*value*/) { return {}; }
  /// To be called after the optimizer's step.
  [[nodiscard]] virtual Result<void> after_update() { return {}; }
  /// Ends all exchanges that go on between steps, on all ranks after the same one, until the next after_update(). To be
  /// called before a validation, before a checkpoint is copied and at the end of the training. Where ranks have
  /// parameters of their own, it may make them equal.
  [[nodiscard]] virtual Result<void> hold_parameters() { return {}; }
  /// Calls `read`, outside of training steps, on all ranks. Only there, and in the passes of a step, can operators use
  /// the parameters where has_parameters_in_parts().
  [[nodiscard]] virtual Result<void> read_parameters(const std::function<void()>& read) {
    read();
    return {};
  }
  /// True when, after synchronize_model(), the parameters that need a gradient have no memory outside of the passes of
  /// a step and read_parameters(). A rank then keeps of them what shards() has.
  [[nodiscard]] virtual bool has_parameters_in_parts() const { return false; }
  /// Gives all ranks whole parameters, until synchronize_model(), which has to follow.
  [[nodiscard]] virtual Result<void> make_parameters_whole() { return {}; }
  /// True when all ranks have the same parameters after each step. Otherwise a checkpoint has rank 0's as those of the
  /// model, and the optimizer's state of each rank; state() has to hold each rank's own parameters.
  [[nodiscard]] virtual bool keeps_parameters_equal() const { return true; }
  /// True when all ranks have the same state of the optimizer after each step. Otherwise a checkpoint has that of each
  /// rank.
  [[nodiscard]] virtual bool keeps_optimizer_equal() const { return keeps_parameters_equal(); }

  /// The tensors that a resumed run needs beside the model and the optimizer to repeat the bits. Each rank has its own,
  /// which keep their storage.
  [[nodiscard]] virtual NamedTensors state() const { return {}; }
  /// Brings the tensors of state() up to date.
  virtual void before_save() {}
  /// To be called after the tensors of state() were restored, in place. A rank that the checkpoint lacks still has
  /// those that it began with.
  [[nodiscard]] virtual Result<void> after_restore() { return {}; }

  /// The bytes of all tensors that this rank's training steps and read_parameters() have given to collectives: their
  /// size in memory, whatever a collective makes of it on the wire.
  [[nodiscard]] virtual std::uint64_t exchanged_bytes() const { return 0; }
};

/// Calls begin_forward() and end_forward().
class ForwardScope {
 public:
  explicit ForwardScope(GradientSync& gradients) : gradients_{gradients} { gradients_.begin_forward(); }
  ~ForwardScope() { gradients_.end_forward(); }
  ForwardScope(const ForwardScope&) = delete;
  ForwardScope& operator=(const ForwardScope&) = delete;

 private:
  GradientSync& gradients_;
};

/// Calls begin_backward() and end_backward().
class BackwardScope {
 public:
  BackwardScope(GradientSync& gradients, bool is_last_batch) : gradients_{gradients} {
    gradients_.begin_backward(is_last_batch);
  }
  ~BackwardScope() { gradients_.end_backward(); }
  BackwardScope(const BackwardScope&) = delete;
  BackwardScope& operator=(const BackwardScope&) = delete;

 private:
  GradientSync& gradients_;
};

}  // namespace trainyard::strategy
