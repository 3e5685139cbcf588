#include <gtest/gtest.h>

#include "worker/launcher/oom_counter.hpp"
#include "worker/rank/waiting_text.hpp"

namespace trainyard::launcher {
namespace {

using namespace std::chrono_literals;

TEST(MissingRanksText, NamesUpToEightRanks) {
  EXPECT_EQ(rank::missing_ranks_text({1}, 2, 12'345ms), "rank 1 of 2 has not come (12 s)");
  EXPECT_EQ(rank::missing_ranks_text({1, 3}, 4, 3s), "ranks 1 and 3 of 4 have not come (3 s)");
  EXPECT_EQ(rank::missing_ranks_text({1, 2, 3, 4, 5, 6, 7, 8}, 16, 999ms),
            "ranks 1, 2, 3, 4, 5, 6, 7 and 8 of 16 have not come (0 s)");
  EXPECT_EQ(rank::missing_ranks_text({1, 2, 3, 4, 5, 6, 7, 8, 9}, 16, 3s),
            "ranks 1, 2, 3, 4, 5, 6, 7, 8 and 1 more of 16 have not come (3 s)");
  EXPECT_EQ(rank::missing_ranks_text({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 16, 3s),
            "ranks 1, 2, 3, 4, 5, 6, 7, 8 and 2 more of 16 have not come (3 s)");
}

TEST(OomKillsIn, ReadsBothGenerationsOfControlGroups) {
  EXPECT_EQ(oom_kills_in("low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n"), 2);
  EXPECT_EQ(oom_kills_in("oom_kill_disable 0\nunder_oom 0\noom_kill 5\n"), 5);
  EXPECT_EQ(oom_kills_in(""), 0);
}

TEST(OomKillsIn, CountsOnlyTheLineOfThatName) {
  EXPECT_EQ(oom_kills_in("oom_kill 7\n"), 7) << "the first line";
  EXPECT_EQ(oom_kills_in("local_oom_kill 5\noom_kill 2\n"), 2);
  EXPECT_EQ(oom_kills_in("local_oom_kill 5\n"), 0);
  EXPECT_EQ(oom_kills_in("-oom_kill 5\n"), 0);
  EXPECT_EQ(oom_kills_in("oom_kill \n"), 0) << "a line without a number";
}

}  // namespace
}  // namespace trainyard::launcher
