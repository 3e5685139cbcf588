#include "worker/dist/rendezvous.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "tests/worker/fakes/fake_rank_link.hpp"

namespace trainyard::dist {
namespace {

using fakes::FakeRankLink;
using namespace std::chrono_literals;

using Met = Result<c10::intrusive_ptr<c10d::Store>>;

/// A lost store: every call throws.
class LostStore final : public c10d::HashStore {
 public:
  void set(const std::string& /*key*/, const std::vector<std::uint8_t>& /*data*/) override {
    throw std::runtime_error{"Connection reset by peer"};
  }
};

TEST(AnswerRollCall, ReturnsOnEveryRankOnceAllHaveCalled) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<Met> met(3, fail(ErrorKind::timeout, "not called"));
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
  const auto store = c10::make_intrusive<c10d::HashStore>();
  FakeRankLink link;
  const auto met = answer_roll_call(store, {.rank = 1, .world_size = 3, .deadline = 20ms}, link);
  ASSERT_FALSE(met);
  EXPECT_EQ(met.error().kind, ErrorKind::timeout);
  EXPECT_EQ(met.error().message.find("the group did not come together: ranks 0 and 2 of 3 have not come ("), 0U)
      << met.error().message;
}

TEST(AnswerRollCall, FindsTheFewThatAreMissingAmongManyRanks) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  for (std::int64_t rank = 1; rank < 200; ++rank) {
    const bool is_missing = rank == 63 || rank == 64 || rank == 128 || rank == 199;
    if (!is_missing) store->set(fmt::format("arrived/{}", rank), std::vector<std::uint8_t>{'1'});
  }
  FakeRankLink link;
  const auto met = answer_roll_call(store, {.rank = 0, .world_size = 200, .deadline = 1ms}, link);
  ASSERT_FALSE(met);
  EXPECT_EQ(met.error().message.find("the group did not come together: ranks 63, 64, 128 and 199 of 200 have not come"),
            0U)
      << met.error().message;
}

TEST(AnswerRollCall, EndsWithTheGroupAndSaysWhatBrokeIt) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  FakeRankLink link;
  link.break_group({.exit_code = 90, .reason = "PeerLost", .message = "rank 0 is lost", .culprit = 0});
  const auto met = answer_roll_call(store, {.rank = 1, .world_size = 2}, link);
  ASSERT_FALSE(met);
  EXPECT_EQ(met.error().kind, ErrorKind::cancelled);
  EXPECT_EQ(met.error().message, "rank 0 is lost");
}

TEST(AnswerRollCall, EndsWhenAskedToStop) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  FakeRankLink link;
  link.request_stop();
  const auto met = answer_roll_call(store, {.rank = 1, .world_size = 2}, link);
  ASSERT_FALSE(met);
  EXPECT_EQ(met.error().kind, ErrorKind::cancelled);
}

TEST(AnswerRollCall, SaysThatTheStoreIsLost) {
  const auto store = c10::make_intrusive<LostStore>();
  FakeRankLink link;
  const auto met = answer_roll_call(store, {.rank = 1, .world_size = 2}, link);
  ASSERT_FALSE(met);
  EXPECT_EQ(met.error().kind, ErrorKind::unavailable);
  EXPECT_EQ(met.error().message, "asking the rendezvous store who has come: Connection reset by peer");
}

/// A store that outlives the groups that meet there, as that of torchrun's agent does.
class AnswerRollCallInAStandingStore : public testing::Test {
 protected:
  Met call(std::int64_t rank, std::int64_t world_size, FakeRankLink& link, std::chrono::milliseconds deadline = 1min) {
    return answer_roll_call(
        store, {.rank = rank, .world_size = world_size, .deadline = deadline, .is_standing_store = true}, link);
  }
  std::vector<Met> form(std::int64_t world_size) {
    std::vector<Met> met(static_cast<std::size_t>(world_size), fail(ErrorKind::timeout, "not called"));
    std::vector<std::jthread> ranks;
    for (std::int64_t rank = 0; rank < world_size; ++rank) {
      ranks.emplace_back([&, rank] {
        FakeRankLink link;
        met[static_cast<std::size_t>(rank)] = call(rank, world_size, link);
      });
    }
    ranks.clear();
    for (const Met& one : met) EXPECT_TRUE(one) << one.error().message;
    return met;
  }

