#pragma once

#include <fmt/format.h>
#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>

#include "include/trainyard/metrics.hpp"
#include "worker/observe/metric_sums.hpp"
#include "worker/observe/step_times.hpp"

namespace trainyard::observe {

/// Takes the metrics that a module logs.
class MetricSink {
 public:
  virtual ~MetricSink() = default;
  /// Sets the size of the batch that the next values belong to.
  virtual void set_batch_size(std::int64_t samples) = 0;
  /// Takes a value of the module. Never waits for the device. Throws std::invalid_argument for a name that is logged
  /// with another reduction too.
  virtual void log(std::string_view name, const torch::Tensor& value, const LogOptions& options) = 0;
  /// Takes a value of the trainer. The module may not use its name.
  virtual void log_own(std::string_view name, const torch::Tensor& value, const LogOptions& options) {
    log(name, value, options);
  }
};

/// Takes a module's metrics while it trains, into the sums since the last log line, the sums of the epoch, or both.
/// Throws std::invalid_argument for a name that the trainer uses itself, whichever of the two logs first.
class TrainingMetrics final : public MetricSink {
 public:
  void set_batch_size(std::int64_t samples) override { weight_ = static_cast<double>(samples); }
  void log(std::string_view name, const torch::Tensor& value, const LogOptions& options) override {
    if (own_.contains(name) || name.starts_with(step_times_prefix)) refuse(name);
    add(name, value, options);
  }
  void log_own(std::string_view name, const torch::Tensor& value, const LogOptions& options) override {
    if (own_.emplace(name).second && (steps_.has_seen(name) || epoch_.has_seen(name))) refuse(name);
    add(name, value, options);
  }

  [[nodiscard]] MetricSums& steps() { return steps_; }
  [[nodiscard]] MetricSums& epoch() { return epoch_; }

 private:
  void add(std::string_view name, const torch::Tensor& value, const LogOptions& options) {
    if (options.on_step) steps_.add(name, value, weight_, options);
    if (options.on_epoch) epoch_.add(name, value, weight_, options);
  }
  [[noreturn]] static void refuse(std::string_view name) {
    throw std::invalid_argument{
        fmt::format("log(\"{}\"): the trainer logs a metric of this name itself; choose another", name)};
  }

  double weight_ = 1.0;
  std::set<std::string, std::less<>> own_{"loss", std::string{speed_metric}};  // names that the trainer uses
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
