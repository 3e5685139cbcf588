#pragma once

#include <torch/types.h>

#include <string_view>

namespace trainyard {

/// How the values of several batches and ranks become one.
enum class Reduce {
  mean,  ///< Weighted by batch size: the mean over all samples when each value is the mean of its batch.
  sum,
  min,
  max,
};

struct LogOptions {
  Reduce reduce = Reduce::mean;
  bool on_step =
      true;  ///< In the lines of training.log.every, over the steps since the last line. Ignored in validation.
  bool on_epoch = false;        ///< In a line at the epoch's end, over the epoch. Ignored in validation.
  bool rank_zero_only = false;  ///< Only rank 0's values are used, instead of all ranks'.
};

/// Takes the metrics that a module logs.
class MetricSink {
 public:
  virtual ~MetricSink() = default;
  /// Never waits for the device.
  virtual void log(std::string_view name, const torch::Tensor& value, const LogOptions& options) = 0;
};

}  // namespace trainyard
