#include "worker/dist/wait_or_fail.hpp"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <stdexcept>

#include "tests/worker/fakes/fake_rank_link.hpp"

namespace trainyard::dist {
namespace {

using fakes::FakeRankLink;
using namespace std::chrono_literals;

/// A call that blocks until the test ends.
class BlockedCall {
 public:
  BlockedCall() = default;
  BlockedCall(const BlockedCall&) = delete;
  BlockedCall& operator=(const BlockedCall&) = delete;
  ~BlockedCall() { end_->set_value(); }

  [[nodiscard]] std::function<int()> call() const {
    return [end = end_] {
      end->get_future().wait();
      return 1;
    };
  }

 private:
  std::shared_ptr<std::promise<void>> end_ = std::make_shared<std::promise<void>>();
};

TEST(CallOrGiveUp, GivesTheResultOrThrowsWhatTheCallThrows) {
  const FakeRankLink link;
  EXPECT_EQ(*call_or_give_up<int>([] { return 7; }, link, 1min, "counting"), 7);
  const auto throwing = [&] {
    return call_or_give_up<int>([]() -> int { throw std::out_of_range{"too far"}; }, link, 1min, "counting");
  };
  EXPECT_THROW(std::ignore = throwing(), std::out_of_range);
  const auto throwing_a_number = [&] { return call_or_give_up<int>([]() -> int { throw 7; }, link, 1min, "counting"); };
  EXPECT_THROW(std::ignore = throwing_a_number(), int);
}

TEST(CallOrGiveUp, GivesUpAtItsDeadlineThoughTheCallBlocks) {
  const BlockedCall blocked;
  const FakeRankLink link;
  const auto done = call_or_give_up<int>(blocked.call(), link, 30ms, "connecting");
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().kind, ErrorKind::timeout);
  EXPECT_EQ(done.error().message, "connecting was not done after 0 s");
}

TEST(CallOrGiveUp, GivesUpWhenAskedToStop) {
  const BlockedCall blocked;
  FakeRankLink link;
  link.request_stop();
  const auto done = call_or_give_up<int>(blocked.call(), link, 1min, "connecting");
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().kind, ErrorKind::cancelled);
  EXPECT_EQ(done.error().message, "asked to stop during connecting");
}

TEST(CallOrGiveUp, GivesUpWithTheGroup) {
  const BlockedCall blocked;
  FakeRankLink link;
  std::jthread launcher{[&] {
    link.wait_for_looks(1);
    link.break_group({.exit_code = 90, .reason = "PeerLost", .message = "rank 3 is lost", .culprit = 3});
  }};
  const auto done = call_or_give_up<int>(blocked.call(), link, 1min, "connecting");
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().kind, ErrorKind::cancelled);
  EXPECT_EQ(done.error().message, "connecting was given up: rank 3 is lost");
}

}  // namespace
}  // namespace trainyard::dist
