#pragma once

#include <torch/types.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace torch {
namespace nn {
class Module;
}
namespace optim {
class Optimizer;
}
}  // namespace torch

namespace trainyard {

/// The job's `training.optimizer`, described in the reference of TrainingJob.
struct OptimizerSpec {
  std::string name = "adam";
  double lr = 0.001;
  double momentum = 0.0;  ///< sgd only.
  /// adam and sgd: an L2 penalty, added to the gradient. adamw: decoupled, as a factor of the parameter itself.
  double weight_decay = 0.0;
  double beta1 = 0.9;  ///< adam and adamw, with beta2 and eps.
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
  /// worker asks once, before the first step: step() must change these tensors in place, and a restored checkpoint is
  /// copied into them.
  [[nodiscard]] virtual NamedTensors state() = 0;
  /// Called before the tensors of state() are saved, and after a checkpoint was copied into them. For an optimizer that
  /// keeps some of its state elsewhere, such as a step's number.
  virtual void before_save() {}
  virtual void after_restore() {}
};

/// An optimizer of LibTorch, with its parameter groups: torch::optim's Adam, AdamW, SGD without dampening, RMSprop or
/// Adagrad over parameters of `module`. Checkpoints have its state, but not its options: a learning rate that the
/// program changes is the program's to restore. Throws InvalidJob for other optimizers, and for a parameter that is not
/// of `module` or is given twice.
[[nodiscard]] std::unique_ptr<Optimizer> wrap_optimizer(std::unique_ptr<torch::optim::Optimizer> optimizer,
                                                        const torch::nn::Module& module);

}  // namespace trainyard
