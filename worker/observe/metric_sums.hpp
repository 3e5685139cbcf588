#pragma once

#include <torch/types.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/group/communicator.hpp"
#include "common/result.hpp"
#include "include/trainyard/metrics.hpp"

namespace trainyard::observe {

using MetricValues = std::map<std::string, double>;

/// This rank's metrics since the last reduce(). Sums stay on the values' device, so that add() never waits for it.
class MetricSums {
 public:
  /// `value` is a scalar; `weight` is the size of its batch, for means. Throws std::invalid_argument for a name that
  /// was added with another reduction before.
  void add(std::string_view name, const torch::Tensor& value, double weight, const LogOptions& options);

  /// True once a value of `name` was added, also before the last reduce().
  [[nodiscard]] bool has_seen(std::string_view name) const { return reductions_.contains(name); }

  /// Every metric over all ranks, by one message for all metrics; the ranks need not have the same metrics.
  /// Not-a-number stays in the result. Then clears the sums. Collective; errors of the communicator, and conflict when
  /// another rank sent something else meanwhile.
  [[nodiscard]] Result<MetricValues> reduce(checkpoint::Communicator& communicator);

  struct Reduced {
    MetricValues values;
    std::vector<std::string> notes;  ///< The note of each rank, in rank order.
  };
  /// As reduce(), and sends `note` (one line) with the metrics, so that it costs no message of its own.
  [[nodiscard]] Result<Reduced> reduce_with_note(checkpoint::Communicator& communicator, std::string_view note);

 private:
  struct Sum {
    torch::Tensor value;  // double, scalar; on a device once any value was
    double weight = 0.0;
    LogOptions options;  // of the first value
  };

  [[nodiscard]] std::string encode() const;

  std::map<std::string, Sum, std::less<>> sums_;
  std::map<std::string, Reduce, std::less<>> reductions_;  // of all names that were ever added
};

}  // namespace trainyard::observe
