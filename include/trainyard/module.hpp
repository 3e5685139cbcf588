#pragma once

#include <c10/util/intrusive_ptr.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <trainyard/callback.hpp>
#include <trainyard/data.hpp>
#include <trainyard/metrics.hpp>
#include <trainyard/optimizer.hpp>
#include <trainyard/process_set.hpp>

namespace c10d {
class CommHookInterface;
class ProcessGroup;
}  // namespace c10d

namespace trainyard {

namespace observe {
class ImageSink;
class MetricSink;
}  // namespace observe
namespace train {
class RankContext;
}

/// The result of training_step, validation_step and test_step, and the argument of training_step_end,
/// validation_step_end and test_step_end: a loss, and any other values.
struct StepOutput {
  StepOutput() = default;
  StepOutput(torch::Tensor loss) : loss{std::move(loss)} {}  // implicit: `return cross_entropy(...)` is the usual step

  torch::Tensor loss;  ///< Scalar. In training it may be undefined if training_step_end computes it from `values`.
  std::map<std::string, torch::Tensor> values;
};

/// How gradients and buffers are exchanged by the strategies ddp and ddp2: what the job's training.strategy says, until
/// configure_ddp() changes it.
struct DdpSettings {
  std::int64_t bucket_mib = 25;  ///< bucketMiB, 1 to 4096. Without effect where the job has autotune.
  bool broadcast_buffers = true;
  bool sync_batch_norm = false;  ///< Not with ddp2.
  bool operator==(const DdpSettings&) const = default;
};

/// A model and how it is trained. Derive from it, register the layers as in any torch::nn::Module, and pass the class
/// to TRAINYARD_MAIN. The worker calls the functions below from one thread; with the strategies dp and ddp2 on GPUs,
/// those of each further instance from a thread of its own. An exception ends the rank, and the job's message names the
/// function and the step before what().
class Module : public torch::nn::Module {
 public:
  /// Returns the loss of one batch, with its autograd history; with several optimizers, that of optimizer_turn(). The
  /// module is in training mode, except for parts that it has put into evaluation mode itself. `batch_index` is the
  /// batch's number in the epoch, from 0.
  ///
  /// Only the optimizer should change parameters. A training_step that changes them in place makes each save block
  /// training for the copy, and the first checkpoint may be missed; it must never change them through data().
  [[nodiscard]] virtual StepOutput training_step(const Batch& batch, std::int64_t batch_index) = 0;
  /// Returns the loss for backward(): `output.loss` unless overridden. `output` is that of the rank's whole batch: with
  /// the strategies dp and ddp2 training_step is called for a part of it on each device, on an instance of the module
  /// for each, and their outputs are joined before (docs/strategies.md).
  [[nodiscard]] virtual torch::Tensor training_step_end(StepOutput output);

  /// Logs the metrics of one batch of the validation set, in evaluation mode and without gradients. The job's status
  /// shows "val_loss" and "val_accuracy". Each metric's mean is over all samples, each exactly once. Without an
  /// override nothing is validated. Returns what validation_step_end needs, which is nothing (`return {};`) for metrics
  /// that are means over samples.
  virtual StepOutput validation_step(const Batch& batch, std::int64_t batch_index);
  /// Logs the metrics that need the rank's whole batch, of what validation_step has returned: does nothing unless
  /// overridden. With the strategies dp and ddp2 `output` is joined from those of all devices' parts of the batch, as
  /// for training_step_end. Each metric counts with the samples of the batch. A rank that has no samples in the last
  /// round of a validation calls neither function there.
  virtual void validation_step_end(StepOutput output);

  /// Logs the metrics of one batch of the test set, as validation_step does, for a job whose training.task is test:
  /// calls validation_step unless overridden.
  virtual StepOutput test_step(const Batch& batch, std::int64_t batch_index);
  /// As validation_step_end, after test_step: calls validation_step_end unless overridden.
  virtual void test_step_end(StepOutput output);
  /// Returns the predictions for one batch, by name, for a job whose training.task is predict: each tensor's first
  /// dimension is the batch, and names, dtypes and shapes of samples are equal in all batches. In evaluation mode and
  /// without gradients. Throws InvalidJob unless overridden.
  [[nodiscard]] virtual std::map<std::string, torch::Tensor> predict_step(const Batch& batch, std::int64_t batch_index);

