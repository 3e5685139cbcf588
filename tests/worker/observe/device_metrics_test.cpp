#include <gtest/gtest.h>
#include <torch/types.h>

#include <tuple>

#include "tests/worker/fakes/late_device.hpp"
#include "worker/observe/metric_sums.hpp"

namespace trainyard::observe {
namespace {

torch::Tensor scalar(double value) {
  return torch::tensor(value);
}

TEST(MetricSums, TakeNumbersOfTheHostBesideThoseOfADevice) {
  const torch::Tensor on_device = scalar(3.0).to(fakes::late_device::device());
  checkpoint::SingleCommunicator alone;
  MetricSums sums;
  sums.add("loss", on_device, 1.0, {});
  sums.add("learning rate", scalar(0.5), 1.0, {});
  // One metric gets values on the host and on the device alternately.
  for (const auto& [name, reduce, first, second] :
       {std::tuple{"mean", Reduce::mean, on_device, scalar(1.0)},
        std::tuple{"sum", Reduce::sum, scalar(1.0), on_device}, std::tuple{"min", Reduce::min, on_device, scalar(1.0)},
        std::tuple{"max", Reduce::max, scalar(1.0), on_device}}) {
    sums.add(name, first, 1.0, {.reduce = reduce});
    sums.add(name, second, 1.0, {.reduce = reduce});
  }
  EXPECT_EQ(
      *sums.reduce(alone),
      (MetricValues{{"loss", 3.0}, {"learning rate", 0.5}, {"mean", 2.0}, {"sum", 4.0}, {"min", 1.0}, {"max", 3.0}}));
}

}  // namespace
}  // namespace trainyard::observe
