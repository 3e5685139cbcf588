#include "worker/dist/process_settings.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/worker/rank/environment_table.hpp"

namespace trainyard::dist {
namespace {

using namespace std::chrono_literals;

TEST(ReadDeadlines, KeepsTheCollectivesAboveTheHangUnlessTheUserNamesOne) {
  struct Row {
    std::map<std::string, std::string> variables;
    Deadlines deadlines;
  };
  const std::vector<Row> rows{
      {{}, {.rendezvous = 10min, .collective = 30min}},
      {{{"TRAINYARD_RENDEZVOUS_SECONDS", "20"}}, {.rendezvous = 20s, .collective = 30min}},
      {{{"TRAINYARD_HANG_SECONDS", "5"}}, {.rendezvous = 10min, .collective = 30min}},
      {{{"TRAINYARD_HANG_SECONDS", "3600"}}, {.rendezvous = 10min, .collective = 3h}},
      {{{"TRAINYARD_HANG_SECONDS", "3600"}, {"TRAINYARD_COLLECTIVE_SECONDS", "7"}},
       {.rendezvous = 10min, .collective = 7s}},
  };
  for (const Row& row : rows) {
    const auto deadlines = read_deadlines(rank::environment_of(row.variables));
    ASSERT_TRUE(deadlines) << deadlines.error().message;
    EXPECT_EQ(*deadlines, row.deadlines);
  }
}

TEST(CollectiveDeadline, IsNoneInAGroupOfOneRankThatCanLoseNoPeer) {
  const Deadlines deadlines{.rendezvous = 1s, .collective = 7s};
  EXPECT_EQ(collective_deadline(deadlines, 1), std::nullopt);
  EXPECT_EQ(collective_deadline(deadlines, 2), 7s);
}

TEST(ReadDeadlines, NamesAVariableThatIsNoTime) {
  for (const std::string name :
       {"TRAINYARD_RENDEZVOUS_SECONDS", "TRAINYARD_HANG_SECONDS", "TRAINYARD_COLLECTIVE_SECONDS"}) {
    for (const std::string seconds : {"0", "31536001"}) {
      const auto deadlines = read_deadlines(rank::environment_of({{name, seconds}}));
      ASSERT_FALSE(deadlines) << name;
      EXPECT_EQ(deadlines.error().kind, ErrorKind::invalid);
      EXPECT_EQ(deadlines.error().message,
                "the environment variable " + name + " is " + seconds + ", but must be in 1 to 31536000");
    }
    EXPECT_TRUE(read_deadlines(rank::environment_of({{name, "31536000"}}))) << name;
  }
}

}  // namespace
}  // namespace trainyard::dist
