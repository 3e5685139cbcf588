#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>

#include "tests/cli/program_fixture.hpp"
#include "tests/skips.hpp"

/// The environment that `trainyard run --nproc` gives its ranks, compared with that of the real torchrun.
namespace trainyard::cli {
namespace {

using Environment = std::map<std::string, std::string>;

class TorchrunTest : public ProgramTest {
 protected:
  /// The environment of the ranks in the second attempt of two processes.
  std::vector<Environment> environments(const std::string& folder) {
    std::vector<Environment> ranks;
    for (const char* rank : {"rank-0.json", "rank-1.json"}) {
      ranks.push_back(nlohmann::json::parse(fakes::text_of(folder_.file(folder + "/" + rank))).get<Environment>());
    }
    return ranks;
  }
  std::vector<Environment> of_trainyard() {
    std::filesystem::create_directory(folder_.file("ours"));
    const ProgramOutcome outcome =
        run({"run", "--nproc", "2", "--max-restarts", "1", "--", "python3", script_, folder_.file("ours").string()});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return environments("ours");
  }

  const std::string script_ = paths::source("tests/cli/write_environment.py");
};

TEST_F(TorchrunTest, RanksGetTheirAttemptAndTheirNumber) {
  const auto ranks = of_trainyard();
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const Environment expected{{"RANK", std::to_string(rank)},
                               {"LOCAL_RANK", std::to_string(rank)},
                               {"ROLE_RANK", std::to_string(rank)},
                               {"WORLD_SIZE", "2"},
                               {"LOCAL_WORLD_SIZE", "2"},
                               {"ROLE_WORLD_SIZE", "2"},
                               {"GROUP_RANK", "0"},
                               {"GROUP_WORLD_SIZE", "1"},
                               {"ROLE_NAME", "default"},
                               {"TORCHELASTIC_RESTART_COUNT", "1"},
                               {"TORCHELASTIC_MAX_RESTARTS", "1"},
                               {"TORCHELASTIC_USE_AGENT_STORE", "False"},
                               {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
                               {"OMP_NUM_THREADS", "1"}};
    for (const auto& [name, value] : expected) EXPECT_EQ(ranks[rank].at(name), value) << name << " of rank " << rank;
    EXPECT_EQ(ranks[rank].at("TORCHELASTIC_RUN_ID"), ranks[0].at("TORCHELASTIC_RUN_ID"));
    EXPECT_NE(ranks[rank].at("TORCHELASTIC_RUN_ID"), "");
  }
}

TEST_F(TorchrunTest, WhatTheUserHasSetStays) {
  auto group = start_shell(
      "TORCH_NCCL_ASYNC_ERROR_HANDLING=3 OMP_NUM_THREADS=2 TORCHELASTIC_RUN_ID=outer ROLE_NAME=outer"
      " \"$0\" run --nproc 2 -- sh -c"
      " 'echo $TORCH_NCCL_ASYNC_ERROR_HANDLING $OMP_NUM_THREADS $TORCHELASTIC_RUN_ID $ROLE_NAME'");
  const ProgramOutcome outcome = end_of(group);
  EXPECT_THAT(outcome.out, testing::StartsWith("3 2 "));
  EXPECT_THAT(outcome.out, testing::HasSubstr(" default\n"));
  EXPECT_THAT(outcome.out, testing::Not(testing::HasSubstr("outer")));
}

TEST_F(TorchrunTest, EveryVariableOfTorchrunIsThereWithItsValue) {
  const std::string finds = " -c 'import importlib.util as u; exit(u.find_spec(\"numpy\") is None)' 2>/dev/null";
  if (std::system((paths::torch_python() + finds).c_str()) != 0)
    return tests::cannot_run("Python's torch is missing: scripts/setup test installs it");
  std::filesystem::create_directory(folder_.file("theirs"));
  auto torchrun =
      start_program({paths::torch_python(), "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
                     "--max-restarts", "1", script_, folder_.file("theirs").string()});
  ASSERT_EQ(end_of(torchrun).exit_code, 0) << err();
  const auto theirs = environments("theirs");
  const auto ours = of_trainyard();
  // Not compared: addresses and names, which differ between runs, and the variables of torchrun's agent alone (its
  // store and its file for errors).
  const std::vector<std::string> others{"MASTER_ADDR",
                                        "MASTER_PORT",
                                        "TORCHELASTIC_RUN_ID",
                                        "TORCHELASTIC_USE_AGENT_STORE",
                                        "TORCHELASTIC_ERROR_FILE",
                                        "TORCHELASTIC_SIGNALS_TO_HANDLE"};
  for (std::size_t rank = 0; rank < theirs.size(); ++rank) {
    std::size_t compared = 0;
    for (const auto& [name, value] : theirs[rank]) {
      const bool is_of_the_group = name.ends_with("RANK") || name.ends_with("WORLD_SIZE") ||
                                   name.starts_with("ROLE_") || name.starts_with("TORCH") || name == "OMP_NUM_THREADS";
      if (!is_of_the_group || std::ranges::find(others, name) != others.end()) continue;
      ASSERT_TRUE(ours[rank].contains(name)) << name;
      EXPECT_EQ(ours[rank].at(name), value) << name << " of rank " << rank;
      ++compared;
    }
    EXPECT_GE(compared, 12U);
  }
}

}  // namespace
}  // namespace trainyard::cli
