// Trainings of two ranks whose exchanges between devices go through the host's memory (processGroupBackend gloo).
#include <gtest/gtest.h>
#include <torch/serialize.h>
#include <torch/types.h>

#include <chrono>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "common/child_program.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/paths/paths.hpp"
#include "tests/worker/fakes/late_device.hpp"
#include "tests/worker/fakes/rank_threads.hpp"
#include "tests/worker/train/staged_training.hpp"

namespace trainyard::train {
namespace {

using ByRank = std::vector<std::vector<torch::Tensor>>;

/// The parameters of both ranks, which are threads, after a training on `device`.
ByRank train(const api::TrainingSpec& training, torch::Device device) {
  ByRank trained(2);
  fakes::run_ranks(2, [&](fakes::RankThread& rank) {
    trained[static_cast<std::size_t>(rank.rank)] =
        train_as_rank(training, device,
                      {.rank = rank.rank,
                       .world_size = 2,
                       .store = rank.store,
                       .process_group = rank.process_group,
                       .communicator = std::move(rank.communicator),
                       .checkpoint_communicator = std::move(rank.checkpoint_communicator)});
  });
  return trained;
}

void expect_close(const ByRank& trained, const ByRank& expected) {
  ASSERT_EQ(trained.size(), expected.size());
  for (std::size_t rank = 0; rank < expected.size(); ++rank) {
    ASSERT_EQ(trained[rank].size(), expected[rank].size());
    for (std::size_t i = 0; i < expected[rank].size(); ++i)
      EXPECT_TRUE(torch::allclose(trained[rank][i], expected[rank][i], 1e-5, 1e-6)) << rank << ", parameter " << i;
  }
}

struct Exchange {
  std::string what;
  api::StrategySpec strategy;
};

class StagedTraining : public testing::TestWithParam<Exchange> {};

TEST_P(StagedTraining, EndsWithTheParametersOfTheCpu) {
  const auto training = staged_training(GetParam().strategy);
  expect_close(train(training, fakes::late_device::device()), train(training, torch::kCPU));
}

INSTANTIATE_TEST_SUITE_P(
    Of, StagedTraining,
    testing::Values(
        Exchange{"Ddp", {}}, Exchange{"Fp16", {.gradient_compression = api::GradientCompression::fp16}},
        Exchange{"PowerSgd",
                 {.gradient_compression = api::GradientCompression::powersgd, .power_sgd = {.start_step = 2}}},
        Exchange{"Horovod", {.name = api::StrategyName::horovod}},
        Exchange{"Adasum", {.name = api::StrategyName::horovod, .op = api::ReductionOp::adasum}},
        Exchange{"ByteGrad", {.name = api::StrategyName::bagua, .algorithm = api::BaguaAlgorithm::bytegrad}},
        Exchange{"Decentralized", {.name = api::StrategyName::bagua, .algorithm = api::BaguaAlgorithm::decentralized}},
        Exchange{"Pairs",
                 {.name = api::StrategyName::bagua,
                  .algorithm = api::BaguaAlgorithm::decentralized,
                  .peer_selection = api::PeerSelection::shift_one}},
        Exchange{"LowPrecisionDecentralized",
                 {.name = api::StrategyName::bagua, .algorithm = api::BaguaAlgorithm::low_precision_decentralized}}),
    [](const auto& info) { return info.param.what; });

// With `sharded` ranks wait for each other in the backward pass. One thread of torch's is that pass for all threads
// that use the simulated device, so that the ranks are processes here. Not with shardParameters: the simulated device
// frees memory at once, also where queued work still needs it, which torch's allocator for a GPU does not.
TEST(StagedShardedTraining, EndsWithTheParametersOfDdpOnTheCpu) {
  const fakes::TemporaryFolder folder;
  const auto run_rank = [&](const std::string& rank) {
    return run_program({paths::build("tests/worker/train/staged_sharded_rank"), rank, folder.path()},
                       std::chrono::minutes{2});
  };
  auto other = std::async(std::launch::async, run_rank, "1");
  for (const auto& end : {run_rank("0"), other.get()}) {
    ASSERT_TRUE(end) << end.error().message;
    ASSERT_EQ(end->exit_code, 0) << end->output << end->words;
  }
  ByRank trained(2);
  for (std::size_t rank = 0; rank < 2; ++rank)
    torch::load(trained[rank], folder.path() + "/" + std::to_string(rank) + ".pt");
  expect_close(trained, train(staged_training({}), torch::kCPU));
}

}  // namespace
}  // namespace trainyard::train
