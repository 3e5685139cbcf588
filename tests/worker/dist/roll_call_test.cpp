#include "worker/dist/rendezvous.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "tests/worker/fakes/fake_rank_link.hpp"

namespace trainyard::dist {
namespace {

using fakes::FakeRankLink;
using namespace std::chrono_literals;

/// A lost store: every call throws.
class LostStore final : public c10d::HashStore {
 public:
  void set(const std::string& /*key*/, const std::vector<std::uint8_t>& /*data*/) override {
    throw std::runtime_error{"Connection reset by peer"};
  }
};

TEST(AnswerRollCall, ReturnsOnEveryRankOnceAllHaveCalled) {
  c10d::HashStore store;
  std::vector<Result<void>> met(3, fail(ErrorKind::timeout, "not called"));
  {
    std::vector<std::jthread> ranks;
    for (std::size_t rank = 0; rank < 3; ++rank) {
      ranks.emplace_back([&, rank] {
        FakeRankLink link;
        met[rank] = answer_roll_call(store, {.rank = static_cast<std::int64_t>(rank), .world_size = 3}, link);
      });
    }
  }
  for (const auto& result : met) EXPECT_TRUE(result) << result.error().message;
}

TEST(AnswerRollCall, NamesTheRanksThatHaveNotComeAtItsDeadline) {
  c10d::HashStore store;
  FakeRankLink link;
  const auto met = answer_roll_call(store, {.rank = 1, .world_size = 3, .deadline = 20ms}, link);
  ASSERT_FALSE(met);
  EXPECT_EQ(met.error().kind, ErrorKind::timeout);
  EXPECT_EQ(met.error().message.find("the group did not come together: ranks 0 and 2 of 3 have not come ("), 0U)
      << met.error().message;
}

TEST(AnswerRollCall, EndsWithTheGroupAndSaysWhatBrokeIt) {
  c10d::HashStore store;
  FakeRankLink link;
  link.break_group({.exit_code = 90, .reason = "PeerLost", .message = "rank 0 is lost", .culprit = 0});
  const auto met = answer_roll_call(store, {.rank = 1, .world_size = 2}, link);
  ASSERT_FALSE(met);
  EXPECT_EQ(met.error().kind, ErrorKind::cancelled);
  EXPECT_EQ(met.error().message, "rank 0 is lost");
}

TEST(AnswerRollCall, EndsWhenAskedToStop) {
  c10d::HashStore store;
  FakeRankLink link;
  link.request_stop();
  const auto met = answer_roll_call(store, {.rank = 1, .world_size = 2}, link);
  ASSERT_FALSE(met);
  EXPECT_EQ(met.error().kind, ErrorKind::cancelled);
}

TEST(AnswerRollCall, SaysThatTheStoreIsLost) {
  LostStore store;
  FakeRankLink link;
  const auto met = answer_roll_call(store, {.rank = 1, .world_size = 2}, link);
  ASSERT_FALSE(met);
  EXPECT_EQ(met.error().kind, ErrorKind::unavailable);
  EXPECT_EQ(met.error().message, "asking the rendezvous store who has come: Connection reset by peer");
}

}  // namespace
}  // namespace trainyard::dist
