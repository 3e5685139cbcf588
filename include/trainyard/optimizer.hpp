#pragma once

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
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
  bool nesterov = false;  ///< sgd with momentum only.
  /// adam and sgd: an L2 penalty, added to the gradient. adamw and lamb: decoupled, as a factor of the parameter
  /// itself.
  double weight_decay = 0.0;
  double beta1 = 0.9;  ///< adam, adamw and lamb, with beta2 and eps.
  double beta2 = 0.999;
  double eps = 1e-8;
};

/// The part of a parameter that the optimizer of one rank updates.
struct ParameterShard {
  torch::Tensor parameter;
  /// The rank's rows of `parameter`, along its first dimension: a view of its memory, with a gradient of its own. It
  /// may have no rows. For a scalar parameter, `rows` has one dimension and at most one element.
  torch::Tensor rows;
  std::int64_t row_begin = 0;  ///< The place of the first of `rows` in `parameter`.
};

/// Updates parameters by their gradients. One thread calls.
class Optimizer {
 public:
  using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

  virtual ~Optimizer() = default;
  /// Makes one step. A parameter without a gradient stays unchanged, and so does the optimizer's state of it.
  virtual void step() = 0;
  /// Makes one step, or none at all where `found_inf` is 1: neither parameters nor state change then. found_inf: float
  /// scalar on the parameters' device, 0 or 1, and equal on all ranks. Called instead of step() with precision 16-mixed
  /// and with onNonFiniteLoss skip. Unless overridden, it waits for the device to read found_inf.
  virtual void step_unless(const torch::Tensor& found_inf);
  /// Sets what each learning rate is multiplied by in the steps that follow. Called before each step of a job that has
  /// lrSchedule or optimizer.lrScaling. Unless overridden, it throws InvalidJob, because the job asks for a schedule
  /// that the optimizer would not follow.
  virtual void set_lr_factor(double factor);
  /// Called with training.strategy sharded, once, before state() and the first step. From now on the optimizer updates
  /// the `rows` of each shard by rows.grad(), in place of the shard's parameter, and keeps state of these rows only: a
  /// tensor of state() has one row for each of them, or is equal on all ranks. With shardParameters the parameters
  /// have no memory after this call. Unless overridden, it throws InvalidJob, as it may need whole parameters.
  virtual void shard(const std::vector<ParameterShard>& shards);
  /// Called after shard(): the index in `shards` of the parameter whose rows the tensor `name` of state() has; nothing
  /// for a tensor that is equal on all ranks.
  [[nodiscard]] virtual std::optional<std::size_t> shard_of(const std::string& name) const;
  /// The state that later steps depend on, for checkpoints. Names are unique and equal in every run of the program. The
  /// worker asks before the first step: step() must change these tensors in place, and a restored checkpoint is copied
  /// into them.
  [[nodiscard]] virtual NamedTensors state() = 0;
  /// Called before the tensors of state() are saved, and after a checkpoint was copied into them. For an optimizer that
  /// keeps some of its state elsewhere, such as a step's number.
  virtual void before_save() {}
  virtual void after_restore() {}
};

/// Parameters with options of their own.
struct ParameterGroup {
  std::vector<torch::Tensor> parameters;
  std::optional<double> lr{};            ///< If absent, the OptimizerSpec's `lr` applies.
  std::optional<double> weight_decay{};  ///< If absent, the OptimizerSpec's `weight_decay` applies.
};

/// The optimizer of `spec` over `groups` of `module`'s parameters. Throws InvalidJob for a name that there is not, and
/// for a parameter that is not of `module` or is given twice. A parameter in no group is not trained.
[[nodiscard]] std::unique_ptr<Optimizer> make_optimizer(const OptimizerSpec& spec,
                                                        const std::vector<ParameterGroup>& groups,
                                                        const torch::nn::Module& module);

/// One of several optimizers of a module, such as those of a GAN's generator and discriminator.
struct NamedOptimizer {
  std::string name;  ///< 1 to 63 letters, digits, '_' and '-'. It is in the names of metrics and of saved tensors.
  std::unique_ptr<Optimizer> optimizer;
  std::vector<torch::Tensor> parameters;  ///< Changed by `optimizer`. No other optimizer may have them.
};

/// make_optimizer() with a name, and with the parameters of `groups`.
[[nodiscard]] NamedOptimizer make_named_optimizer(std::string name, const OptimizerSpec& spec,
                                                  const std::vector<ParameterGroup>& groups,
                                                  const torch::nn::Module& module);

/// Makes `parameters` need no gradient while it lives. It is for a loss that goes through a network which another
/// optimizer trains: the forward pass then keeps nothing for the gradients of that network. Works in the replicas of
/// strategies dp and ddp2 too, whose parameters are copies with an autograd history, so that requires_grad_() throws.
class FrozenParameters {
 public:
  explicit FrozenParameters(const std::vector<torch::Tensor>& parameters);
  ~FrozenParameters();
  FrozenParameters(const FrozenParameters&) = delete;
  FrozenParameters& operator=(const FrozenParameters&) = delete;

 private:
  struct Frozen;
  std::vector<Frozen> frozen_;  // those that needed a gradient before
};

/// An optimizer of LibTorch, with its parameter groups: torch::optim's Adam, AdamW, SGD without dampening, RMSprop or
/// Adagrad over parameters of `module`. It follows the job's lrSchedule, with each group's own
/// learning rate. Checkpoints have its state, but not its options: a learning rate that the program changes is the
/// program's to restore. Throws InvalidJob for other optimizers, and for a parameter that is not
/// of `module` or is given twice.
[[nodiscard]] std::unique_ptr<Optimizer> wrap_optimizer(std::unique_ptr<torch::optim::Optimizer> optimizer,
                                                        const torch::nn::Module& module);

}  // namespace trainyard
