#include "worker/rank/collective_name.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "worker/rank/rank_message.hpp"

namespace trainyard::rank {
namespace {

TEST(NameOfSetCollective, NamesTheSetAndHowManyRanksItHas) {
  const std::string name = name_of_set_collective("all_reduce", "encoder", 2);
  EXPECT_EQ(name, "all_reduce of the process set \"encoder\" (2 ranks)");
  EXPECT_EQ(ranks_of_set_collective(name), 2);
}

TEST(NameOfSetCollective, FitsIntoAMessageWhateverTheSetIsCalled) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const std::string name = name_of_set_collective("all_reduce", std::string(200, 's'), most);
  EXPECT_LE(name.size(), collective_bytes_max);
  EXPECT_EQ(ranks_of_set_collective(name), most);
}

TEST(NameOfSetCollective, DistinguishesLongSetsByTheirEnds) {
  const std::string begin(100, 's');
  EXPECT_NE(name_of_set(begin + "a", 2), name_of_set(begin + "b", 2));
  EXPECT_EQ(name_of_set(begin + "a", 2), name_of_set(begin + "a", 2));
  EXPECT_EQ(ranks_of_set_collective("connecting " + name_of_set(begin, 3)), 3);
}

TEST(RanksOfSetCollective, KnowsOnlyTheNamesOfSets) {
  for (const char* const name :
       {"", "all_gather", "gathering the ranks' values (all_gather, metrics or an agreement)", "all_reduce (two ranks)",
        "all_reduce (2 ranks) of all", " ranks)", "2 ranks)", "( ranks)", " ( ranks)"})
    EXPECT_EQ(ranks_of_set_collective(name), std::nullopt) << name;
}

}  // namespace
}  // namespace trainyard::rank
