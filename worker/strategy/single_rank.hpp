#pragma once

#include <torch/types.h>

#include <vector>

#include "worker/strategy/gradient_sync.hpp"

namespace trainyard::strategy {

/// The strategy of one rank: its gradients stay as the backward pass leaves them.
class SingleRank final : public GradientSync {
 public:
  explicit SingleRank(std::vector<torch::Tensor> parameters) : parameters_{std::move(parameters)} {}

  [[nodiscard]] Result<void> synchronize_model() override { return {}; }
  void zero_gradients() override {
    for (torch::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
  }
  void begin_backward() override {}
  [[nodiscard]] Result<void> finish_gradients() override { return {}; }

 private:
  std::vector<torch::Tensor> parameters_;
};

}  // namespace trainyard::strategy
