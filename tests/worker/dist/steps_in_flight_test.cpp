#include "worker/dist/steps_in_flight.hpp"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <future>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "tests/worker/fakes/device_work.hpp"
#include "tests/worker/fakes/fake_rank_link.hpp"
#include "tests/worker/fakes/late_device.hpp"

namespace trainyard::dist {
namespace {

using fakes::DeviceWork;
using fakes::FakeRankLink;
namespace late_device = fakes::late_device;
using namespace std::chrono_literals;

/// Work on the device's stream that ends when the test says so, at the latest with this object.
class StuckKernel {
 public:
  StuckKernel() {
    late_device::queue([end = end_.get_future().share()] { end.wait(); });
  }
  StuckKernel(const StuckKernel&) = delete;
  ~StuckKernel() {
    if (!has_ended_) end();
  }
  void end() {
    has_ended_ = true;
    end_.set_value();
  }

 private:
  std::promise<void> end_;
  bool has_ended_ = false;
};

c10::intrusive_ptr<DeviceWork> ended_work(const std::exception_ptr& failure = nullptr) {
  auto work = c10::make_intrusive<DeviceWork>();
  work->end(failure);
  return work;
}

/// The beats that were sent when the wait for all steps has looked five times. Then `kernel` ends, and with it the
/// wait.
std::int64_t beats_while_stuck(StepsInFlight& steps, const FakeRankLink& link, StuckKernel& kernel) {
  std::int64_t beats = -1;
  std::jthread other{[&] {
    link.wait_for_looks(5);
    beats = link.beats();
    kernel.end();
  }};
  EXPECT_TRUE(steps.finish());
  other.join();
  return beats;
}

TEST(StepsInFlight, QueuesStepsAheadOfTheDeviceAndWaitsForTheOldestWhenThereAreTooMany) {
  FakeRankLink link;
  StepsInFlight steps{late_device::device(), link, 1min, /*steps_max=*/3};
  StuckKernel kernel;
  for (int step = 0; step < 3; ++step) {
    ASSERT_TRUE(steps.follow(ended_work(), "the sum"));
    ASSERT_TRUE(steps.end_step()) << "returns although the device is stuck";
  }
  bool was_stuck = true;
  std::jthread other{[&] {
    link.wait_for_looks(3);
    was_stuck = false;
    kernel.end();
  }};
  ASSERT_TRUE(steps.end_step());
  other.join();
  EXPECT_FALSE(was_stuck);
}

TEST(StepsInFlight, NeitherWaitsNorBlocksWhileTheDeviceKeepsUp) {
  FakeRankLink link;
  StepsInFlight steps{late_device::device(), link, 1min, /*steps_max=*/2};
  const int before = late_device::blocking_calls();
  for (int step = 0; step < 20; ++step) {
    ASSERT_TRUE(steps.follow(ended_work(), "the sum"));
    ASSERT_TRUE(steps.end_step());
  }
  EXPECT_EQ(late_device::blocking_calls(), before);
}

TEST(StepsInFlight, BeatsOnlyOnceThisRanksOwnPartOfTheOldestStepIsDone) {
  const auto work = c10::make_intrusive<DeviceWork>();
  FakeRankLink link;
  StepsInFlight steps{late_device::device(), link, 1min};
  StuckKernel kernel;
  ASSERT_TRUE(steps.follow(work, "the sum"));
  ASSERT_TRUE(steps.end_step());
  // A later step, whose collective this rank has not reached either.
  ASSERT_TRUE(steps.follow(ended_work(), "the next sum"));
  std::int64_t beats_while_stuck = -1;
  std::jthread other{[&] {
    link.wait_for_looks(5);
    beats_while_stuck = link.beats();
    kernel.end();
    while (link.beats() == 0) std::this_thread::yield();
    work->end();
  }};
  EXPECT_TRUE(steps.finish());
  other.join();
  EXPECT_EQ(beats_while_stuck, 0);
  EXPECT_FALSE(steps.waits_for_others()) << "nothing is queued";
}

TEST(StepsInFlight, BeatsForATrainingThreadThatTheDriverLetsWait) {
  const auto work = c10::make_intrusive<DeviceWork>();
  FakeRankLink link;
  StepsInFlight steps{late_device::device(), link, 1min};
  ASSERT_TRUE(steps.follow(work, "the sum"));
  ASSERT_TRUE(steps.end_step());
  while (link.beats() == 0) std::this_thread::yield();
  work->end();
  ASSERT_TRUE(steps.finish());
}

TEST(StepsInFlight, SendsNoBeatsForAStepOfThisRankAlone) {
  FakeRankLink link;
  StepsInFlight steps{late_device::device(), link, 1min};
  StuckKernel kernel;
  ASSERT_TRUE(steps.end_step());
  EXPECT_FALSE(steps.waits_for_others());
  EXPECT_EQ(beats_while_stuck(steps, link, kernel), 0);
}

TEST(StepsInFlight, FallsSilentWhereAKernelIsStuckAfterTheStepsLastCollective) {
  FakeRankLink link;
  StepsInFlight steps{late_device::device(), link, 1min};
  ASSERT_TRUE(steps.follow(ended_work(), "the sum"));
  late_device::wait();  // Until then the step waits for the sum.
  StuckKernel kernel;
  ASSERT_TRUE(steps.end_step());
  EXPECT_EQ(beats_while_stuck(steps, link, kernel), 0);
}

TEST(StepsInFlight, WaitsForNobodyWhereTheTrainingThreadDoesNotEndAStepWhoseCollectiveIsDone) {
  FakeRankLink link;
  StepsInFlight steps{late_device::device(), link, 1min};
  const auto work = c10::make_intrusive<DeviceWork>();
  ASSERT_TRUE(steps.follow(work, "the sum"));
  while (!steps.waits_for_others()) std::this_thread::yield();
  work->end();
  late_device::wait();
  EXPECT_FALSE(steps.waits_for_others());
}

TEST(StepsInFlight, BeatsAfterEachOfTheStepsThatItFinishes) {
  FakeRankLink link;
  StepsInFlight steps{late_device::device(), link, 1min};
  for (int step = 0; step < 4; ++step) ASSERT_TRUE(steps.end_step());
  EXPECT_EQ(link.beats(), 0);
  ASSERT_TRUE(steps.finish());
  EXPECT_EQ(link.beats(), 5) << "with the step of what came after the last end";
}

TEST(StepsInFlight, FinishesOnlyOnceWhatWasQueuedAfterTheLastStepIsDone) {
  FakeRankLink link;
  StepsInFlight steps{late_device::device(), link, 1min};
  ASSERT_TRUE(steps.end_step());
  bool is_done = false;
  StuckKernel kernel;
  late_device::queue([&] { is_done = true; });
  std::jthread other{[&] {
    link.wait_for_looks(3);
    kernel.end();
  }};
  ASSERT_TRUE(steps.finish());
  EXPECT_TRUE(is_done);
  other.join();
}

TEST(StepsInFlight, ThrowsALateFailureOfThisRanksOwnAndReportsALostConnection) {
  const auto finish_after = [](const std::exception_ptr& failure) {
    FakeRankLink link;
    StepsInFlight steps{late_device::device(), link, 1min};
    EXPECT_TRUE(steps.follow(ended_work(), "the first sum"));
    EXPECT_TRUE(steps.follow(ended_work(failure), "the second sum")) << "the failure is seen later";
    EXPECT_TRUE(steps.end_step());
    return steps.finish();
  };
  const c10::SourceLocation place{"f", "f.cpp", 1};
  for (const std::int32_t code : {214, 700}) {
    const auto failure = std::make_exception_ptr(c10::AcceleratorError{place, code, "CUDA error: some words"});
    EXPECT_THROW(std::ignore = finish_after(failure), c10::AcceleratorError) << code;
  }
  const auto lost =
      finish_after(std::make_exception_ptr(std::runtime_error{"ncclRemoteError: A call failed.\nmore words"}));
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().kind, ErrorKind::unavailable);
  EXPECT_EQ(lost.error().message, "the second sum failed: ncclRemoteError: A call failed.");
}

TEST(StepsInFlight, EndsTheWaitWhenTheGroupIsBrokenOrTheDeadlineHasPassed) {
  const auto work = c10::make_intrusive<DeviceWork>();
  {
    FakeRankLink link;
    link.break_group({.exit_code = 90, .reason = "PeerLost", .message = "rank 3 is lost", .culprit = {}});
    StepsInFlight steps{late_device::device(), link, 1min};
    ASSERT_TRUE(steps.follow(work, "the sum"));
    const auto done = steps.finish();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().kind, ErrorKind::cancelled);
    EXPECT_EQ(done.error().message, "the sum was given up: rank 3 is lost");
  }
  work->end();
  late_device::wait();
  FakeRankLink link;
  StepsInFlight steps{late_device::device(), link, 0ms};
  const StuckKernel kernel;
  const auto done = steps.finish();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().kind, ErrorKind::timeout);
  EXPECT_EQ(done.error().message, "a step on the device was not done after 0 s: this rank's own device is not done");
}

