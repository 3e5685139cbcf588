#include "worker/rank/mpi_and_slurm.hpp"

#include <gtest/gtest.h>

#include "environment_table.hpp"
#include "worker/rank/group_environment.hpp"

namespace trainyard::rank {
namespace {

using Variables = std::map<std::string, std::string>;

constexpr std::array names{"RANK",        "WORLD_SIZE",  "LOCAL_RANK",           "LOCAL_WORLD_SIZE",   "NODE_RANK",
                           "MASTER_ADDR", "MASTER_PORT", "TRAINYARD_STORE_PORT", "TRAINYARD_PEER_PORT"};

/// `variables` in the contract's words, without those that are not set.
Variables words_of(const Variables& variables) {
  const auto environment = in_contract_words(environment_of(variables));
  if (!environment) return {{"error", environment.error().message}};
  Variables words;
  for (const auto* name : names) {
    if (const auto value = (*environment)(name)) words[name] = *value;
  }
  return words;
}

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

const Variables slurm{{"SLURM_PROCID", "5"},
                      {"SLURM_NTASKS", "8"},
                      {"SLURM_LOCALID", "1"},
                      {"SLURM_NODEID", "2"},
                      {"SLURM_JOB_NODELIST", "n[001-003,7]"},
                      {"SLURM_JOB_ID", "4801"}};
const Variables mpirun{{"OMPI_COMM_WORLD_RANK", "3"},
                       {"OMPI_COMM_WORLD_SIZE", "4"},
                       {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                       {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                       {"MASTER_ADDR", "m"}};
const Variables mpiexec{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};

TEST(InContractWords, ReadsThePlaceThatEachLauncherGives) {
  struct Case {
    std::string what;
    Variables given;
    Variables expected;
  };
  const Variables ports{{"MASTER_PORT", "29500"}, {"TRAINYARD_STORE_PORT", "29501"}, {"TRAINYARD_PEER_PORT", "29502"}};
  const Variables slurms_place = {{"RANK", "5"},
                                  {"WORLD_SIZE", "8"},
                                  {"LOCAL_RANK", "1"},
                                  {"LOCAL_WORLD_SIZE", "2"},
                                  {"NODE_RANK", "2"},
                                  {"MASTER_ADDR", "n001"},
                                  {"MASTER_PORT", "15003"},
                                  {"TRAINYARD_STORE_PORT", "15004"},
                                  {"TRAINYARD_PEER_PORT", "15005"}};
  const Variables mpis_place =
      with(ports,
           {{"RANK", "3"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}, {"MASTER_ADDR", "m"}});
  const Variables pmis_place = with(ports, {{"RANK", "1"},
                                            {"WORLD_SIZE", "2"},
                                            {"LOCAL_RANK", "1"},
                                            {"LOCAL_WORLD_SIZE", "2"},
                                            {"MASTER_ADDR", "127.0.0.1"}});
  const std::vector<Case> cases{
      {"nothing", {}, {}},
      {"srun", slurm, slurms_place},
      {"srun with a list of tasks", with(slurm, {{"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"}, {"SLURM_NTASKS", "7"}}),
       with(slurms_place, {{"WORLD_SIZE", "7"}})},
      {"srun with tasks that do not divide by the nodes", with(slurm, {{"SLURM_NTASKS", "7"}}),
       with(slurms_place, {{"WORLD_SIZE", "7"}})},
      {"srun on some nodes of the allocation", with(slurm, {{"SLURM_STEP_NODELIST", "n[002-003,7],m2"}}),
       with(slurms_place, {{"MASTER_ADDR", "n002"}})},
      {"srun with an address and a port", with(slurm, {{"MASTER_ADDR", "m"}, {"MASTER_PORT", "4000"}}),
       with(slurms_place, {{"MASTER_ADDR", "m"},
                           {"MASTER_PORT", "4000"},
                           {"TRAINYARD_STORE_PORT", "4001"},
                           {"TRAINYARD_PEER_PORT", "4002"}})},
      {"srun with ports of the user's",
       with(slurm, {{"MASTER_PORT", "65535"}, {"TRAINYARD_STORE_PORT", "7"}, {"TRAINYARD_PEER_PORT", "8"}}),
       with(slurms_place, {{"MASTER_PORT", "65535"}, {"TRAINYARD_STORE_PORT", "7"}, {"TRAINYARD_PEER_PORT", "8"}})},
      {"srun and an equal WORLD_SIZE", with(slurm, {{"WORLD_SIZE", "8"}}), slurms_place},
      {"srun --mpi=pmi2", with(slurm, {{"PMI_RANK", "5"}, {"PMI_SIZE", "8"}}), slurms_place},
      {"srun --mpi=pmix", with(slurm, {{"PMIX_RANK", "5"}}), slurms_place},
      {"srun that sets PMI's rank alone", with(slurm, {{"PMI_RANK", "5"}}), slurms_place},
      {"mpiexec below a daemon of srun that has its rank's number",
       with(slurm, with(mpiexec, {{"PMI_RANK", "5"}, {"PMI_SIZE", "6"}})),
       with(slurms_place, {{"RANK", "5"}, {"WORLD_SIZE", "6"}, {"NODE_RANK", "none"}})},
      {"srun with both lists of tasks",
       with(slurm, {{"SLURM_STEP_TASKS_PER_NODE", "2(x4)"}, {"SLURM_TASKS_PER_NODE", "4(x4)"}}), slurms_place},
      {"srun of an older Slurm", with(slurm, {{"SLURM_JOB_NODELIST", ""}, {"SLURM_NODELIST", "o[1-4]"}}),
       with(slurms_place, {{"MASTER_ADDR", "o1"}})},
      {"srun without a list of nodes", with(slurm, {{"SLURM_JOB_NODELIST", ""}, {"MASTER_ADDR", "m"}}),
       with(slurms_place, {{"MASTER_ADDR", "m"}})},
      {"srun with the last port that leaves room for two more", with(slurm, {{"MASTER_PORT", "65533"}}),
       with(slurms_place,
            {{"MASTER_PORT", "65533"}, {"TRAINYARD_STORE_PORT", "65534"}, {"TRAINYARD_PEER_PORT", "65535"}})},
      {"srun with a job whose number is that of the first ports again", with(slurm, {{"SLURM_JOB_ID", "9599"}}),
       with(slurms_place,
            {{"MASTER_PORT", "29397"}, {"TRAINYARD_STORE_PORT", "29398"}, {"TRAINYARD_PEER_PORT", "29399"}})},
      {"mpirun with the variables of PMIx and PMI, as those of a launcher above it",
       with(mpirun, {{"PMIX_RANK", "0"}, {"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}), mpis_place},
      {"mpirun of one rank that says nothing of its node",
       {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}},
       with(ports, {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_ADDR", "127.0.0.1"}})},
      {"one task in an allocation's shell", {{"SLURM_NTASKS", "1"}, {"SLURM_JOB_ID", "7"}}, {}},
      {"a batch script that asks for no tasks",
       {{"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}, {"SLURM_JOB_NODELIST", "n1"}, {"SLURM_JOB_ID", "7"}},
       {}},
      {"mpirun", mpirun, mpis_place},
      {"mpirun in an allocation, whose daemon srun has started", with(slurm, mpirun),
       with(mpis_place,
            {{"MASTER_PORT", "15003"}, {"TRAINYARD_STORE_PORT", "15004"}, {"TRAINYARD_PEER_PORT", "15005"}})},
      {"mpirun on several nodes of an allocation",
       with(slurm, with(mpirun, {{"MASTER_ADDR", ""}, {"SLURM_JOB_ID", ""}})),
       with(mpis_place, {{"MASTER_ADDR", "n001"}})},
      {"mpirun on several nodes, whose daemon on this one is a step of its own",
       with(slurm, with(mpirun, {{"MASTER_ADDR", ""}, {"SLURM_JOB_ID", ""}, {"SLURM_STEP_NODELIST", "n[002-003]"}})),
       with(mpis_place, {{"MASTER_ADDR", "n001"}})},
      {"mpirun on one node", with(mpirun, {{"MASTER_ADDR", ""}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}}),
       with(mpis_place, {{"MASTER_ADDR", "127.0.0.1"}, {"LOCAL_WORLD_SIZE", "4"}})},
      {"mpiexec", mpiexec, pmis_place},
      {"mpiexec in an allocation, on one of its nodes", with(slurm, with(mpiexec, {{"SLURM_JOB_ID", ""}})), pmis_place},
      {"PMIx",
       {{"PMIX_RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "m"}},
       with(ports, {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "m"}})},
      {"RANK before all others",
       with(with(slurm, mpirun), {{"RANK", "0"}, {"WORLD_SIZE", "2"}}),
       {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "m"}}},
      {"NODE_RANK before all others",
       with(slurm, {{"NODE_RANK", "0"}, {"WORLD_SIZE", "2"}}),
       {{"NODE_RANK", "0"}, {"WORLD_SIZE", "2"}}},
  };
  for (Case one : cases) {
    std::erase_if(one.expected, [](const auto& word) { return word.second == "none"; });
    EXPECT_EQ(words_of(one.given), one.expected) << one.what;
  }
}

TEST(InContractWords, SaysInOneSentenceWhatIsMissingOrContradictsWhat) {
  const std::string contradiction = "the rank environment contradicts itself: ";
  const std::string by_hand = " A rank that is started by hand needs RANK, WORLD_SIZE and MASTER_ADDR";
  const std::vector<std::pair<Variables, std::string>> cases{
      {{{"OMPI_COMM_WORLD_RANK", "0"}},
       "OMPI_COMM_WORLD_RANK is set, but OMPI_COMM_WORLD_SIZE is not; mpirun sets both." + by_hand},
      {{{"PMI_SIZE", "2"}}, "PMI_SIZE is set, but PMI_RANK is not; mpiexec sets both." + by_hand},
      {{{"SLURM_NTASKS", "2"}},
       "SLURM_NTASKS is set, but SLURM_PROCID is not; srun sets both: in the shell of an allocation start the worker "
       "by "
       "srun." +
           by_hand},
      {{{"PMIX_RANK", "0"}},
       "PMIX_RANK is set, but WORLD_SIZE is not; PMIx gives a rank no size: set WORLD_SIZE." + by_hand},
      {with(mpirun, {{"OMPI_COMM_WORLD_RANK", "4"}}),
       contradiction + "OMPI_COMM_WORLD_RANK is 4, but OMPI_COMM_WORLD_SIZE is 4: ranks are numbered from 0"},
      {with(mpirun, {{"OMPI_COMM_WORLD_RANK", "one"}}),
       "the environment variable OMPI_COMM_WORLD_RANK is 'one', which is not a whole number"},
      {with(mpirun, {{"OMPI_COMM_WORLD_SIZE", "99999999999999999999"}}),
       "the environment variable OMPI_COMM_WORLD_SIZE is '99999999999999999999', which is not a whole number"},
      {with(mpirun, {{"OMPI_COMM_WORLD_SIZE", "65537"}}),
       "the environment variable OMPI_COMM_WORLD_SIZE is 65537, but must be in 1 to 65536"},
      {with(mpirun, {{"OMPI_COMM_WORLD_LOCAL_RANK", "2"}}),
       contradiction + "OMPI_COMM_WORLD_LOCAL_RANK is 2, but this node has 2 ranks, which are numbered from 0"},
      {with(mpirun, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "5"}}),
       contradiction + "5 ranks are on this node, but OMPI_COMM_WORLD_SIZE is 4"},
      {with(mpirun, {{"MASTER_ADDR", ""}}),
       "OMPI_COMM_WORLD_SIZE is 4, but neither MASTER_ADDR nor SLURM_JOB_NODELIST says where rank 0 is: set "
       "MASTER_ADDR "
       "to the address of rank 0's node"},
      {with(mpirun, {{"MASTER_PORT", "65534"}}),
       "MASTER_PORT is 65534, but the two ports after it are used as well: set it to at most 65533, or set "
       "TRAINYARD_STORE_PORT and TRAINYARD_PEER_PORT"},
      {with(mpirun, {{"MASTER_PORT", "65534"}, {"TRAINYARD_STORE_PORT", "7"}}),
       "MASTER_PORT is 65534, but the two ports after it are used as well: set it to at most 65533, or set "
       "TRAINYARD_STORE_PORT and TRAINYARD_PEER_PORT"},
      {{{"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "0"}},
       "SLURM_PROCID is set, but SLURM_NTASKS is not; srun sets both: in the shell of an allocation start the worker "
       "by srun." +
           by_hand},
      {with(slurm, {{"SLURM_STEP_NODELIST", "n["}}),
       "the environment variable SLURM_STEP_NODELIST: 'n[' is not a list of hosts as Slurm writes it, such as "
       "n[001-003,7],m2, of at most 65536 hosts"},
      {with(slurm, {{"SLURM_LOCALID", "2"}}),
       contradiction + "SLURM_LOCALID is 2, but this node has 2 ranks, which are numbered from 0"},
      {with(slurm, {{"WORLD_SIZE", "4"}}), contradiction + "WORLD_SIZE is 4, but SLURM_NTASKS is 8"},
      {with(slurm, {{"SLURM_JOB_NODELIST", "n[1"}}),
       "the environment variable SLURM_JOB_NODELIST: 'n[1' is not a list of hosts as Slurm writes it, such as "
       "n[001-003,7],m2, of at most 65536 hosts"},
      {with(slurm, {{"SLURM_TASKS_PER_NODE", "2(x2)"}}),
       "the environment variable SLURM_TASKS_PER_NODE: '2(x2)' does not give the tasks of node 2 as Slurm writes them, "
       "such as 2(x3),1"},
      {with(slurm, {{"SLURM_JOB_ID", "array"}}),
       "the environment variable SLURM_JOB_ID is 'array', which is not a whole number"},
  };
  for (const auto& [variables, sentence] : cases) {
    const auto environment = in_contract_words(environment_of(variables));
    ASSERT_FALSE(environment) << sentence;
    EXPECT_EQ(environment.error().message, sentence);
    EXPECT_EQ(environment.error().kind, ErrorKind::invalid);
  }
}

TEST(ParseGroupEnvironment, FindsItsPlaceUnderSlurm) {
  const auto group = parse_group_environment(environment_of(slurm));
  ASSERT_TRUE(group) << group.error().message;
  GroupEnvironment expected;
  expected.world_size = 8;
  expected.local_world_size = 2;
  expected.node_rank = 2;
  expected.rank = 5;
  expected.local_rank = 1;
  expected.master_address = "n001";
  expected.master_port = 15003;
  expected.store_port = 15004;
  expected.peer_port = 15005;
  expected.job = "local";
  EXPECT_EQ(*group, expected);
}

TEST(ParseGroupEnvironment, RefusesHalfOfWhatTorchrunSets) {
  Variables variables{
      {"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_ADDR", "m"}};
  EXPECT_TRUE(parse_group_environment(environment_of(variables)));
  for (const std::string name : {"RANK", "WORLD_SIZE", "MASTER_ADDR"}) {
    const auto group = parse_group_environment(environment_of(with(variables, {{name, ""}})));
    ASSERT_FALSE(group) << name;
    EXPECT_EQ(group.error().message,
              "TORCHELASTIC_USE_AGENT_STORE is True, but " + name + " is not set: torchrun sets both");
  }
}

}  // namespace
}  // namespace trainyard::rank
