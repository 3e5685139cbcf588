#pragma once

#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <trainyard/trainyard.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "api/training_spec.hpp"
#include "tests/fakes/fake_clock.hpp"
#include "tests/worker/fakes/fake_rank_link.hpp"
#include "tests/worker/fakes/late_device.hpp"
#include "worker/dist/group.hpp"
#include "worker/dist/host_staged_backend.hpp"
#include "worker/dist/steps_in_flight.hpp"
#include "worker/dist/wait_or_fail.hpp"
#include "worker/strategy/strategies.hpp"
#include "worker/train/optimizer_turns.hpp"
#include "worker/train/trainer.hpp"

/// A training whose exchanges between devices go through the host's memory (processGroupBackend gloo).
namespace trainyard::train {

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

inline api::TrainingSpec staged_training(const api::StrategySpec& strategy) {
  api::TrainingSpec training;
  training.batch_size = 4;
  training.epochs = 2;
  training.log_every.steps = 8;
  training.optimizer = {.name = api::OptimizerName::sgd, .lr = 0.1, .momentum = 0.9};
  training.strategy = strategy;
  return training;
}

/// Trains as one rank of `group` on `device`. Returns the parameters, on the host.
inline std::vector<torch::Tensor> train_as_rank(const api::TrainingSpec& training, torch::Device device,
                                                dist::Group group) {
  if (!device.is_cpu()) {
    group.process_group->setBackend(device.type(), c10d::ProcessGroup::BackendType::CUSTOM,
                                    dist::make_host_staged_backend(group.process_group->getBackend(c10::kCPU)));
  }
  TwoLayers module;
  if (!device.is_cpu()) fakes::late_device::move_module(module);
  const Points data;
  const fakes::FakeClock clock;
  fakes::FakeRankLink link;
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
                   .train_data = &data,
                   .sampling = make_sampling(training, data, nullptr, {}),
                   .turns = turns,
                   .group = group,
                   .link = link,
                   .wait = wait,
                   .in_flight = in_flight ? &*in_flight : nullptr,
                   .device = device,
                   .clock = clock}};
  const rank::RankEnd end = trainer.run();
  EXPECT_EQ(end.reason, "Completed") << end.message;
  std::vector<torch::Tensor> trained;
  for (const torch::Tensor& parameter : module.parameters()) trained.push_back(parameter.detach().cpu().clone());
  return trained;
}

}  // namespace trainyard::train
