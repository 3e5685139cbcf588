#pragma once

#include <torch/types.h>

#include <string>
#include <utility>
#include <vector>

namespace trainyard {

/// The job's `training.optimizer`, described in the reference of TrainingJob.
struct OptimizerSpec {
  std::string name = "adam";
  double lr = 0.001;
  double momentum = 0.0;      ///< sgd only.
  double weight_decay = 0.0;  ///< L2 penalty added to the gradient, as in torch.optim.Adam and SGD.
  double beta1 = 0.9;         ///< adam only, with beta2 and eps.
  double beta2 = 0.999;
  double eps = 1e-8;
};

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