TEST(StepsInFlight, WaitsWithoutEndWhereThereIsNoDeadline) {
  FakeRankLink link;
  StepsInFlight steps{late_device::device(), link, std::nullopt};
  StuckKernel kernel;
  ASSERT_TRUE(steps.end_step());
  std::jthread other{[&] {
    link.wait_for_looks(3);
    kernel.end();
  }};
  EXPECT_TRUE(steps.finish());
}

/// A collective on the host that ends when the test says so.
class HostWork final : public c10d::Work {
 public:
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future; }

  c10::intrusive_ptr<c10::ivalue::Future> future = c10::make_intrusive<c10::ivalue::Future>(c10::NoneType::get());
};

TEST(StepsInFlight, WaitsForACollectiveOnTheHostAtOnce) {
  FakeRankLink link;
  StepsInFlight steps{late_device::device(), link, 1min};
  const auto work = c10::make_intrusive<HostWork>();
  work->future->setError(std::make_exception_ptr(std::runtime_error{"Connection closed by peer"}));
  const auto done = steps.follow(work, "the flags");
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message, "the flags failed: Connection closed by peer");
}

TEST(StepsInFlight, BeatsInAWaitOnTheHostOnlyOnceTheDeviceWaitsForOthersOrHasDoneEverything) {
  for (const bool waits_on_device : {false, true}) {
    FakeRankLink link;
    StepsInFlight steps{late_device::device(), link, 1min};
    StuckKernel kernel;
    const auto sum = c10::make_intrusive<DeviceWork>();
    if (!waits_on_device) sum->end();
    ASSERT_TRUE(steps.follow(sum, "the sum"));
    const auto flags = c10::make_intrusive<HostWork>();
    std::int64_t beats_while_stuck = -1;
    std::jthread other{[&] {
      link.wait_for_looks(3);
      beats_while_stuck = link.beats();
      kernel.end();
      while (link.beats() == 0) std::this_thread::yield();
      flags->future->markCompleted();
    }};
    EXPECT_TRUE(steps.follow(flags, "the flags"));
    other.join();
    EXPECT_EQ(beats_while_stuck, 0);
    if (waits_on_device) sum->end();
    EXPECT_TRUE(steps.finish());
  }
}

}  // namespace
}  // namespace trainyard::dist
