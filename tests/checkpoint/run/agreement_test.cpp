#include "checkpoint/run/agreement.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fakes/thread_group.hpp"

namespace trainyard::checkpoint {
namespace {

template <typename T>
std::vector<T> from_every_rank(std::int64_t world_size, const std::function<T(Communicator&)>& rank_main) {
  std::vector<T> said(static_cast<std::size_t>(world_size));
  fakes::ThreadGroup group{world_size};
  group.run([&](Communicator& communicator) {
    said[static_cast<std::size_t>(communicator.rank())] = rank_main(communicator);
  });
  return said;
}

TEST(GatherAll, GivesEveryRankAllValues) {
  using Values = Result<std::vector<nlohmann::json>>;
  const auto said =
      from_every_rank<Values>(3, [](Communicator& c) { return gather_all(c, nlohmann::json(c.rank() * 10)); });
  for (const Values& values : said) EXPECT_EQ(values, (std::vector<nlohmann::json>{0, 10, 20}));
}

TEST(GatherAll, GivesEveryRankTheSameErrorOneThatCannotPassFirst) {
  using Values = Result<std::vector<nlohmann::json>>;
  const auto said = from_every_rank<Values>(3, [](Communicator& c) {
    if (c.rank() == 1) return gather_all(c, fail(ErrorKind::unavailable, "away"));
    if (c.rank() == 2) return gather_all(c, fail(ErrorKind::invalid, "no"));
    return gather_all(c, nlohmann::json(1));
  });
  for (const Values& values : said) {
    ASSERT_FALSE(values);
    EXPECT_EQ(values.error().kind, ErrorKind::invalid);
    EXPECT_EQ(values.error().message, "rank 2: no");
  }
}

TEST(AgreedError, DeniesAccessForGoodOnlyIfAllRanksMetThat) {
  struct Row {
    std::string_view name;
    std::vector<ErrorKind> errors;  // By rank, from 0.
    std::int64_t world_size = 1;
    ErrorKind kind;
    std::string message;
  };
  using enum ErrorKind;
  const Row rows[] = {
      {"one alone is refused", {forbidden}, 1, forbidden, "rank 0: why"},
      {"all are refused", {forbidden, unauthorized}, 2, forbidden, "rank 0: why"},
      {"one of many is refused",
       {unauthorized},
       1000,
       unavailable,
       "rank 0: why (1 of 1000 ranks were denied access, the others were not: check those ranks' nodes)"},
      {"one is refused, the other meets an outage",
       {unavailable, forbidden},
       2,
       unavailable,
       "rank 1: why (1 of 2 ranks were denied access, the others were not: check those ranks' nodes)"},
      {"an outage", {timeout}, 3, timeout, "rank 0: why"},
      {"one is refused, another has a wrong state", {forbidden, invalid}, 3, invalid, "rank 1: why"},
      {"a missing bucket, on one rank", {not_found}, 3, not_found, "rank 0: why"},
      {"damage on one rank", {unavailable, corrupt}, 3, corrupt, "rank 1: why"},
  };
  for (const Row& row : rows) {
    std::vector<RankError> errors;
    for (std::size_t rank = 0; rank < row.errors.size(); ++rank)
      errors.push_back({.rank = static_cast<std::int64_t>(rank), .error = {row.errors[rank], "why", std::nullopt}});
    EXPECT_EQ(agreed_error(errors, row.world_size), (Error{row.kind, row.message, std::nullopt})) << row.name;
  }
}

TEST(GatherAll, TakesAMessageThatIsNoOutcomeForAnError) {
  using Values = Result<std::vector<nlohmann::json>>;
  const auto said = from_every_rank<Values>(2, [](Communicator& c) -> Values {
    if (c.rank() == 0) return gather_all(c, nlohmann::json(1));
    EXPECT_TRUE(c.all_gather("[1]"));
    return {};
  });
  ASSERT_FALSE(said[0]);
  EXPECT_EQ(
      said[0].error(),
      (Error{ErrorKind::internal, "rank 1: a rank sent a message that is neither a value nor an error", std::nullopt}));
}

TEST(GatherAll, GivesEveryRankTheTimeToWait) {
  using Values = Result<std::vector<nlohmann::json>>;
  const auto said = from_every_rank<Values>(2, [](Communicator& c) {
    if (c.rank() == 0) return gather_all(c, nlohmann::json(1));
    return gather_all(c, fail(ErrorKind::throttled, "busy", std::chrono::seconds{7}));
  });
  for (const Values& values : said)
    EXPECT_EQ(values.error(), (Error{ErrorKind::throttled, "rank 1: busy", std::chrono::seconds{7}}));
}

TEST(Agree, IsBrokenByARankThatLeaves) {
  const auto said = from_every_rank<Result<void>>(3, [](Communicator& c) -> Result<void> {
    if (c.rank() == 2) return {};
    return agree(c, {});
  });
  EXPECT_EQ(said[0].error().kind, ErrorKind::cancelled);
  EXPECT_EQ(said[1].error().kind, ErrorKind::cancelled);
}

TEST(BroadcastFromRank0, GivesEveryRankItsValueOrError) {
  using Value = Result<nlohmann::json>;
  auto said =
      from_every_rank<Value>(2, [](Communicator& c) { return broadcast_from_rank0(c, nlohmann::json(c.rank())); });
  for (const Value& value : said) EXPECT_EQ(value, nlohmann::json(0));
  said = from_every_rank<Value>(
      2, [](Communicator& c) { return broadcast_from_rank0(c, fail(ErrorKind::conflict, "fenced")); });
  for (const Value& value : said) EXPECT_EQ(value.error(), (Error{ErrorKind::conflict, "fenced", std::nullopt}));
}

}  // namespace
}  // namespace trainyard::checkpoint
