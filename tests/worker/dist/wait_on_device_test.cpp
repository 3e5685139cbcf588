#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <future>
#include <stdexcept>
#include <string>
#include <thread>

#include "tests/worker/fakes/device_work.hpp"
#include "tests/worker/fakes/fake_rank_link.hpp"
#include "tests/worker/fakes/late_device.hpp"
#include "worker/dist/wait_or_fail.hpp"

namespace trainyard::dist {
namespace {

using fakes::DeviceWork;
using fakes::FakeRankLink;
namespace late_device = fakes::late_device;
using namespace std::chrono_literals;

TEST(WaitOnDevice, SendsNoBeatsWhileThisRanksOwnWorkIsStuckAndSomeOnceItIsDone) {
  const auto work = c10::make_intrusive<DeviceWork>();
  FakeRankLink link;
  std::promise<void> kernel_may_end;
  late_device::queue([end = kernel_may_end.get_future().share()] { end.wait(); });
  std::int64_t beats_while_stuck = -1;
  std::jthread other{[&] {
    link.wait_for_looks(5);
    beats_while_stuck = link.beats();
    kernel_may_end.set_value();
    while (link.beats() == 0) std::this_thread::yield();
    work->end();
  }};
  EXPECT_TRUE(wait_or_fail(work, link, 1min, "the sum"));
  other.join();
  EXPECT_EQ(beats_while_stuck, 0);
}

TEST(WaitOnDevice, ThrowsAFailureOfThisRanksOwnAndReportsALostConnection) {
  const auto wait_for = [](const std::exception_ptr& failure) {
    const auto work = c10::make_intrusive<DeviceWork>();
    work->end(failure);
    FakeRankLink link;
    return wait_or_fail(work, link, 1min, "the sum");
  };
  const c10::SourceLocation place{"f", "f.cpp", 1};
  for (const std::int32_t code : {214, 700}) {
    const auto failure = std::make_exception_ptr(c10::AcceleratorError{place, code, "CUDA error: some words"});
    EXPECT_THROW(std::ignore = wait_for(failure), c10::AcceleratorError) << code;
  }
  const auto lost = wait_for(std::make_exception_ptr(
      std::runtime_error{"NCCL error in: f.cpp:1, remote process exited\nncclRemoteError: A call failed.\nLast "
                         "error:\nConnection closed by remote peer 10.0.0.7"}));
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().kind, ErrorKind::unavailable);
  EXPECT_EQ(lost.error().message,
            "the sum failed: NCCL error in: f.cpp:1, remote process exited: Connection closed by remote peer 10.0.0.7");
}

}  // namespace
}  // namespace trainyard::dist
