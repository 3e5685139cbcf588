#pragma once

#include <gtest/gtest.h>
#include <torch/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "include/trainyard/optimizer.hpp"

namespace trainyard::strategy {

/// An optimizer that writes down what it is told.
class ToldOptimizer final : public Optimizer {
 public:
  explicit ToldOptimizer(std::vector<std::string>& told) : told_{told} {}
  void step() override { told_.emplace_back("step"); }
  void step_unless(const torch::Tensor& found_inf) override {
    told_.push_back(found_inf.item<float>() != 0.0F ? "no step" : "step unless");
  }
  void set_lr_factor(double factor) override { told_.push_back(factor == 0.5 ? "half of the rate" : "another rate"); }
  [[nodiscard]] NamedTensors state() override { return {{"state", state_}}; }
  void before_save() override { told_.emplace_back("before a save"); }
  void after_restore() override { told_.emplace_back("after a restore"); }

 private:
  std::vector<std::string>& told_;
  torch::Tensor state_ = torch::zeros({1});
};

/// Expects that what `adapt` makes of an optimizer hands on each call to it.
inline void expect_hands_on(const std::function<std::unique_ptr<Optimizer>(std::unique_ptr<Optimizer>)>& adapt) {
  std::vector<std::string> told;
  const auto optimizer = adapt(std::make_unique<ToldOptimizer>(told));
  optimizer->set_lr_factor(0.5);
  optimizer->step();
  optimizer->step_unless(torch::zeros({}));
  optimizer->step_unless(torch::ones({}));
  optimizer->before_save();
  optimizer->after_restore();
  EXPECT_EQ(told, (std::vector<std::string>{"half of the rate", "step", "step unless", "no step", "before a save",
                                            "after a restore"}));
  ASSERT_EQ(optimizer->state().size(), 1U);
  EXPECT_EQ(optimizer->state()[0].first, "state");
}

}  // namespace trainyard::strategy
