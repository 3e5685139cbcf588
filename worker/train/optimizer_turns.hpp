#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "api/training_spec.hpp"
#include "common/result.hpp"
#include "include/trainyard/module.hpp"
#include "include/trainyard/optimizer.hpp"
#include "worker/checkpoint/checkpointer.hpp"
#include "worker/strategy/gradient_sync.hpp"
#include "worker/train/named_tensors.hpp"

namespace trainyard::train {

/// One of a module's optimizers, with the exchange of its parameters' gradients over the ranks.
struct OptimizerTurn {
  std::string name;  ///< Empty for the only optimizer, which configure_optimizers() has made.
  std::unique_ptr<Optimizer> optimizer;
  NamedTensors parameters;  ///< Parameters of the optimizer; in the last turn also the parameters of no optimizer.
  std::unique_ptr<strategy::GradientSync> gradients;
};

using MakeGradientSync =
    std::function<std::unique_ptr<strategy::GradientSync>(NamedTensors parameters, NamedTensors buffers)>;

/// The optimizers that `module` configures for the job's `spec`, in the order of their turns. The exchange of the last
/// turn has the module's buffers, so that they stay as they are between the turns of a step. Throws InvalidJob for
/// optimizers that the worker cannot train with, and what the module throws.
[[nodiscard]] std::vector<OptimizerTurn> open_turns(Module& module, const api::OptimizerSpec& spec,
                                                    const MakeGradientSync& make_gradient_sync);

/// The state of all optimizers, in which the name of each tensor begins with that of its optimizer, if it has one.
[[nodiscard]] NamedTensors optimizer_state(const std::vector<OptimizerTurn>& turns);

/// The rows that tensors of optimizer_state() hold, by the tensor's name: those that each rank has a part of.
[[nodiscard]] std::map<std::string, checkpoint::Shard> optimizer_shards(const std::vector<OptimizerTurn>& turns);

/// The rows that this rank keeps of parameters which are in parts, as tensors and as their places, by the parameter's
/// name.
struct ParameterRows {
  torch::Tensor tensor;
  checkpoint::Shard shard;
};
[[nodiscard]] std::map<std::string, ParameterRows> rows_of_parameters(const std::vector<OptimizerTurn>& turns);
/// `state` with these rows in place of the model's parameters.
[[nodiscard]] checkpoint::State with_rows_of_parameters(checkpoint::State state,
                                                        const std::vector<OptimizerTurn>& turns);

/// GradientSync::read_parameters(), for the parameters of all turns.
[[nodiscard]] Result<void> read_parameters(const std::vector<OptimizerTurn>& turns, const std::function<void()>& read);
/// GradientSync::make_parameters_whole() of all turns.
[[nodiscard]] Result<void> make_parameters_whole(const std::vector<OptimizerTurn>& turns);

/// GradientSync::keeps_parameters_equal() of all turns.
[[nodiscard]] bool keep_parameters_equal(const std::vector<OptimizerTurn>& turns);
/// GradientSync::keeps_optimizer_equal() of all turns.
[[nodiscard]] bool keep_optimizers_equal(const std::vector<OptimizerTurn>& turns);

/// Gives every rank the parameters and buffers of rank 0. Errors: those of GradientSync::synchronize_model().
[[nodiscard]] Result<void> synchronize_model(const std::vector<OptimizerTurn>& turns);

/// GradientSync::hold_parameters() of all turns.
[[nodiscard]] Result<void> hold_parameters(const std::vector<OptimizerTurn>& turns);

/// GradientSync::exchanged_bytes() of all turns.
[[nodiscard]] std::uint64_t exchanged_bytes(const std::vector<OptimizerTurn>& turns);

/// `name` as a metric or an entry of the turn `turn` has it: with the turn's name and `separator` in front, if the turn
/// has a name.
[[nodiscard]] std::string name_in_turn(const std::string& turn, const std::string& separator, const std::string& name);

}  // namespace trainyard::train
