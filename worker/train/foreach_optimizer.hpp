#pragma once

#include <torch/types.h>

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "include/trainyard/optimizer.hpp"

namespace trainyard::train {

/// A parameter with the options of its group.
struct OptimizedParameter {
  std::string name;
  torch::Tensor tensor;
  double lr = 0.001;  ///< Before the factor of set_lr_factor().
  double weight_decay = 0.0;
};

/// An optimizer whose kernels update many parameters at once. Its state is made when it is first needed, so that one
/// that updates rows never has the state of whole parameters.
class ForeachOptimizer : public Optimizer {
 public:
  explicit ForeachOptimizer(std::vector<OptimizedParameter> parameters) : parameters_{std::move(parameters)} {}

  void step() final { step_all({}); }
  /// Never waits for the device.
  void step_unless(const torch::Tensor& found_inf) final { step_all(found_inf); }
  void set_lr_factor(double factor) final { lr_factor_ = factor; }
  void shard(const std::vector<ParameterShard>& shards) override;
  [[nodiscard]] std::optional<std::size_t> shard_of(const std::string& name) const final;
  [[nodiscard]] NamedTensors state() final;

 protected:
  /// Parameters with gradients, of one dtype, one device and equal options: a kernel takes no others together.
  struct Group {
    std::vector<std::size_t> indices;  ///< Indices in parameters().
    std::vector<torch::Tensor> parameters, gradients;
    double lr = 0.0;
    double weight_decay = 0.0;
    /// 1: neither parameters nor state may change. Absent: make the step.
    std::optional<torch::Tensor> found_inf;

    /// The group's part of `tensors`, which are by parameter.
    [[nodiscard]] std::vector<torch::Tensor> of(const std::vector<torch::Tensor>& tensors) const;
  };

  /// The state of one kind.
  struct State {
    std::string prefix;                             ///< Beginning of the names, before the parameter's: "exp_avg."
    std::vector<torch::Tensor>* tensors = nullptr;  ///< By parameter.
    bool has_rows = true;  ///< A tensor has the parameter's shape. False: it is equal on all ranks.
  };

  virtual void step_group(const Group& group) = 0;
  /// Makes the state as it is before the first step, with zeros() and step_counts(), and returns it. Called once.
  virtual std::vector<State> make_state() = 0;
  /// Calls make_state(), unless it was called. state() and the steps do so.
  void make_state_once();

  [[nodiscard]] const std::vector<OptimizedParameter>& parameters() const { return parameters_; }
  /// A tensor of zeros for each parameter, in its shape and layout; after shard() in that of its rows.
  [[nodiscard]] std::vector<torch::Tensor> zeros() const;
  /// A float scalar for each parameter, on its device: the number of its steps.
  [[nodiscard]] std::vector<torch::Tensor> step_counts() const;
  /// Adds one to the group's `counts`. found_inf is taken off again by uncount().
  static void count(const std::vector<torch::Tensor>& counts) { at::_foreach_add_(counts, 1); }
  static void uncount(const std::vector<torch::Tensor>& counts, const Group& group);

 private:
  void step_all(const torch::Tensor& found_inf);

  std::vector<OptimizedParameter> parameters_;        // after shard(): their rows
  std::map<std::string, std::size_t> shard_indices_;  // by parameter's name
  std::optional<std::vector<State>> states_;
  double lr_factor_ = 1.0;
};

}  // namespace trainyard::train
