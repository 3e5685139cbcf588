#include "worker/rank/group_environment.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "environment_table.hpp"

namespace trainyard::rank {
namespace {

using Variables = std::map<std::string, std::string>;

TEST(ParseGroupEnvironment, IsAGroupOfOneOnThisMachineWhenNothingIsSet) {
  const auto group = parse_group_environment(environment_of({}));
  ASSERT_TRUE(group) << group.error().message;
  GroupEnvironment alone;
  alone.rank = 0;
  alone.master_port = 29500;
  alone.store_port = 29501;
  alone.peer_port = 29502;
  alone.job = "local";
  EXPECT_EQ(*group, alone);
}

TEST(ParseGroupEnvironment, ReadsWhatTheOperatorSetsInAPodOfOneRank) {
  const auto group = parse_group_environment(environment_of({{"RANK", "3"},
                                                             {"LOCAL_RANK", "0"},
                                                             {"WORLD_SIZE", "4"},
                                                             {"LOCAL_WORLD_SIZE", "1"},
                                                             {"NODE_RANK", "3"},
                                                             {"MASTER_ADDR", "mnist-1a2b-1-0.mnist-1a2b.default"},
                                                             {"MASTER_PORT", "1000"},
                                                             {"TRAINYARD_JOB", "mnist"},
                                                             {"TRAINYARD_NAMESPACE", "default"},
                                                             {"TRAINYARD_JOB_UID", "1a2b"},
                                                             {"TRAINYARD_ATTEMPT", "2"},
                                                             {"TRAINYARD_STORE_PORT", "1001"},
                                                             {"TRAINYARD_PEER_PORT", "1002"},
                                                             {"TRAINYARD_STATUS_PORT", "1003"},
                                                             {"ROLE_RANK", "3"},
                                                             {"TORCHELASTIC_RUN_ID", "1a2b"},
                                                             {"TORCHELASTIC_RESTART_COUNT", "1"},
                                                             {"TORCHELASTIC_USE_AGENT_STORE", "False"}}));
  ASSERT_TRUE(group) << group.error().message;
  EXPECT_FALSE(group->uses_agent_store) << "torchrun's alone hosts a store on MASTER_PORT";
  GroupEnvironment expected;
  expected.world_size = 4;
  expected.node_rank = 3;
  expected.rank = 3;
  expected.master_address = "mnist-1a2b-1-0.mnist-1a2b.default";
  expected.master_port = 1000;
  expected.store_port = 1001;
  expected.peer_port = 1002;
  expected.status_port = 1003;
  expected.job = "mnist";
  expected.job_namespace = "default";
  expected.job_uid = "1a2b";
  expected.attempt = 2;
  EXPECT_EQ(*group, expected);
}

TEST(ParseGroupEnvironment, LeavesTheRankOpenInAPodOfSeveral) {
  const auto group = parse_group_environment(
      environment_of({{"WORLD_SIZE", "8"}, {"LOCAL_WORLD_SIZE", "4"}, {"NODE_RANK", "1"}, {"MASTER_ADDR", "m"}}));
  ASSERT_TRUE(group) << group.error().message;
  EXPECT_EQ(group->rank, std::nullopt);
  EXPECT_EQ(group->node_rank, 1);
}

TEST(ParseGroupEnvironment, ReadsTorchrunsOwn) {
  const auto group = parse_group_environment(environment_of({{"RANK", "5"},
                                                             {"LOCAL_RANK", "1"},
                                                             {"WORLD_SIZE", "8"},
                                                             {"LOCAL_WORLD_SIZE", "4"},
                                                             {"GROUP_RANK", "1"},
                                                             {"MASTER_ADDR", "m"},
                                                             {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                                             {"TORCHELASTIC_RESTART_COUNT", "2"}}));
  ASSERT_TRUE(group) << group.error().message;
  EXPECT_EQ(group->rank, 5);
  EXPECT_EQ(group->local_rank, 1);
  EXPECT_TRUE(group->uses_agent_store);
}

/// The rank, the rank on its node and the node that `variables` give; -1 where there is no rank yet.
std::vector<std::int64_t> place_of(const Variables& variables) {
  const auto group = parse_group_environment(environment_of(variables));
  if (!group) return {};
  return {group->rank.value_or(-1), group->local_rank, group->node_rank};
}

TEST(ParseGroupEnvironment, FindsThePlaceByWhatIsSet) {
  const Variables eight_on_two{{"WORLD_SIZE", "8"}, {"LOCAL_WORLD_SIZE", "4"}, {"MASTER_ADDR", "m"}};
  const Variables two_alone{{"WORLD_SIZE", "2"}, {"MASTER_ADDR", "m"}};
  struct Row {
    std::string what;
    Variables common, own;
    std::vector<std::int64_t> place;
  };
  const std::vector<Row> rows{
      {"RANK alone", eight_on_two, {{"RANK", "6"}}, {6, 2, 1}},
      {"RANK with places that its number does not give",
       eight_on_two,
       {{"RANK", "6"}, {"LOCAL_RANK", "1"}, {"NODE_RANK", "3"}},
       {6, 1, 3}},
      {"NODE_RANK", two_alone, {{"NODE_RANK", "1"}}, {1, 0, 1}},
      {"GROUP_RANK", two_alone, {{"GROUP_RANK", "1"}}, {1, 0, 1}},
      {"NODE_RANK before GROUP_RANK", two_alone, {{"NODE_RANK", "0"}, {"GROUP_RANK", "1"}}, {0, 0, 0}},
      {"all ranks of the group on one node",
       {{"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "2"}, {"MASTER_ADDR", "m"}},
       {},
       {-1, 0, 0}},
  };
  for (Row row : rows) {
    row.own.insert(row.common.begin(), row.common.end());
    EXPECT_EQ(place_of(row.own), row.place) << row.what;
  }
}

TEST(ParseGroupEnvironment, TakesTheLargestNumbers) {
  const auto group = parse_group_environment(
      environment_of({{"WORLD_SIZE", "65536"}, {"RANK", "65535"}, {"MASTER_ADDR", "m"}, {"MASTER_PORT", "65535"}}));
  ASSERT_TRUE(group) << group.error().message;
  EXPECT_EQ(group->rank, 65'535);
  EXPECT_EQ(group->master_port, 65'535);
}

TEST(ParseGroupEnvironment, TakesEqualPortsOfAGroupOfOneWhichOpensNone) {
  const auto group =
      parse_group_environment(environment_of({{"TRAINYARD_STORE_PORT", "7"}, {"TRAINYARD_PEER_PORT", "7"}}));
  ASSERT_TRUE(group) << group.error().message;
  EXPECT_EQ(group->store_port, group->peer_port);
}

TEST(ParseGroupEnvironment, KnowsItsLauncherByTheWordOfTheLauncher) {
  EXPECT_TRUE(parse_group_environment(environment_of({{"TRAINYARD_HAS_LAUNCHER", "1"}}))->has_launcher);
  EXPECT_FALSE(parse_group_environment(environment_of({{"TRAINYARD_HAS_LAUNCHER", "0"}}))->has_launcher);
}

TEST(IsLoopback, KnowsTheWholeLoopbackNetworkAndNothingElse) {
  for (const std::string address : {"127.0.0.1", "127.0.0.2", "127.255.255.254", "::1", "localhost"})
    EXPECT_TRUE(is_loopback(address)) << address;
  for (const std::string address : {"", "10.0.0.127", "1127.0.0.1", "1270.example.com", "::", "::11", "localhost2"})
    EXPECT_FALSE(is_loopback(address)) << address;
}

TEST(ProcessEnvironment, HasNoVariableThatIsEmptyButItsExactValueIsThere) {
  // NOLINTBEGIN(concurrency-mt-unsafe): no other thread runs.
  constexpr const char* name = "TRAINYARD_TEST_OF_THE_ENVIRONMENT";
  const Environment environment = process_environment();
  unsetenv(name);
  EXPECT_EQ(environment(name), std::nullopt);
  EXPECT_EQ(exact_variable(name), std::nullopt);
  setenv(name, "", 1);
  EXPECT_EQ(environment(name), std::nullopt);
  EXPECT_EQ(exact_variable(name), "");
  setenv(name, "7", 1);
  EXPECT_EQ(environment(name), "7");
  EXPECT_EQ(exact_variable(name), "7");
  unsetenv(name);
  // NOLINTEND(concurrency-mt-unsafe)
}

TEST(ParseGroupEnvironment, ServesStatusOnlyWhereAPortOrAJobAsksForIt) {
  EXPECT_EQ(parse_group_environment(environment_of({}))->status_port, std::nullopt);
  EXPECT_EQ(parse_group_environment(environment_of({{"TRAINYARD_JOB_UID", "u"}}))->status_port, 29503);
  EXPECT_EQ(parse_group_environment(environment_of({{"TRAINYARD_STATUS_PORT", "8080"}}))->status_port, 8080);
}

TEST(ParseGroupEnvironment, SaysInOneSentenceWhatContradictsWhat) {
  struct Case {
    Variables variables;
    std::string sentence;
  };
  const std::vector<Case> cases{
      {{{"RANK", "one"}}, "the environment variable RANK is 'one', which is not a whole number"},
      {{{"RANK", "-1"}}, "the environment variable RANK is -1, but must be in 0 to 65536"},
      {{{"WORLD_SIZE", "0"}}, "the environment variable WORLD_SIZE is 0, but must be in 1 to 65536"},
      {{{"WORLD_SIZE", "2"}, {"RANK", "2"}, {"MASTER_ADDR", "m"}},
       "the rank environment contradicts itself: RANK is 2, but WORLD_SIZE is 2: ranks are numbered from 0"},
      {{{"WORLD_SIZE", "2"}, {"MASTER_ADDR", "m"}},
       "WORLD_SIZE is 2, but neither RANK nor NODE_RANK is set: set one of them"},
      {{{"WORLD_SIZE", "2"}, {"RANK", "0"}},
       "WORLD_SIZE is 2, but MASTER_ADDR is not set: set it to the address of rank 0"},
      {{{"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "4"}},
       "the rank environment contradicts itself: LOCAL_WORLD_SIZE is 4, but WORLD_SIZE is 2"},
      {{{"WORLD_SIZE", "6"}, {"LOCAL_WORLD_SIZE", "4"}, {"NODE_RANK", "0"}, {"MASTER_ADDR", "m"}},
       "the rank environment contradicts itself: WORLD_SIZE is 6, which is not a multiple of LOCAL_WORLD_SIZE 4"},
      {{{"WORLD_SIZE", "8"}, {"LOCAL_WORLD_SIZE", "4"}, {"NODE_RANK", "2"}, {"MASTER_ADDR", "m"}},
       "the rank environment contradicts itself: NODE_RANK is 2, but WORLD_SIZE 8 with LOCAL_WORLD_SIZE 4 makes 2 "
       "nodes"},
      {{{"WORLD_SIZE", "4"}, {"RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}, {"LOCAL_RANK", "2"}, {"MASTER_ADDR", "m"}},
       "the rank environment contradicts itself: LOCAL_RANK is 2, but LOCAL_WORLD_SIZE is 2"},
      {{{"MASTER_PORT", "70000"}}, "the environment variable MASTER_PORT is 70000, but must be in 1 to 65535"},
      {{{"WORLD_SIZE", "2"},
        {"RANK", "0"},
        {"MASTER_ADDR", "m"},
        {"TRAINYARD_STORE_PORT", "7"},
        {"TRAINYARD_PEER_PORT", "7"}},
       "the rank environment contradicts itself: TRAINYARD_STORE_PORT and TRAINYARD_PEER_PORT are both 7"},
      {{{"TRAINYARD_ATTEMPT", "0"}}, "the environment variable TRAINYARD_ATTEMPT is 0, but must be at least 1"},
      {{{"RANK", "1x"}}, "the environment variable RANK is '1x', which is not a whole number"},
      {{{"RANK", " 1"}}, "the environment variable RANK is ' 1', which is not a whole number"},
      {{{"WORLD_SIZE", "65537"}}, "the environment variable WORLD_SIZE is 65537, but must be in 1 to 65536"},
      {{{"LOCAL_WORLD_SIZE", "0"}}, "the environment variable LOCAL_WORLD_SIZE is 0, but must be in 1 to 65536"},
      {{{"TRAINYARD_PEER_PORT", "0"}}, "the environment variable TRAINYARD_PEER_PORT is 0, but must be in 1 to 65535"},
      {{{"WORLD_SIZE", "8"}, {"LOCAL_WORLD_SIZE", "4"}, {"GROUP_RANK", "2"}, {"MASTER_ADDR", "m"}},
       "the rank environment contradicts itself: GROUP_RANK is 2, but WORLD_SIZE 8 with LOCAL_WORLD_SIZE 4 makes 2 "
       "nodes"},
  };
  for (const auto& [variables, sentence] : cases) {
    const auto group = parse_group_environment(environment_of(variables));
    ASSERT_FALSE(group) << sentence;
    EXPECT_EQ(group.error().message, sentence);
    EXPECT_EQ(group.error().kind, ErrorKind::invalid);
  }
}

}  // namespace
}  // namespace trainyard::rank
