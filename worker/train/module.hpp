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

/// What training_step hands to training_step_end: a loss, and whatever else that needs.
struct StepOutput {
  StepOutput() = default;
  StepOutput(torch::Tensor loss) : loss{std::move(loss)} {}  // implicit: `return cross_entropy(...)` is the usual step

  torch::Tensor loss;  ///< Scalar. May be left out by a model whose training_step_end computes it from `values`.
  std::map<std::string, torch::Tensor> values;
};

/// A model and how it is trained. Derive, register the layers as in any torch::nn::Module, and give the class to
/// TRAINYARD_MAIN. The worker calls the functions below from one thread; what they throw ends the rank with what() as
/// the job's message.
class Module : public torch::nn::Module {
 public:
  /// The loss of one batch, with its history for backward(). The module is in training mode, but for parts of it that
  /// it has put into evaluation mode itself (a BatchNorm that is to stay as it is). `batch_index` counts in the epoch.
  /// Parameters change in the optimizer's step: one that changes them here too, in place, never through data(), makes
  /// every checkpoint hold training up for the copy, and may cost the first one.
  [[nodiscard]] virtual StepOutput training_step(const Batch& batch, std::int64_t batch_index) = 0;
  /// The loss that backward() begins at: `output.loss` unless overridden.
  [[nodiscard]] virtual torch::Tensor training_step_end(StepOutput output);

  /// Logs what is to be known of one batch of the validation set, in evaluation mode and without gradients. "val_loss"
  /// and "val_accuracy" are shown in the job's status; each metric's mean is over all samples, exactly once each.
  /// Without an override nothing is validated.
  virtual void validation_step(const Batch& batch, std::int64_t batch_index);

  /// The optimizer of `spec` unless overridden.
  [[nodiscard]] virtual std::unique_ptr<Optimizer> configure_optimizers(const api::OptimizerSpec& spec);

  /// The data that `source` describes unless overridden. Every rank must get the same samples in the same order.
  [[nodiscard]] virtual Result<std::unique_ptr<Dataset>> train_dataset(const DataSource& source);
  /// nullptr: there is nothing to validate on.
  [[nodiscard]] virtual Result<std::unique_ptr<Dataset>> validation_dataset(const DataSource& source);

  /// Meets the other ranks: dist::form_group unless overridden.
  [[nodiscard]] virtual Result<dist::Group> form_group(const rank::GroupEnvironment& environment, rank::RankLink& link,
                                                       const dist::GroupOptions& options);
  /// How the ranks' gradients become one: DDP unless overridden. `group` and `wait` outlive the result.
  [[nodiscard]] virtual std::unique_ptr<strategy::GradientSync> configure_gradient_sync(dist::Group& group,
                                                                                        strategy::WaitForWork wait);

  /// Where log() goes; nullptr: nowhere. The worker's business.
  void set_metric_sink(MetricSink* sink) { metric_sink_ = sink; }
  [[nodiscard]] MetricSink* metric_sink() const { return metric_sink_; }
  /// Where log_image() goes; nullptr: nowhere.
  void set_image_sink(ImageSink* sink) { image_sink_ = sink; }

 protected:
  /// Adds `value` (a scalar, without waiting for the device) to the metric `name`. From training_step,
  /// training_step_end, validation_step.
  void log(std::string_view name, const torch::Tensor& value, const LogOptions& options = {});
  void log(std::string_view name, double value, const LogOptions& options = {});

  /// Shows `image` as `name` in the job's snapshots (training.snapshots): the last of each name since the snapshot
  /// before, of rank 0 alone; of up to 32 names and 8 MiB together, as a warning tells. [C, H, W], or [N, C, H, W] for
  /// up to 256 images side by side, with 1 (gray) or 3 channels and sides up to 8192, on any device: uint8, or floats
  /// in [0, 1], of which what is outside is cut off. The tensor may be changed afterwards. Does not wait for the
  /// device. Throws std::invalid_argument, which names the image, for another shape or type, whether or not there are
  /// snapshots. From training_step, training_step_end, validation_step.
  void log_image(std::string_view name, const torch::Tensor& image);

 private:
  MetricSink* metric_sink_ = nullptr;
  ImageSink* image_sink_ = nullptr;
};

}  // namespace trainyard
