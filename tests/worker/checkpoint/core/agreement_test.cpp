#include "worker/checkpoint/core/agreement.hpp"

#include <gtest/gtest.h>

#include "tests/fakes/thread_group.hpp"

namespace trainyard::checkpoint {
namespace {

template <typename T>
std::vector<T> from_every_rank(std::int64_t world_size, const std::function<T(dist::Communicator&)>& rank_main) {
  std::vector<T> said(static_cast<std::size_t>(world_size));
  fakes::ThreadGroup group{world_size};
  group.run([&](dist::Communicator& communicator) {
    said[static_cast<std::size_t>(communicator.rank())] = rank_main(communicator);
  });
  return said;
}

TEST(GatherAll, GivesEveryRankAllValues) {
  using Values = Result<std::vector<nlohmann::json>>;
  const auto said =
      from_every_rank<Values>(3, [](dist::Communicator& c) { return gather_all(c, nlohmann::json(c.rank() * 10)); });
  for (const Values& values : said) EXPECT_EQ(values, (std::vector<nlohmann::json>{0, 10, 20}));
}

TEST(GatherAll, GivesEveryRankTheSameErrorOneThatCannotPassFirst) {
  using Values = Result<std::vector<nlohmann::json>>;
  const auto said = from_every_rank<Values>(3, [](dist::Communicator& c) {
    if (c.rank() == 1) return gather_all(c, fail(ErrorKind::unavailable, "away"));
    if (c.rank() == 2) return gather_all(c, fail(ErrorKind::forbidden, "no"));
    return gather_all(c, nlohmann::json(1));
  });
  for (const Values& values : said) {
    ASSERT_FALSE(values);
    EXPECT_EQ(values.error().kind, ErrorKind::forbidden);
    EXPECT_EQ(values.error().message, "rank 2: no");
  }
}

TEST(Agree, IsBrokenByARankThatLeaves) {
  const auto said = from_every_rank<Result<void>>(3, [](dist::Communicator& c) -> Result<void> {
    if (c.rank() == 2) return {};
    return agree(c, {});
  });
  EXPECT_EQ(said[0].error().kind, ErrorKind::cancelled);
  EXPECT_EQ(said[1].error().kind, ErrorKind::cancelled);
}

TEST(FollowRank0, GivesEveryRankItsValueOrError) {
  using Value = Result<nlohmann::json>;
  auto said =
      from_every_rank<Value>(2, [](dist::Communicator& c) { return follow_rank0(c, nlohmann::json(c.rank())); });
  for (const Value& value : said) EXPECT_EQ(value, nlohmann::json(0));
  said = from_every_rank<Value>(
      2, [](dist::Communicator& c) { return follow_rank0(c, fail(ErrorKind::conflict, "fenced")); });
  for (const Value& value : said) EXPECT_EQ(value.error(), (Error{ErrorKind::conflict, "fenced", std::nullopt}));
}

}  // namespace
}  // namespace trainyard::checkpoint
