#pragma once

#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "include/trainyard/module.hpp"
#include "worker/train/module_replicas.hpp"

namespace trainyard::train {

/// Two layers. `step` gives the output of a training step; not set: the mean of squares of forward().
class TwoLayers final : public Module {
 public:
  TwoLayers() {
    register_module("hidden", hidden);
    register_module("out", out);
    register_buffer("seen", seen);
  }
  [[nodiscard]] StepOutput training_step(const Batch& batch, std::int64_t /*batch_index*/) override {
    return step ? step(*this, batch) : forward(batch.inputs).square().mean();
  }
  [[nodiscard]] torch::Tensor training_step_end(StepOutput output) override {
    return step_end ? step_end(output) : Module::training_step_end(std::move(output));
  }
  StepOutput validation_step(const Batch& batch, std::int64_t /*batch_index*/) override {
    StepOutput output;
    output.values["outputs"] = forward(batch.inputs);
    log("val_loss", output.values["outputs"].square().mean());
    return output;
  }
  [[nodiscard]] std::map<std::string, torch::Tensor> predict_step(const Batch& batch,
                                                                  std::int64_t /*batch_index*/) override {
    return {{"outputs", forward(batch.inputs)}};
  }
  [[nodiscard]] torch::Tensor forward(const torch::Tensor& inputs) { return out(torch::tanh(hidden(inputs))); }
  using Module::log;
  using Module::optimizer_turn;

  torch::nn::Linear hidden{3, 4};
  torch::nn::Linear out{4, 2};
  torch::Tensor seen = torch::zeros({1});
  std::function<StepOutput(TwoLayers&, const Batch&)> step;
  std::function<torch::Tensor(const StepOutput&)> step_end;
};

inline Batch a_batch(std::int64_t samples) {
  return {.inputs = torch::sin(torch::arange(samples * 3, torch::kFloat)).view({samples, 3}),
          .targets = {},
          .ids = torch::arange(samples)};
}

/// A module and two replicas of it, which begin with other values.
struct Three {
  explicit Three(const ReplicaOptions& options = {}) {
    for (int count = 0; count < 2; ++count) {
      others.push_back(std::make_shared<TwoLayers>());
      list.push_back({.module = others.back(), .device = torch::kCPU});
    }
    replicas.emplace(*first, torch::kCPU, list, options);
  }
  void set_step(const std::function<StepOutput(TwoLayers&, const Batch&)>& step) {
    first->step = step;
    for (const auto& other : others) other->step = step;
  }
  /// The loss of a training step, after training_step_end.
  torch::Tensor loss_of(const Batch& batch) { return first->training_step_end(replicas->training_step(batch, 0)); }

  std::shared_ptr<TwoLayers> first = std::make_shared<TwoLayers>();
  std::vector<std::shared_ptr<TwoLayers>> others;
  std::vector<FurtherReplica> list;
  std::optional<ModuleReplicas> replicas;
};

/// The gradients of the parameters after a backward pass from `loss` alone.
inline std::vector<torch::Tensor> gradients_of(Module& module, const torch::Tensor& loss) {
  for (torch::Tensor& parameter : module.parameters()) parameter.mutable_grad().reset();
  loss.backward();
  std::vector<torch::Tensor> gradients;
  for (const torch::Tensor& parameter : module.parameters()) gradients.push_back(parameter.grad().clone());
  return gradients;
}

inline void expect_close(const std::vector<torch::Tensor>& some, const std::vector<torch::Tensor>& others) {
  ASSERT_EQ(some.size(), others.size());
  for (std::size_t index = 0; index < some.size(); ++index)
    EXPECT_TRUE(torch::allclose(some[index], others[index], 1e-5, 1e-7)) << index;
}

}  // namespace trainyard::train
