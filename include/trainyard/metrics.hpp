#pragma once

namespace trainyard {

/// How the values of several batches and ranks become one.
enum class Reduce {
  mean,  ///< Weighted by batch size: the mean over all samples when each value is the mean of its batch.
  sum,
  min,
  max,
};

/// A metric is always reduced over all ranks, by one message for all metrics of a line.
struct LogOptions {
  Reduce reduce = Reduce::mean;
  /// In the lines of training.log.every, over the steps since the last line. Ignored in validation.
  bool on_step = true;
  bool on_epoch = false;        ///< In a line at the epoch's end, over the epoch. Ignored in validation.
  bool rank_zero_only = false;  ///< Only rank 0's values are used, instead of all ranks'.
};

}  // namespace trainyard
