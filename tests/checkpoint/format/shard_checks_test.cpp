#include "checkpoint/format/shard_checks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace trainyard::checkpoint {
namespace {

using testing::HasSubstr;

EntryInfo matrix(std::string name, std::int64_t row_count, Placement placement = Placement::sharded) {
  return {.name = std::move(name),
          .placement = placement,
          .dtype = "F32",
          .shape = {row_count, 2},
          .bytes = static_cast<std::uint64_t>(row_count) * 8};
}

struct Division {
  std::vector<Rows> rows;  // By rank.
  std::string fault;       // Empty: none.
};

TEST(CheckShards, WantsEveryRowOnceAndNamesWhoHoldsWhat) {
  const std::vector<Division> divisions = {
      {{{0, 10}}, ""},
      {{{0, 3}, {3, 10}}, ""},
      {{{6, 10}, {0, 6}}, ""},
      {{{0, 0}, {0, 10}, {10, 10}, {4, 4}}, ""},
      {{{0, 4}, {5, 10}}, "no rank holds rows [4, 5); next: rank 1 holds rows [5, 10)"},
      {{{0, 4}, {4, 9}}, "no rank holds rows [9, 10); last: rank 1 holds rows [4, 9)"},
      {{{1, 10}}, "no rank holds rows [0, 1); next: rank 0 holds rows [1, 10)"},
      {{{3, 3}, {0, 0}}, "no rank holds rows [0, 10)"},
      {{{0, 6}, {5, 10}}, "rank 0 holds rows [0, 6), and rank 1 holds rows [5, 10)"},
      {{{0, 10}, {0, 10}}, "rank 0 holds rows [0, 10), and rank 1 holds rows [0, 10)"},
      {{{0, 10}, {2, 4}}, "rank 0 holds rows [0, 10), and rank 1 holds rows [2, 4)"},
  };
  const std::vector<EntryInfo> entries = {matrix("whole", 4, Placement::replicated), matrix("first", 4),
                                          matrix("second", 10)};
  for (const Division& division : divisions) {
    std::vector<std::vector<Rows>> shards;
    for (const Rows& rows : division.rows) shards.push_back({shards.empty() ? Rows{0, 4} : Rows{4, 4}, rows});
    const auto checked = check_shards(entries, shards);
    ASSERT_EQ(checked.has_value(), division.fault.empty()) << division.fault;
    if (checked) continue;
    EXPECT_EQ(checked.error().kind, ErrorKind::internal);
    EXPECT_THAT(checked.error().message, HasSubstr("do not hold each row of second (10 rows) exactly once: "));
    EXPECT_THAT(checked.error().message, HasSubstr(division.fault));
  }
}

TEST(CheckHeld, WantsTheBytesOfRowsThatAreThere) {
  std::vector<std::byte> bytes(24);
  const auto held = [&](const EntryInfo& info, std::optional<Rows> rows) {
    return check_held({.info = info, .bytes = bytes, .rows = rows}).has_value();
  };
  EXPECT_TRUE(held(matrix("e", 9), Rows{4, 7}));
  EXPECT_TRUE(held(matrix("e", 3), std::nullopt));
  EXPECT_TRUE(held(matrix("e", 3, Placement::replicated), std::nullopt));
  EXPECT_FALSE(held(matrix("e", 9), Rows{4, 8})) << "fewer bytes";
  EXPECT_FALSE(held(matrix("e", 6), Rows{4, 7})) << "behind the end";
  EXPECT_FALSE(held(matrix("e", 9), Rows{7, 4}));
  EXPECT_FALSE(held(matrix("e", 9, Placement::replicated), Rows{4, 7})) << "not sharded";
}

}  // namespace
}  // namespace trainyard::checkpoint
