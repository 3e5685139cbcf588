#pragma once

#include <torch/types.h>

#include <string_view>

#include "include/trainyard/metrics.hpp"

namespace trainyard::observe {

/// Takes the metrics that a module logs.
class MetricSink {
 public:
  virtual ~MetricSink() = default;
  /// Never waits for the device.
  virtual void log(std::string_view name, const torch::Tensor& value, const LogOptions& options) = 0;
};

}  // namespace trainyard::observe
