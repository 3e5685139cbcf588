#pragma once

#include <torch/types.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "api/training_spec.hpp"
#include "common/result.hpp"
#include "include/trainyard/data.hpp"
#include "include/trainyard/module.hpp"
#include "include/trainyard/optimizer.hpp"
#include "worker/checkpoint/checkpointer.hpp"
#include "worker/observe/step_times.hpp"
#include "worker/strategy/gradient_sync.hpp"
#include "worker/strategy/wait_for_work.hpp"
#include "worker/train/loss_agreement.hpp"
#include "worker/train/loss_scaler.hpp"
#include "worker/train/precision.hpp"

namespace trainyard::train {

/// References outlive the step.
struct StepParts {
  Module& module;
  Optimizer& optimizer;
  strategy::GradientSync& gradients;
  const api::TrainingSpec& training;
  c10::intrusive_ptr<c10d::ProcessGroup> process_group;
  strategy::WaitForWork wait;
  observe::StepTimer& timer;
  torch::Device device = torch::kCPU;
};

/// The place of a batch among those of one optimizer step.
struct BatchOfStep {
  std::int64_t index = 0;
  std::int64_t count = 1;
  [[nodiscard]] bool is_last() const { return index + 1 == count; }
};

/// The arithmetic of one optimizer step: forward pass and backward pass of each batch, exchange of gradients, update.
/// The functions are called in this order. bad_loss() waits for the device, and so does update() with an
/// optimizer that does not override step_unless().
class OptimizationStep {
 public:
  explicit OptimizationStep(StepParts parts);

  /// Runs the module on `batch`, forward and backward. The gradient is the mean of the batches' of the step. Returns
  /// the batch's loss, a scalar without history on the rank's device. Throws what the module throws.
  [[nodiscard]] torch::Tensor run(const Batch& batch, std::int64_t batch_index, BatchOfStep of_step = {});
  /// Orders the current stream of the device after the exchange of gradients: what is queued there from now on reads
  /// those of all ranks. On the CPU it waits for the exchange. Errors: those of GradientSync::finish_gradients(), and
  /// of the exchange of the losses.
  [[nodiscard]] Result<void> finish_gradients();
  /// True when the job ends at a loss that is not finite (onNonFiniteLoss stop or rewind), so that bad_loss() waits for
  /// the device.
  [[nodiscard]] bool asks_for_losses() const;
  /// The first rank whose loss is not finite, if asks_for_losses(); nothing for other jobs. The loss is the mean of the
  /// step's batches. Equal on all ranks.
  [[nodiscard]] std::optional<BadLoss> bad_loss() const;
  /// Clips the gradients and changes the parameters. With precision 16-mixed, gradients that are not finite change
  /// nothing but the loss's scale; with onNonFiniteLoss skip, a bad loss of any rank changes neither parameters, nor
  /// the optimizer's state, nor the module's buffers.
  void update();
  /// The 2-norm of all gradients before they were clipped: a scalar on the device. Undefined without gradientClip.
  [[nodiscard]] const torch::Tensor& grad_norm() const { return grad_norm_; }

  /// The entries of a checkpoint beside the module's and the optimizer's state.
  [[nodiscard]] std::vector<checkpoint::Entry> entries() const;

 private:
  [[nodiscard]] torch::Tensor forward(const Batch& batch, std::int64_t batch_index);
  [[nodiscard]] std::vector<torch::Tensor> gradients() const;
  void keep_buffers();
  void take_back_buffers(const torch::Tensor& found_bad);

  StepParts parts_;
  NumberFormat format_;
  std::vector<torch::Tensor> parameters_;
  std::optional<LossScaler> scaler_;                              // with 16-mixed
  std::optional<LossAgreement> losses_;                           // unless onNonFiniteLoss is continue
  std::vector<std::pair<torch::Tensor, torch::Tensor>> buffers_;  // with skip: each with its values before the step
  torch::Tensor loss_;  // mean of the step's batches so far; kept only for losses_
  torch::Tensor grad_norm_;
};

}  // namespace trainyard::train
