#pragma once

#include <torch/types.h>

#include <string>
#include <utility>
#include <vector>

namespace trainyard {

/// Updates parameters by their gradients. One thread calls.
class Optimizer {
 public:
  using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

  virtual ~Optimizer() = default;
  /// Makes one step. A parameter without a gradient stays unchanged, and so does the optimizer's state of it.
  virtual void step() = 0;
  /// The state that later steps depend on, for checkpoints. Names are unique and equal in every run of the program. The
  /// tensors are the optimizer's own: a restored checkpoint is copied into them.
  [[nodiscard]] virtual NamedTensors state() = 0;
};

}  // namespace trainyard
