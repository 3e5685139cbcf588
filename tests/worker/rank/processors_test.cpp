#include "worker/rank/processors.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <fstream>
#include <string>
#include <vector>

#include "environment_table.hpp"

namespace trainyard::rank {
namespace {

TEST(ThreadsPerRank, FollowTheLimitElseTheRequestAndNeverExceedTheRanksPartOfTheNode) {
  struct Row {
    std::string name;
    ProcessorFacts facts;
    RankCounts ranks;
    std::int64_t threads = 1;
  };
  const std::vector<Row> rows{
      {"alone on a node", {.usable = 8}, {}, 8},
      {"two ranks of one pod", {.usable = 8}, {.in_container = 2, .in_pod = 2, .on_node = 2}, 4},
      {"what does not divide is rounded down", {.usable = 8}, {.on_node = 3}, 2},
      {"three pods on two processors", {.usable = 2}, {.on_node = 3}, 1},
      {"nothing is known", {.usable = 4}, {.in_container = 0, .in_pod = 0, .on_node = 0}, 4},
      {"a limit", {.usable = 64, .limit_millicores = 4000}, {}, 4},
      {"a limit of a processor and a half", {.usable = 64, .limit_millicores = 1500}, {}, 1},
      {"a limit of half a processor", {.usable = 64, .limit_millicores = 500}, {}, 1},
      {"a limit that two ranks share", {.usable = 64, .limit_millicores = 8000}, {.in_container = 2, .in_pod = 2}, 4},
      {"one processor and a half for each of two",
       {.usable = 64, .limit_millicores = 3000},
       {.in_container = 2, .in_pod = 2},
       1},
      {"a request", {.usable = 64, .requested_millicores = 6000}, {}, 6},
      {"a request that two ranks share", {.usable = 64, .requested_millicores = 6000}, {.in_pod = 2}, 3},
      {"a small request", {.usable = 64, .requested_millicores = 100}, {}, 1},
      {"a limit goes before a request", {.usable = 64, .limit_millicores = 8000, .requested_millicores = 2000}, {}, 8},
      {"more limit than processors", {.usable = 4, .limit_millicores = 8000}, {}, 4},
      {"limits of pods that share a node", {.usable = 8, .limit_millicores = 8000}, {.on_node = 4}, 2},
      {"requests of a job that runs on a laptop", {.usable = 4, .requested_millicores = 4000}, {.on_node = 2}, 2},
  };
  for (const Row& row : rows) EXPECT_EQ(threads_per_rank(row.facts, row.ranks), row.threads) << row.name;
}

TEST(ReadProcessorFacts, TakesTheRequestThatTheOperatorPassesOn) {
  const auto requested = [](const char* text) {
    return read_processor_facts(environment_of({{"TRAINYARD_CPU_MILLICORES", text}})).requested_millicores;
  };
  EXPECT_EQ(requested("1500"), 1500);
  EXPECT_EQ(requested("0"), std::nullopt) << "so the kubelet says that there is none";
  EXPECT_EQ(requested("many"), std::nullopt);
  EXPECT_EQ(requested("10000000"), 10'000'000);
  EXPECT_EQ(requested("10000001"), std::nullopt);
  EXPECT_GE(read_processor_facts(environment_of({})).usable, 1);
}

TEST(MillicoresOfCpuMax, ReadsQuotaAndPeriodOfBothGenerationsOfControlGroups) {
  EXPECT_EQ(millicores_of_cpu_max("400000 100000\n"), 4000);
  EXPECT_EQ(millicores_of_cpu_max("150000 100000"), 1500);
  EXPECT_EQ(millicores_of_cpu_max("50000 100000"), 500);
  for (const char* none : {"max 100000", "-1 100000", "", " ", "100000", "9223372036854775807 1", "0 100000",
                           "100000 0", "100000 -1", "x 100000", "100000 x"}) {
    EXPECT_EQ(millicores_of_cpu_max(none), std::nullopt) << none;
  }
}

TEST(RankCounts, AreAllOfTheGroupOnLoopbackAndThePodsElsewhere) {
  GroupEnvironment group;
  group.world_size = 8;
  group.local_world_size = 2;
  EXPECT_EQ(rank_counts(group).on_node, 8);
  EXPECT_EQ(rank_counts(group).in_container, 8);
  EXPECT_EQ(rank_counts(group).in_pod, 2);
  group.master_address = "mnist-1a2b-1-0.mnist-1a2b.default";
  EXPECT_EQ(rank_counts(group).on_node, 2);
  EXPECT_EQ(rank_counts(group).in_container, 2);
}

TEST(SharedProcessors, AreThoseOfTheNodeThatThisProcessMayUse) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  std::string boot_id;
  std::ifstream file{"/proc/sys/kernel/random/boot_id"};
  std::getline(file, boot_id);
  std::string all = boot_id;
  std::size_t last = 0;
  for (std::size_t processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (!CPU_ISSET(processor, &before)) continue;
    all += " " + std::to_string(processor);
    last = processor;
  }
  EXPECT_EQ(shared_processors(), all);
  EXPECT_EQ(read_processor_facts(environment_of({})).usable, CPU_COUNT(&before));

  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(last, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(shared_processors(), boot_id + " " + std::to_string(last));
  EXPECT_EQ(read_processor_facts(environment_of({})).usable, 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
}

}  // namespace
}  // namespace trainyard::rank
