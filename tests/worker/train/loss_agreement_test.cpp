#include "worker/train/loss_agreement.hpp"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <exception>
#include <string_view>

#include "tests/worker/fakes/broken_group.hpp"
#include "tests/worker/fakes/late_device.hpp"

namespace trainyard::train {
namespace {

Result<void> send(torch::Device device, const std::exception_ptr& failure) {
  LossAgreement losses{c10::make_intrusive<fakes::BrokenGroup>(failure),
                       [](const c10::intrusive_ptr<c10d::Work>&, std::string_view) { return Result<void>{}; }, device};
  losses.begin(torch::ones({}).to(device));
  return losses.finish();
}

TEST(LossAgreement, ThrowsWhatThisRanksOwnDeviceReportsAndNotWhatALostPeerDoes) {
  const c10::SourceLocation place{"f", "f.cpp", 1};
  const auto of_device = std::make_exception_ptr(c10::AcceleratorError{place, 214, "CUDA error: uncorrectable ECC"});
  const auto of_peer = std::make_exception_ptr(c10::DistBackendError{place, "ncclRemoteError: A call failed."});
  EXPECT_THROW((void)send(fakes::late_device::device(), of_device), c10::AcceleratorError);
  for (const auto device : {fakes::late_device::device(), torch::Device{torch::kCPU}}) {
    const auto lost = send(device, of_peer);
    ASSERT_FALSE(lost);
    EXPECT_EQ(lost.error().kind, ErrorKind::unavailable);
    EXPECT_EQ(lost.error().message, "sending the step's loss: ncclRemoteError: A call failed.");
  }
}

}  // namespace
}  // namespace trainyard::train
