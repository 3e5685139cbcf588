#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "worker/observe/metric_sinks.hpp"

namespace trainyard::train {

/// Keeps metrics until they are given to another sink. Used from one thread at a time.
class RecordedMetrics final : public observe::MetricSink {
 public:
  void set_batch_size(std::int64_t /*samples*/) override {}
  void log(std::string_view name, const torch::Tensor& value, const LogOptions& options) override {
    logged_.push_back({.name = std::string{name}, .value = value, .options = options});
  }

  /// Gives all metrics to `sink`, with values on `device`, as those of a batch of `samples`. None are kept.
  void replay(observe::MetricSink& sink, std::int64_t samples, torch::Device device) {
    sink.set_batch_size(samples);
    for (const auto& [name, value, options] : std::exchange(logged_, {}))
      sink.log(name, value.is_cpu() ? value : value.to(device, /*non_blocking=*/true), options);
  }

 private:
  struct Logged {
    std::string name;
    torch::Tensor value;
    LogOptions options;
  };

  std::vector<Logged> logged_;
};

}  // namespace trainyard::train
