#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string_view>

#include "include/trainyard/metrics.hpp"
#include "worker/observe/metric_sums.hpp"

namespace trainyard::observe {

/// Takes the metrics that a module logs.
class MetricSink {
 public:
  virtual ~MetricSink() = default;
  /// Sets the size of the batch that the next values belong to.
  virtual void set_batch_size(std::int64_t samples) = 0;
  /// Never waits for the device.
  virtual void log(std::string_view name, const torch::Tensor& value, const LogOptions& options) = 0;
};

/// Takes a module's metrics while it trains, into the sums since the last log line, the sums of the epoch, or both.
class TrainingMetrics final : public MetricSink {
 public:
  void set_batch_size(std::int64_t samples) override { weight_ = static_cast<double>(samples); }
  void log(std::string_view name, const torch::Tensor& value, const LogOptions& options) override {
    if (options.on_step) steps_.add(name, value, weight_, options);
    if (options.on_epoch) epoch_.add(name, value, weight_, options);
  }

  [[nodiscard]] MetricSums& steps() { return steps_; }
  [[nodiscard]] MetricSums& epoch() { return epoch_; }

 private:
  double weight_ = 1.0;
  MetricSums steps_;
  MetricSums epoch_;
};

/// Takes a module's metrics during a validation, into sums over the whole validation.
class ValidationMetrics final : public MetricSink {
 public:
  void set_batch_size(std::int64_t samples) override { weight_ = static_cast<double>(samples); }
  void log(std::string_view name, const torch::Tensor& value, const LogOptions& options) override {
    sums_.add(name, value, weight_, options);
  }

  [[nodiscard]] MetricSums& sums() { return sums_; }

 private:
  double weight_ = 1.0;
  MetricSums sums_;
};

}  // namespace trainyard::observe
