// Trainings of two ranks whose exchanges between devices go through the host's memory (processGroupBackend gloo).
#include <gtest/gtest.h>
#include <torch/types.h>
#include <trainyard/trainyard.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/fakes/fake_clock.hpp"
#include "tests/worker/fakes/fake_rank_link.hpp"
#include "tests/worker/fakes/late_device.hpp"
#include "tests/worker/fakes/rank_threads.hpp"
#include "worker/dist/host_staged_backend.hpp"
#include "worker/dist/steps_in_flight.hpp"
#include "worker/dist/wait_or_fail.hpp"
#include "worker/strategy/strategies.hpp"
#include "worker/train/optimizer_turns.hpp"
#include "worker/train/trainer.hpp"

namespace trainyard::train {
namespace {

/// 64 points of a function of four numbers.
class Points final : public Dataset {
 public:
  [[nodiscard]] std::int64_t size() const override { return inputs_.size(0); }
  [[nodiscard]] Batch gather(const torch::Tensor& ids) const override {
    return {.inputs = inputs_.index_select(0, ids), .targets = targets_.index_select(0, ids), .ids = ids};
  }

 private:
  torch::Tensor inputs_ = torch::arange(256, torch::kFloat).reshape({64, 4}).sin();
  torch::Tensor targets_ = inputs_.sum(1, /*keepdim=*/true).tanh();
};

class TwoLayers final : public Module {
 public:
  TwoLayers() {
    register_module("first", first_);
    register_module("second", second_);
    const torch::NoGradGuard no_grad;
    for (torch::Tensor& parameter : parameters())
      parameter.copy_(torch::arange(parameter.numel(), torch::kFloat).add(1).cos().mul(0.4).view_as(parameter));
  }
  [[nodiscard]] StepOutput training_step(const Batch& batch, std::int64_t /*batch_index*/) override {
    return torch::mse_loss(second_(torch::tanh(first_(batch.inputs))), batch.targets);
  }

 private:
  torch::nn::Linear first_{4, 8};
  torch::nn::Linear second_{8, 1};
};

/// The parameters of both ranks, on the host, after a training on `device`.
std::vector<std::vector<torch::Tensor>> train(const api::TrainingSpec& training, torch::Device device) {
  std::vector<std::vector<torch::Tensor>> trained(2);
  fakes::run_ranks(2, [&](fakes::RankThread& rank) {
    if (!device.is_cpu()) {
      rank.process_group->setBackend(device.type(), c10d::ProcessGroup::BackendType::CUSTOM,
                                     dist::make_host_staged_backend(rank.process_group->getBackend(c10::kCPU)));
    }
    TwoLayers module;
    if (!device.is_cpu()) fakes::late_device::move_module(module);
    const Points data;
    const fakes::FakeClock clock;
    fakes::FakeRankLink link;
    dist::Group group{.rank = rank.rank,
                      .world_size = 2,
                      .store = rank.store,
                      .process_group = rank.process_group,
                      .communicator = std::move(rank.communicator),
                      .checkpoint_communicator = std::move(rank.checkpoint_communicator)};
    const strategy::WaitForWork wait = [&](const c10::intrusive_ptr<c10d::Work>& work, std::string_view what) {
      return dist::wait_or_fail(work, link, std::chrono::minutes{1}, what);
    };
    std::optional<dist::StepsInFlight> in_flight;
    if (!device.is_cpu()) in_flight.emplace(device, link, std::chrono::minutes{1});
    const strategy::WaitForWork follow = [&](const c10::intrusive_ptr<c10d::Work>& work, std::string_view what) {
      return in_flight ? in_flight->follow(work, what) : wait(work, what);
    };
    auto turns = open_turns(module, training.optimizer, [&](NamedTensors parameters, NamedTensors buffers) {
      return strategy::make_gradient_sync(std::move(parameters), std::move(buffers), group, wait, follow,
                                          training.strategy);
    });
    Trainer trainer{{.training = training,
                     .module = module,
                     .train_data = data,
                     .turns = turns,
                     .group = group,
                     .link = link,
                     .wait = wait,
                     .in_flight = in_flight ? &*in_flight : nullptr,
                     .device = device,
                     .clock = clock}};
    const rank::RankEnd end = trainer.run();
    EXPECT_EQ(end.reason, "Completed") << end.message;
    for (const torch::Tensor& parameter : module.parameters())
      trained[static_cast<std::size_t>(rank.rank)].push_back(parameter.detach().cpu().clone());
  });
  return trained;
}

struct Exchange {
  std::string what;
  api::StrategySpec strategy;
};

class StagedTraining : public testing::TestWithParam<Exchange> {};

TEST_P(StagedTraining, EndsWithTheParametersOfTheCpu) {
  api::TrainingSpec training;
  training.batch_size = 4;
  training.epochs = 2;
  training.log_every.steps = 8;
  training.optimizer = {.name = api::OptimizerName::sgd, .lr = 0.1, .momentum = 0.9};
  training.strategy = GetParam().strategy;
  const auto on_host = train(training, torch::kCPU);
  const auto on_device = train(training, fakes::late_device::device());
  for (std::size_t rank = 0; rank < 2; ++rank) {
    ASSERT_EQ(on_device[rank].size(), on_host[rank].size());
    for (std::size_t i = 0; i < on_host[rank].size(); ++i)
      EXPECT_TRUE(torch::allclose(on_device[rank][i], on_host[rank][i], 1e-5, 1e-6)) << rank << ", parameter " << i;
  }
}

// shardParameters and sharded wait for other ranks in the backward pass. One thread of torch's is that pass for all
// threads that use the simulated device, so that two ranks of one process would wait for each other without end.
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

}  // namespace
}  // namespace trainyard::train
