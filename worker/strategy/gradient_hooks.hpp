#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace trainyard::strategy {

/// Calls a function each time a backward pass has added to a parameter's grad(), until it is destroyed.
class GradientHooks {
 public:
  /// `take` gets the parameter's index, on the thread of the backward pass. `parameters`: leaves that need a gradient.
  GradientHooks(const std::vector<torch::Tensor>& parameters, const std::function<void(std::size_t)>& take);
  ~GradientHooks();
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;

 private:
  struct Hook {
    std::shared_ptr<torch::autograd::Node> accumulator;  // a parameter holds it only weakly
    std::uintptr_t key = 0;
  };

  std::vector<Hook> hooks_;
};

}  // namespace trainyard::strategy
