#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "api/contract.hpp"
#include "tests/fakes/free_port.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/paths/paths.hpp"
#include "tests/worker/fakes/rank_processes.hpp"

/// Two ranks of node n1, which no operator has started, whose job says what they are to train on.
namespace trainyard {
namespace {

using fakes::RankProcess;
using testing::HasSubstr;

std::vector<RankProcess> start_on_node(const std::string& devices, int gpus, const fakes::TemporaryFolder& folder) {
  RankProcess::Variables variables{
      {"WORLD_SIZE", "2"},
      {"LOCAL_WORLD_SIZE", "2"},
      {"MASTER_ADDR", "127.0.0.1"},
      {"MASTER_PORT", std::to_string(fakes::free_port())},
      {"OMP_NUM_THREADS", "1"},
      {"TRAINYARD_LOG_FORMAT", "json"},
      {"TRAINYARD_NODE_NAME", "n1"},
      {"TRAINYARD_CUDA_MODULE", paths::build("tests/worker/fakes/libfake_cuda_module.so")},
      {"TRAINYARD_SPEC",
       fmt::format(
           R"({{"training": {{"model": {{"name": "fashion_cnn"}}, "data": {{"format": "synthetic", "samples": 240}},
                     "batchSize": 8, "maxSteps": 2, {}}}}})",
           devices)}};
  if (gpus > 0) {
    variables["LD_LIBRARY_PATH"] = paths::build("tests/worker/fakes/driver");
    variables["FAKE_DRIVER_GPUS"] = std::to_string(gpus);
  }
  std::vector<RankProcess> ranks;
  for (const std::string rank : {"0", "1"}) {
    variables["RANK"] = rank;
    variables["LOCAL_RANK"] = rank;
    ranks.emplace_back(paths::program("trainyard-rank"), variables, folder.path() + "/rank" + rank + ".log");
  }
  return ranks;
}

TEST(DevicesOfRanks, AreRefusedInOneSentenceOnAllRanks) {
  struct Case {
    std::string devices;
    int gpus;
    std::string sentence;
  };
  const std::vector<Case> cases{
      {R"("accelerator": "gpu")", 0,
       "training.accelerator is gpu, but node n1 has no GPU for its ranks: start them where GPUs are"},
      {R"("devices": "1, 3")", 2, "training.devices asks for GPUs 1, 3, but node n1 has 2 GPUs, counted from 0"},
      {R"("devices": 2)", 1, "training.devices asks for 2 devices, but node n1 has 1 GPU, counted from 0"},
      {R"("devices": 3)", 4,
       "training.devices asks for 3 devices, which are 3 of node n1, but 2 ranks were started there"},
      {R"("devices": -1)", 4,
       "training.devices asks for all GPUs, which are 4 of node n1, but 2 ranks were started there"},
      {R"("accelerator": "cpu", "devices": "0, 1")", 2,
       "training.devices asks for GPUs 0, 1, but on node n1 2 ranks train on the CPU: write 2"},
      {R"("devices": "1, 1")", 2, "spec.training.devices: '1, 1' does not choose devices: device 1 is there twice"},
  };
  for (const auto& [devices, gpus, sentence] : cases) {
    const fakes::TemporaryFolder folder;
    auto ranks = start_on_node(devices, gpus, folder);
    for (RankProcess& rank : ranks) {
      EXPECT_EQ(rank.wait(), contract::exit_do_not_restart) << devices;
      EXPECT_THAT(rank.log(), HasSubstr("\"reason\":\"InvalidSpec\"")) << devices;
      EXPECT_THAT(rank.log(), HasSubstr(sentence)) << devices;
    }
  }
}

TEST(DevicesOfRanks, AreTheCpuWhereTheJobSaysSoWhateverTheDriverShows) {
  const fakes::TemporaryFolder folder;
  auto ranks = start_on_node(R"("accelerator": "cpu", "devices": 2)", 8, folder);
  for (RankProcess& rank : ranks) EXPECT_EQ(rank.wait(), 0) << rank.log();
  EXPECT_THAT(ranks[0].log(), HasSubstr("\"device\":\"cpu\""));
}

TEST(DevicesOfRanks, AreTheGpusThatTheJobNamesInTheirOrder) {
  const fakes::TemporaryFolder folder;
  auto ranks = start_on_node(R"("accelerator": "gpu", "devices": "3, 1")", 4, folder);
  for (const auto& [rank, gpu] : {std::pair{0, 3}, std::pair{1, 1}}) {
    EXPECT_EQ(ranks[static_cast<std::size_t>(rank)].wait(), contract::exit_device);
    EXPECT_THAT(ranks[static_cast<std::size_t>(rank)].log(),
                HasSubstr(fmt::format("GPU {} of node n1 cannot be used: the module is a fake", gpu)));
  }
}

}  // namespace
}  // namespace trainyard
