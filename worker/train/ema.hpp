#pragma once

#include <torch/types.h>

#include <functional>
#include <vector>

#include "worker/checkpoint/checkpointer.hpp"
#include "worker/train/named_tensors.hpp"

namespace trainyard::train {

/// An exponential moving average of parameters, in their own types, or float32 for 16-bit ones: average = decay *
/// average + (1 - decay) * parameter after each step. Used from the training thread.
class Ema {
 public:
  /// Keeps those of `parameters` that are floating-point.
  Ema(const NamedTensors& parameters, double decay);

  /// Makes the average equal to the parameters.
  void reset();
  /// To be called after each optimizer step.
  void update();
  /// Calls `use` while the parameters have the average's values. They have their own values again afterwards, also when
  /// `use` throws. No save may be staging the parameters.
  void with_average(const std::function<void()>& use);
  /// The average of each parameter, by the parameter's name.
  [[nodiscard]] NamedTensors state() const;
  /// The average as the entries of a checkpoint.
  [[nodiscard]] std::vector<checkpoint::Entry> entries() const;

 private:
  void set_parameters(const std::vector<torch::Tensor>& values);

  double decay_;
  std::vector<std::string> names_;
  std::vector<torch::Tensor> parameters_;  // without history, like the next one
  std::vector<torch::Tensor> averages_;
};

}  // namespace trainyard::train