  /// Makes the optimizer: that of `spec` unless overridden.
  [[nodiscard]] virtual std::unique_ptr<Optimizer> configure_optimizers(const OptimizerSpec& spec);
  /// Makes several optimizers, which take turns in this order on each batch. Returns none unless overridden:
  /// configure_optimizers() then makes the only one.
  ///
  /// In each turn training_step() returns the loss of optimizer_turn(). The gradients of that loss are computed for the
  /// parameters of this optimizer alone, are exchanged and clipped, and change these parameters before the next turn
  /// begins. A turn may use tensors that an earlier one has computed from the same batch, with their history. A
  /// parameter of no optimizer is not trained: it needs no gradient from then on.
  [[nodiscard]] virtual std::vector<NamedOptimizer> configure_named_optimizers(const OptimizerSpec& spec);

  /// Changes how the strategy ddp or ddp2 is made; does nothing unless overridden. Called once, in a training of
  /// several ranks with that strategy, before configure_comm_hook(). All ranks make equal settings; others fail the job
  /// as InvalidJob does.
  virtual void configure_ddp(DdpSettings& settings);
  /// Makes the hook that exchanges the gradients of a bucket among the ranks of `process_group`: a class that derives
  /// from CppCommHookInterface of <torch/csrc/distributed/c10d/comm.hpp>, as register_comm_hook() of PyTorch's
  /// DistributedDataParallel takes it. Returns nullptr unless overridden. Called once for each optimizer, in a group of
  /// several ranks. The job must name the strategy ddp or ddp2, without gradientCompression.
  ///
  /// The hook gets the sum of the backward passes of a step. Its future has what the optimizer takes in their place, in
  /// the bucket's dtype, device and size: for the mean over the ranks the hook divides. An example, its errors and its
  /// state: docs/own-model.md, "A communication hook".
  [[nodiscard]] virtual std::shared_ptr<c10d::CommHookInterface> configure_comm_hook(
      const c10::intrusive_ptr<c10d::ProcessGroup>& process_group);

  /// The process sets of a job of `world_size` ranks: by name, the numbers of the ranks in each set, in any order.
  /// Returns none unless overridden. Called once on each rank, before the training, also for a job that does not train,
  /// and before configure_comm_hook(). All ranks return the same sets: up to 64, each of at least one rank, with names
  /// as those of log(). A rank may be in several sets, or in none. Other sets fail the job as
  /// InvalidJob does. process_set() then returns each set.
  [[nodiscard]] virtual std::map<std::string, std::vector<std::int64_t>> configure_process_sets(
      std::int64_t world_size);

  /// Makes the callbacks that follow the training: none unless overridden. Called once, after the optimizer was made.
  [[nodiscard]] virtual std::vector<std::shared_ptr<Callback>> configure_callbacks();

  /// Opens the training set and the validation set. Returns nothing unless overridden: the worker then opens them in
  /// the format that the job names.
  [[nodiscard]] virtual std::optional<Datasets> open_datasets(const DataSource& source);

  /// The number of classes that the model has outputs for, or 0 to leave the data unchecked. The job fails at once when
  /// a data set has more classes (Dataset::classes). Without this check a label that is too large fails in the loss,
  /// and on a GPU that makes the device unusable for the process.
  [[nodiscard]] virtual std::int64_t classes() const { return 0; }

  // Facts about the training. They are known once the training has begun: in the steps, and in an optimizer's or a
  // callback's functions meanwhile. Before that, as in the constructor, they throw std::logic_error.
  /// How many optimizer steps are done, over all attempts.
  [[nodiscard]] std::int64_t global_step() const;
  /// The epoch, from 0, of the step that is being made; in a validation that of the last step.
  [[nodiscard]] std::int64_t current_epoch() const;
  /// The job's learning rate in the step that is being made, and after it that of the step before: optimizer.lr times
  /// what lrSchedule and optimizer.lrScaling make of it. Parameter groups with a rate of their own are multiplied by
  /// the same. 0 in a job that does not train.
  [[nodiscard]] double learning_rate() const;
  [[nodiscard]] std::int64_t rank() const;
  [[nodiscard]] std::int64_t world_size() const;
  [[nodiscard]] bool is_global_zero() const { return rank() == 0; }
  /// The device of this instance's parameters and batches: the rank's, unless the strategy is dp or ddp2.
  [[nodiscard]] torch::Device device() const;

