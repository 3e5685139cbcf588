#include "worker/dist/wait_or_fail.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>

#include "tests/worker/fakes/fake_rank_link.hpp"

namespace trainyard::dist {
namespace {

using fakes::FakeRankLink;
using testing::HasSubstr;
using namespace std::chrono_literals;

/// A collective on CPU tensors that ends when the test says so.
class HandWork final : public c10d::Work {
 public:
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  void finish() { future_->markCompleted(c10::IValue{}); }
  void break_down() { future_->setError(std::make_exception_ptr(std::runtime_error{"[pair.cc:1] Connection closed"})); }

 private:
  c10::intrusive_ptr<c10::ivalue::Future> future_ = c10::make_intrusive<c10::ivalue::Future>(c10::NoneType::get());
};

rank::RankEnd lost_rank_3() {
  return {.exit_code = 90, .reason = "PeerLost", .message = "rank 3 is lost", .culprit = 3};
}

TEST(WaitOrFail, ReturnsWhenTheWorkIsDone) {
  const auto work = c10::make_intrusive<HandWork>();
  FakeRankLink link;
  std::jthread other{[&] { work->finish(); }};
  EXPECT_TRUE(wait_or_fail(work, link, 1min, "the sum"));
}

TEST(WaitOrFail, SaysWhatFailed) {
  const auto work = c10::make_intrusive<HandWork>();
  FakeRankLink link;
  work->break_down();
  const auto done = wait_or_fail(work, link, 1min, "the sum");
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().kind, ErrorKind::unavailable);
  EXPECT_EQ(done.error().message, "the sum failed: Connection closed");
}

/// A collective that has no future, as one of a backend that has failed.
class LostWork final : public c10d::Work {
 public:
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    throw std::runtime_error{"[pair.cc:1] Connection closed\nmore"};
  }
};

TEST(WaitOrFail, TakesACollectiveThatCannotBeWaitedForForALostOne) {
  FakeRankLink link;
  const auto done = wait_or_fail(c10::make_intrusive<LostWork>(), link, 1min, "the sum");
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().kind, ErrorKind::unavailable);
  EXPECT_EQ(done.error().message, "the sum failed: Connection closed");
}

TEST(WaitOrFail, EndsWithTheGroup) {
  const auto work = c10::make_intrusive<HandWork>();
  FakeRankLink link;
  std::jthread launcher{[&] { link.break_group(lost_rank_3()); }};
  const auto done = wait_or_fail(work, link, 1min, "the sum");
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().kind, ErrorKind::cancelled);
  EXPECT_EQ(done.error().message, "the sum was given up: rank 3 is lost");
}

TEST(WaitOrFail, EndsAtItsDeadlineThoughNobodyReportedAFailure) {
  const auto work = c10::make_intrusive<HandWork>();
  FakeRankLink link;
  testing::internal::CaptureStderr();
  const auto done = wait_or_fail(work, link, 100ms, "the sum");
  const std::string log = testing::internal::GetCapturedStderr();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().kind, ErrorKind::timeout);
  EXPECT_EQ(done.error().message,
            "the sum was not done after 0 s: a rank did not take part; compare waitsIn in the logs of all ranks, which "
            "must be the same");
  EXPECT_THAT(log, HasSubstr("this rank waits for another"));
  EXPECT_THAT(log, HasSubstr("the sum"));
  EXPECT_EQ(log.find("this rank waits"), log.rfind("this rank waits")) << "logged once";
}

TEST(WaitOrFail, LogsNoLongWaitOfABackgroundThread) {
  const auto work = c10::make_intrusive<HandWork>();
  FakeRankLink link;
  rank::SilentLink silent{link};
  testing::internal::CaptureStderr();
  EXPECT_FALSE(wait_or_fail(work, silent, 100ms, "the sum"));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "a save may take one rank longer than another";
}

TEST(WaitOrFail, CountsAWaitFromTheEndOfThisRanksOwnWork) {
  const auto work = c10::make_intrusive<HandWork>();
  FakeRankLink link;
  const auto begin = std::chrono::steady_clock::now();
  int looks_at_others = 0;
  testing::internal::CaptureStderr();
  EXPECT_TRUE(wait_or_fail(work, link, 2s, "the sum", [&] {
    if (std::chrono::steady_clock::now() - begin < 1100ms) return false;
    if (++looks_at_others == 2) work->finish();
    return true;
  }));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "it has waited for others for a moment";
}

TEST(WaitOrFail, TellsTheLauncherOfALongWaitUntilItEnds) {
  const auto work = c10::make_intrusive<HandWork>();
  FakeRankLink link;
  EXPECT_FALSE(wait_or_fail(work, link, 100ms, "the sum"));
  EXPECT_EQ(link.long_waits(), (std::vector<std::string>{"the sum", ""}));

  FakeRankLink of_own_work;
  EXPECT_FALSE(wait_or_fail(work, of_own_work, 100ms, "the sum", [] { return false; }));
  EXPECT_EQ(of_own_work.long_waits(), std::vector<std::string>{}) << "it waits for itself";

  FakeRankLink of_both;
  std::vector<std::string> told;  // while the wait goes on
  EXPECT_FALSE(wait_or_fail(work, of_both, 400ms, "the sum", [&] {
    told = of_both.long_waits();
    return told.empty();
  }));
  EXPECT_EQ(told, (std::vector<std::string>{"the sum", ""})) << "its own work goes on";
}

TEST(WaitOrFail, SendsNoBeatWhileThisRanksOwnWorkIsNotDone) {
  const auto work = c10::make_intrusive<HandWork>();
  FakeRankLink link;
  testing::internal::CaptureStderr();
  const auto done = wait_or_fail(work, link, 100ms, "the sum", [] { return false; });
  const std::string log = testing::internal::GetCapturedStderr();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message, "the sum was not done after 0 s: this rank's own device is not done");
  EXPECT_EQ(link.beats(), 0) << "they would hide which rank hangs";
  EXPECT_EQ(log, "") << "it waits for nobody";
  (void)wait_or_fail(work, link, 100ms, "the sum", [] { return true; });
  EXPECT_GT(link.beats(), 0);
}

}  // namespace
}  // namespace trainyard::dist
