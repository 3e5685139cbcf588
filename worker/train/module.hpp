#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "api/training_spec.hpp"
#include "common/result.hpp"
#include "worker/data/data_source.hpp"
#include "worker/data/dataset.hpp"
#include "worker/dist/group.hpp"
#include "worker/observe/images.hpp"
#include "worker/observe/metrics.hpp"
#include "worker/strategy/gradient_sync.hpp"
#include "worker/strategy/wait_for_work.hpp"
#include "worker/train/optimizer.hpp"

namespace trainyard {

/// The result of training_step, and the argument of training_step_end: a loss, and any other values.
struct StepOutput {
  StepOutput() = default;
  StepOutput(torch::Tensor loss) : loss{std::move(loss)} {}  // implicit: `return cross_entropy(...)` is the usual step

  torch::Tensor loss;  ///< Scalar. May be undefined if training_step_end computes the loss from `values`.
  std::map<std::string, torch::Tensor> values;
};

/// A model and how it is trained. Derive from it, register the layers as in any torch::nn::Module, and pass the class
/// to TRAINYARD_MAIN. The worker calls the functions below from one thread. An exception ends the rank, with what() as
/// the job's message.
class Module : public torch::nn::Module {
 public:
  /// Returns the loss of one batch, with its autograd history. The module is in training mode, except for parts that it
  /// has put into evaluation mode itself. `batch_index` is the batch's number in the epoch, from 0.
  ///
  /// Only the optimizer should change parameters. A training_step that changes them in place makes each save block
  /// training for the copy, and the first checkpoint may be missed; it must never change them through data().
  [[nodiscard]] virtual StepOutput training_step(const Batch& batch, std::int64_t batch_index) = 0;
  /// Returns the loss for backward(): `output.loss` unless overridden.
  [[nodiscard]] virtual torch::Tensor training_step_end(StepOutput output);

  /// Logs the metrics of one batch of the validation set, in evaluation mode and without gradients. The job's status
  /// shows "val_loss" and "val_accuracy". Each metric's mean is over all samples, each exactly once. Without an
  /// override nothing is validated.
  virtual void validation_step(const Batch& batch, std::int64_t batch_index);

  /// Makes the optimizer: that of `spec` unless overridden.
  [[nodiscard]] virtual std::unique_ptr<Optimizer> configure_optimizers(const api::OptimizerSpec& spec);

  /// Opens the training set: the data that `source` describes unless overridden. Every rank must get the same samples
  /// in the same order.
  [[nodiscard]] virtual Result<std::unique_ptr<Dataset>> train_dataset(const DataSource& source);
  /// Opens the validation set; nullptr: there is none.
  [[nodiscard]] virtual Result<std::unique_ptr<Dataset>> validation_dataset(const DataSource& source);

  /// Forms the group with the other ranks: dist::form_group unless overridden.
  [[nodiscard]] virtual Result<dist::Group> form_group(const rank::GroupEnvironment& environment, rank::RankLink& link,
                                                       const dist::GroupOptions& options);
  /// Makes the strategy by which the ranks' gradients become one: DDP unless overridden. `group` outlives the result.
  [[nodiscard]] virtual std::unique_ptr<strategy::GradientSync> configure_gradient_sync(dist::Group& group,
                                                                                        strategy::WaitForWork wait);

  /// Sets the sink of log(); nullptr: none. Only the worker calls it.
  void set_metric_sink(MetricSink* sink) { metric_sink_ = sink; }
  [[nodiscard]] MetricSink* metric_sink() const { return metric_sink_; }
  /// Sets the sink of log_image(); nullptr: none. Only the worker calls it.
  void set_image_sink(ImageSink* sink) { image_sink_ = sink; }

 protected:
  /// Adds the scalar `value` to the metric `name`, without waiting for the device. May be called in training_step,
  /// training_step_end and validation_step.
  void log(std::string_view name, const torch::Tensor& value, const LogOptions& options = {});
  void log(std::string_view name, double value, const LogOptions& options = {});

  /// Shows `image` as `name` in the job's snapshots (training.snapshots). A snapshot keeps rank 0's last image of each
  /// name since the previous snapshot, of up to 32 names and 8 MiB in all; a warning names the first image beyond that.
  ///
  /// image: [C, H, W], or [N, C, H, W] for up to 256 images side by side, with 1 (gray) or 3 channels and sides up to
  /// 8192, on any device; uint8, or floats in [0, 1] (others are clamped). It may be changed afterwards. Does not wait
  /// for the device. Throws std::invalid_argument for another shape or type, also without snapshots. May be called in
  /// training_step, training_step_end and validation_step.
  void log_image(std::string_view name, const torch::Tensor& image);

 private:
  MetricSink* metric_sink_ = nullptr;
  ImageSink* image_sink_ = nullptr;
};

}  // namespace trainyard
