#pragma once

#include <torch/types.h>

#include <string_view>

namespace trainyard {

/// How values of several batches and ranks become one.
enum class Reduce {
  mean,  ///< Weighted by the batches' sizes: the mean over samples when each value is a batch's mean.
  sum,
  min,
  max,
};

struct LogOptions {
  Reduce reduce = Reduce::mean;
  bool on_step =
      true;  ///< In the lines of training.log.every, over the steps since the last. In validation without meaning.
  bool on_epoch = false;        ///< In a line at the epoch's end, over the epoch. In validation without meaning.
  bool rank_zero_only = false;  ///< Only rank 0's values count; otherwise all ranks', in one message for all metrics.
};

/// Where a module's metrics go.
class MetricSink {
 public:
  virtual ~MetricSink() = default;
  /// Never waits for the device.
  virtual void log(std::string_view name, const torch::Tensor& value, const LogOptions& options) = 0;
};

}  // namespace trainyard