  /// The `tensor` of every rank, stacked in rank order: [world size, ...], on the device of `tensor`, without autograd
  /// history. Waits for the other ranks to call, but not for the device.
  ///
  /// May be called where the facts are known, by all ranks alike: in one order, with tensors of equal shape, dtype and
  /// kind of device. Throws std::invalid_argument, naming ranks, where these differ. A call that some rank leaves out
  /// ends the attempt after about three minutes where the launchers see it, else at the deadline of collectives. Some
  /// ranks have no samples in the last batch of a validation: gather in Callback::on_validation_end instead.
  [[nodiscard]] torch::Tensor all_gather(const torch::Tensor& tensor) const;
  /// Stacks each defined tensor of a tree, by one message for all tensors on one device.
  [[nodiscard]] TensorTree all_gather(const TensorTree& tree) const;

  /// The process set `name` of configure_process_sets(), which lives as long as the training. May be called where the
  /// facts are known, on all ranks, by each rank alone; not by the instances of dp and ddp2 in a step, as all_gather().
  /// Throws std::invalid_argument, naming the sets that there are, for another name.
  [[nodiscard]] const ProcessSet& process_set(std::string_view name) const;

  /// Adds the scalar `value` to the metric `name`, without waiting for the device. May be called in training_step,
  /// validation_step and test_step, in the functions that follow them, and by callbacks where their functions say so.
  ///
  /// Throws std::invalid_argument, naming the metric, for a value that is no scalar, for a name that is not one line of
  /// 1 to 200 bytes, for one name with two reductions, and in training for a name that the trainer logs itself: "loss",
  /// "samplesPerSecond", "stepTimes/...", "lr" where the job changes it, "grad_norm" where it clips, and with named
  /// optimizers "NAME_loss", and "NAME_grad_norm" in place of "grad_norm".
  void log(std::string_view name, const torch::Tensor& value, const LogOptions& options = {});
  void log(std::string_view name, double value, const LogOptions& options = {});

  /// Shows `image` as `name` in the job's snapshots (training.snapshots) and TensorBoard files (training.log.files).
  /// Each keeps rank 0's last image of a name since its previous line or snapshot: at most 32 names and 8 MiB in all.
  ///
  /// image: [C, H, W], or [N, C, H, W] for up to 256 images side by side, with 1 (gray) or 3 channels and sides up to
  /// 8192, on any device; uint8, or floats in [0, 1] (others are clamped). `image` may be changed afterwards. Does
  /// not wait for the device. Throws std::invalid_argument for another shape or type, also without snapshots. May be
  /// called in training_step, validation_step, test_step, in the functions that follow them, and in predict_step.
  void log_image(std::string_view name, const torch::Tensor& image);

  /// Sets the source of the facts; nullptr: none. Only the worker calls it.
  void set_rank_context(train::RankContext* context) { rank_context_ = context; }
  /// Sets the sink of log(); nullptr: none. Only the worker calls it.
  void set_metric_sink(observe::MetricSink* sink) { metric_sink_ = sink; }
  [[nodiscard]] observe::MetricSink* metric_sink() const { return metric_sink_; }
  /// Sets the sink of log_image(); nullptr: none. Only the worker calls it.
  void set_image_sink(observe::ImageSink* sink) { image_sink_ = sink; }
  /// Sets the result of optimizer_turn(). Only the worker calls it.
  void set_optimizer_turn(std::string name) { optimizer_turn_ = std::move(name); }

 protected:
  /// The name of the optimizer for which training_step() is to return the loss. Empty when there is only the one of
  /// configure_optimizers(), and outside training steps.
  [[nodiscard]] const std::string& optimizer_turn() const { return optimizer_turn_; }

 private:
  [[nodiscard]] train::RankContext& rank_context() const;

  train::RankContext* rank_context_ = nullptr;
  observe::MetricSink* metric_sink_ = nullptr;
  observe::ImageSink* image_sink_ = nullptr;
  std::string optimizer_turn_;
};

}  // namespace trainyard
