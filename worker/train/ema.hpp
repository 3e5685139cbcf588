#pragma once

#include <torch/types.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/training_spec.hpp"
#include "include/trainyard/module.hpp"
#include "worker/checkpoint/checkpointer.hpp"
#include "worker/train/named_tensors.hpp"
#include "worker/train/optimizer_turns.hpp"

namespace trainyard::train {

/// An exponential moving average of parameters, in their own types, or float32 for 16-bit ones: average = decay *
/// average + (1 - decay) * parameter after each step. Used from the training thread.
class Ema {
 public:
  /// Keeps those of `parameters` that are floating-point. `shards`: the places of those which are rows of a parameter,
  /// by the parameter's name.
  Ema(const NamedTensors& parameters, double decay, std::map<std::string, checkpoint::Shard> shards = {});

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
  std::map<std::string, checkpoint::Shard> shards_;
  std::vector<std::string> names_;
  std::vector<torch::Tensor> parameters_;  // without history, like the next one
  std::vector<torch::Tensor> averages_;
};

/// The average that a job asks for, of what this rank keeps of the parameters of `module`.
[[nodiscard]] std::optional<Ema> make_ema(const std::optional<api::EmaSpec>& spec, const Module& module,
                                          const std::vector<OptimizerTurn>& turns);

}  // namespace trainyard::train
