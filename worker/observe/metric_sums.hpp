#pragma once

#include <torch/types.h>

#include <map>
#include <string>
#include <string_view>

#include "checkpoint/group/communicator.hpp"
#include "common/result.hpp"
#include "worker/observe/metrics.hpp"

namespace trainyard::observe {

using MetricValues = std::map<std::string, double>;

/// Metrics of this rank since they were last reduced. Sums stay on the values' device, so that adding never waits for
/// it.
class MetricSums {
 public:
  /// `value` is a scalar; `weight` is that of its batch, for means. A name keeps the options it came with first.
  void add(std::string_view name, const torch::Tensor& value, double weight, const LogOptions& options);

  /// Every metric over all ranks, in one message however many there are; ranks need not have the same. Not-a-number
  /// stays what it is. Begins afresh. Collective; errors of the communicator.
  [[nodiscard]] Result<MetricValues> reduce(checkpoint::Communicator& communicator);

 private:
  struct Sum {
    torch::Tensor value;  // double, scalar; on a device once any value was
    double weight = 0.0;
    LogOptions options;
  };

  [[nodiscard]] std::string encode() const;

  std::map<std::string, Sum, std::less<>> sums_;
};

}  // namespace trainyard::observe
