#pragma once

#include <torch/types.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/training_spec.hpp"
#include "common/result.hpp"
#include "include/trainyard/data.hpp"
#include "include/trainyard/module.hpp"
#include "worker/checkpoint/checkpointer.hpp"
#include "worker/observe/step_times.hpp"
#include "worker/strategy/wait_for_work.hpp"
#include "worker/train/loss_agreement.hpp"
#include "worker/train/loss_scaler.hpp"
#include "worker/train/module_replicas.hpp"
#include "worker/train/optimizer_turns.hpp"
#include "worker/train/precision.hpp"

namespace trainyard::train {

/// The common 2-norm of `gradients`, all on one device: a float or double scalar on their device, and zero on the host
/// without gradients. Never waits for the device.
[[nodiscard]] torch::Tensor norm_of(const std::vector<torch::Tensor>& gradients);

/// Clips `gradients`, all on one device, in place. `norm`: that of all gradients together, which may be more. Never
/// waits for the device. Formulas: torch.nn.utils.clip_grad_norm_, whose factor is clip.norm / (norm + 1e-6) and at
/// most 1, and clip_grad_value_.
void clip_gradients(const api::GradientClipSpec& clip, const torch::Tensor& norm,
                    const std::vector<torch::Tensor>& gradients);

/// References outlive the step.
struct StepParts {
  Module& module;
  std::vector<OptimizerTurn>& turns;
  const api::TrainingSpec& training;
  c10::intrusive_ptr<c10d::ProcessGroup> process_group;
  strategy::WaitForWork wait;
  ModuleReplicas* replicas = nullptr;  ///< They share the batches of `module`; nullptr: it has none.
  observe::StepTimer& timer;
  std::function<void()> before_update;  ///< Called before any parameter changes. Not set: nothing is.
  /// Called before each optimizer's step, with the name of its turn and the parameters that it trains. Not set: nothing
  /// is.
  std::function<void(const std::string& turn, const NamedTensors& parameters)> before_step;
  torch::Device device = torch::kCPU;
};

/// The place of a batch among those of one optimizer step.
struct BatchOfStep {
  std::int64_t index = 0;
  std::int64_t count = 1;
  [[nodiscard]] bool is_last() const { return index + 1 == count; }
};

/// The arithmetic of one step: forward pass and backward pass of each batch, exchange of gradients, update. The
/// functions are called in this order. bad_loss() waits for the device, and so does an update with an optimizer that
/// does not override step_unless().
///
/// Several optimizers take turns on each batch. With the last batch of a step run() does all of each turn but the last,
/// whose exchange and update are those of finish_gradients() and update().
class OptimizationStep {
 public:
  explicit OptimizationStep(StepParts parts);

  /// Runs the module on `batch`, forward and backward, in each turn. The gradient is the mean of the batches' of the
  /// step. Returns the batch's loss, the sum over the turns: a scalar without history on the rank's device. A batch
  /// without samples has the loss 0 and adds nothing to the gradient, and the module is not called. Errors: those of
  /// finish_gradients(). Throws what the module throws.
  [[nodiscard]] Result<torch::Tensor> run(const Batch& batch, std::int64_t batch_index, BatchOfStep of_step = {});
  /// Orders the current stream of the device after the exchange of gradients: what is queued there from now on reads
  /// those of all ranks. On the CPU it waits for the exchange. Errors: those of GradientSync::finish_gradients(), and
  /// of the exchange of the losses.
  [[nodiscard]] Result<void> finish_gradients();
  /// True when the job ends at a loss that is not finite (onNonFiniteLoss stop or rewind), so that bad_loss() waits for
  /// the device.
  [[nodiscard]] bool asks_for_losses() const;
  /// The first rank whose loss is not finite in the first turn that has such a loss, if asks_for_losses(); nothing for
  /// other jobs. The loss is the mean of the step's batches. Equal on all ranks.
  [[nodiscard]] std::optional<BadLoss> bad_loss() const;
  /// Clips the gradients, changes the parameters, and logs the norm of the gradients before they were clipped. With
  /// precision 16-mixed, gradients that are not finite change nothing but the loss's scale. With onNonFiniteLoss skip,
  /// a bad loss of any rank changes neither parameters nor the optimizer's state, in its own turn and in those after
  /// it, and no buffer of the module. Errors: those of GradientSync::after_update().
  [[nodiscard]] Result<void> update();

  /// How many steps onNonFiniteLoss skip has left out; nothing for another policy. Waits for the device.
  [[nodiscard]] std::optional<std::int64_t> skipped_steps() const;

  /// The entries of a checkpoint beside the module's and the optimizer's state.
  [[nodiscard]] std::vector<checkpoint::Entry> entries() const;

 private:
  /// A turn of one optimizer.
  struct Turn {
    OptimizerTurn& of;
    std::vector<torch::Tensor> parameters;  // the optimizer's
    NamedTensors trained;                   // those of them that need a gradient
    std::vector<torch::Tensor> updated;     // what the optimizer of this rank updates: the parameters, or rows of them
    std::optional<LossScaler> scaler;       // with 16-mixed
    std::optional<LossAgreement> losses;    // unless onNonFiniteLoss is continue
    torch::Tensor loss;                     // mean of the step's batches so far; kept only for losses
  };

  [[nodiscard]] torch::Tensor run_turn(Turn& turn, const Batch& batch, std::int64_t batch_index, BatchOfStep of_step);
  /// An undefined `loss` adds nothing to the gradients.
  void run_backward(Turn& turn, const torch::Tensor& loss, BatchOfStep of_step);
  [[nodiscard]] torch::Tensor forward(const Turn& turn, const Batch& batch, std::int64_t batch_index);
  [[nodiscard]] StepOutput training_step(const Turn& turn, const Batch& batch, std::int64_t batch_index);
  [[nodiscard]] torch::Tensor training_step_end(StepOutput output);
  [[nodiscard]] Result<void> finish_gradients(Turn& turn);
  [[nodiscard]] Result<void> update(Turn& turn);
  /// Leaves the step out when `found_inf`, if it is defined, is not 0.
  static void step_optimizer(const Turn& turn, const torch::Tensor& found_inf);
  /// With onNonFiniteLoss skip: 1 when the loss of any rank in this step's turns up to `turn` is not finite.
  [[nodiscard]] torch::Tensor found_bad_up_to(const Turn& turn);
  void log(const Turn& turn, const std::string& name, const torch::Tensor& value, const LogOptions& options);
  void keep_buffers();
  void take_back_buffers(const torch::Tensor& found_bad);

  StepParts parts_;
  NumberFormat format_;
  std::vector<Turn> turns_;
  std::vector<std::pair<torch::Tensor, torch::Tensor>> buffers_;  // with skip: each with its values before the step
  torch::Tensor found_bad_;  // with skip: of the turn before, if there was one in this step
  torch::Tensor skipped_;    // with skip, from the first step on: how many steps were left out, on the device
};

}  // namespace trainyard::train
