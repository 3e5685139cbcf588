// A rank of staged_training_test: `staged_sharded_rank RANK FOLDER` trains on the simulated device
// with the strategy `sharded`, as one of two processes that meet in FOLDER, and stores its parameters in
// FOLDER/RANK.pt.
#include <gtest/gtest.h>
#include <torch/serialize.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <chrono>
#include <string>

#include "tests/worker/fakes/fake_rank_link.hpp"
#include "tests/worker/fakes/late_device.hpp"
#include "tests/worker/fakes/rank_threads.hpp"
#include "tests/worker/train/staged_training.hpp"
#include "worker/dist/gloo_communicator.hpp"

int main(int argc, char** argv) {
  using namespace trainyard;
  using namespace trainyard::train;
  testing::InitGoogleTest(&argc, argv);
  const std::int64_t rank = std::stoll(argv[1]);
  const std::string folder = argv[2];
  const auto store = c10::make_intrusive<c10d::FileStore>(folder + "/store", 2);
  const auto connect = [&](const std::string& name) {
    return fakes::make_gloo_group(c10::make_intrusive<c10d::PrefixStore>(name, store), rank, 2);
  };
  fakes::FakeRankLink link;
  const auto communicate = [&](const std::string& name) {
    return dist::make_gloo_communicator(
        c10::dynamic_intrusive_pointer_cast<c10d::ProcessGroupGloo>(connect(name)->getBackend(c10::kCPU)),
        std::chrono::minutes{1}, link, dist::UsedBy::training_thread);
  };
  const auto trained =
      train_as_rank(staged_training({.name = api::StrategyName::sharded}), fakes::late_device::device(),
                    {.rank = rank,
                     .world_size = 2,
                     .store = store,
                     .process_group = connect("training"),
                     .communicator = communicate("agreements"),
                     .checkpoint_communicator = communicate("checkpoints")});
  torch::save(trained, folder + "/" + std::to_string(rank) + ".pt");
  return testing::UnitTest::GetInstance()->Failed() ? 1 : 0;
}
