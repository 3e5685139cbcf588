#pragma once

#include <torch/types.h>

#include <string>
#include <utility>
#include <vector>

namespace trainyard {

/// Moves parameters along their gradients. One thread calls.
class Optimizer {
 public:
  using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

  virtual ~Optimizer() = default;
  /// One step. Parameters without a gradient stay as they are, and so does what is remembered of them.
  virtual void step() = 0;
  /// All that the next steps depend on, for checkpoints: names are unique and the same in every run of the program; the
  /// tensors are the optimizer's own, and a restored checkpoint is copied into them.
  [[nodiscard]] virtual NamedTensors state() = 0;
};

}  // namespace trainyard
