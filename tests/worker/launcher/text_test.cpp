#include <gtest/gtest.h>

#include "worker/launcher/oom_counter.hpp"
#include "worker/launcher/processors.hpp"
#include "worker/launcher/truncate.hpp"
#include "worker/launcher/waiting_text.hpp"

namespace trainyard::launcher {
namespace {

using namespace std::chrono_literals;

TEST(Truncate, KeepsWhatFitsAndNeverCutsACharacter) {
  EXPECT_EQ(truncate("whole", 5), "whole");
  EXPECT_EQ(truncate("longer than that", 9), "longer...");
  EXPECT_EQ(truncate("aäöü", 6), "aä...");
  EXPECT_EQ(truncate("äöüß", 6), "ä...");
}

TEST(MissingRanksText, NamesUpToEightRanks) {
  EXPECT_EQ(missing_ranks_text({1}, 2, 12'345ms), "rank 1 of 2 has not come (12 s)");
  EXPECT_EQ(missing_ranks_text({1, 3}, 4, 3s), "ranks 1 and 3 of 4 have not come (3 s)");
  EXPECT_EQ(missing_ranks_text({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 16, 3s),
            "ranks 1, 2, 3, 4, 5, 6, 7, 8 and 2 more of 16 have not come (3 s)");
}

TEST(OomKillsIn, ReadsBothGenerationsOfControlGroups) {
  EXPECT_EQ(oom_kills_in("low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n"), 2);
  EXPECT_EQ(oom_kills_in("oom_kill_disable 0\nunder_oom 0\noom_kill 5\n"), 5);
  EXPECT_EQ(oom_kills_in(""), 0);
}

TEST(ProcessorsOfCpuMax, RoundsTheLimitDownButNotToNothing) {
  EXPECT_EQ(processors_of_cpu_max("400000 100000\n"), 4);
  EXPECT_EQ(processors_of_cpu_max("150000 100000"), 1);
  EXPECT_EQ(processors_of_cpu_max("50000 100000"), 1);
  EXPECT_EQ(processors_of_cpu_max("max 100000"), 0);
  EXPECT_EQ(processors_of_cpu_max("-1 100000"), 0);
  EXPECT_EQ(processors_of_cpu_max(""), 0);
}

TEST(RanksOnThisMachine, AreAllOfThemOnLoopbackAndThePodsElsewhere) {
  GroupEnvironment group;
  group.world_size = 8;
  group.local_world_size = 2;
  EXPECT_EQ(ranks_on_this_machine(group), 8);
  group.master_address = "mnist-1a2b-1-0.mnist-1a2b.default";
  EXPECT_EQ(ranks_on_this_machine(group), 2);
}

}  // namespace
}  // namespace trainyard::launcher