  const c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<c10d::HashStore>();
};

TEST_F(AnswerRollCallInAStandingStore, GivesEachGroupOfWhateverSizeKeysOfItsOwn) {
  std::vector<c10::intrusive_ptr<c10d::Store>> before;
  for (const std::int64_t world_size : {2, 3, 3, 1, 2}) {
    const auto met = form(world_size);
    ASSERT_TRUE(met.front());
    (*met.front())->set("address", std::vector<std::uint8_t>{'1'});
    for (const Met& one : met) EXPECT_TRUE((*one)->check({"address"}));
    for (const auto& earlier : before) earlier->set("of an earlier group", std::vector<std::uint8_t>{'1'});
    EXPECT_FALSE((*met.back())->check({"of an earlier group"}));
    before.push_back(*met.back());
  }
}

TEST_F(AnswerRollCallInAStandingStore, DoesNotCountTheRanksOfAnEarlierGroup) {
  form(2);
  for (const std::int64_t rank : {0, 1}) {
    FakeRankLink link;
    const auto met = call(rank, 2, link, 20ms);
    ASSERT_FALSE(met);
    EXPECT_EQ(met.error().kind, ErrorKind::timeout);
    EXPECT_EQ(met.error().message,
              fmt::format("the group did not come together: rank {} of 2 has not come (0 s)", 1 - rank));
  }
}

TEST_F(AnswerRollCallInAStandingStore, WaitsForTheRankThatTakesThePlaceOfOneThatHasEnded) {
  FakeRankLink ended;
  ASSERT_EQ(call(1, 3, ended, 1ms).error().kind, ErrorKind::timeout);
  FakeRankLink first;
  FakeRankLink last;
  std::vector<Met> met(3, fail(ErrorKind::timeout, "not called"));
  {
    const std::jthread rank_0{[&] { met[0] = call(0, 3, first); }};
    const std::jthread rank_2{[&] { met[2] = call(2, 3, last); }};
    // Rank 0 has announced a group with the ended rank meanwhile, and rank 2 has accepted it.
    first.wait_for_looks(6);
    last.wait_for_looks(6);
    FakeRankLink link;
    met[1] = call(1, 3, link);
  }
  for (const Met& one : met) ASSERT_TRUE(one) << one.error().message;
  (*met[0])->set("address", std::vector<std::uint8_t>{'1'});
  EXPECT_TRUE((*met[1])->check({"address"}) && (*met[2])->check({"address"}));
}

TEST_F(AnswerRollCallInAStandingStore, TakesARanksPlaceBackFromAProcessThatEndsLate) {
  for (const std::int64_t rank : {0, 1}) {
    FakeRankLink link, last;
    std::vector<Met> met(2, fail(ErrorKind::timeout, "not called"));
    const std::jthread waiting{[&] { met[0] = call(rank, 2, link); }};
    link.wait_for_looks(2);
    const std::string late = "the late process";
    store->set(fmt::format("arrived/{}", rank), std::vector<std::uint8_t>{late.begin(), late.end()});
    met[1] = call(1 - rank, 2, last);
    EXPECT_TRUE(met[1]) << met[1].error().message;
  }
}

TEST_F(AnswerRollCallInAStandingStore, LeavesNoTraceOfAProcessThatIsToStop) {
  FakeRankLink stopped;
  stopped.request_stop();
  EXPECT_EQ(call(1, 2, stopped).error().kind, ErrorKind::cancelled);
  EXPECT_FALSE(store->check({"arrived/1"}));
}

}  // namespace
}  // namespace trainyard::dist
