#include "worker/train/optimizer_turns.hpp"

#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

#include "common/check.hpp"
#include "common/try.hpp"
#include "include/trainyard/options.hpp"
#include "worker/train/optimizers.hpp"

namespace trainyard::train {
namespace {

constexpr std::size_t name_length_max = 63;

bool is_name(const std::string& name) {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= name_length_max && std::ranges::all_of(name, is_allowed);
}

[[noreturn]] void refuse(const std::string& name, const std::string& why) {
  throw InvalidJob{fmt::format("the model's configure_named_optimizers() gave the optimizer '{}' {}", name, why)};
}

/// The parameters of a module, each with the optimizer that trains it.
class ParameterOwners {
 public:
  explicit ParameterOwners(const Module& module) : parameters_{named_parameters(module)} {
    for (std::size_t index = 0; index < parameters_.size(); ++index)
      indices_[parameters_[index].second.unsafeGetTensorImpl()] = index;
    owners_.resize(parameters_.size());
  }

  /// The parameters of `named` with their names in the module.
  NamedTensors claim(const NamedOptimizer& named) {
    NamedTensors claimed;
    for (const torch::Tensor& parameter : named.parameters) {
      const auto found = indices_.find(parameter.unsafeGetTensorImpl());
      if (found == indices_.end()) refuse(named.name, "a parameter that the model has not registered");
      std::string& owner = owners_[found->second];
      const auto& [name, tensor] = parameters_[found->second];
      if (!owner.empty())
        refuse(named.name,
               fmt::format("the parameter {}, which '{}' already has: give each to one optimizer, once", name, owner));
      owner = named.name;
      claimed.emplace_back(name, tensor);
    }
    const auto needs_gradient = [](const auto& parameter) { return parameter.second.requires_grad(); };
    if (std::ranges::none_of(claimed, needs_gradient)) refuse(named.name, "no parameter that needs a gradient");
    return claimed;
  }

  [[nodiscard]] NamedTensors unclaimed() const {
    NamedTensors unclaimed;
    for (std::size_t index = 0; index < parameters_.size(); ++index)
      if (owners_[index].empty()) unclaimed.push_back(parameters_[index]);
    return unclaimed;
  }

 private:
  NamedTensors parameters_;
  std::map<void*, std::size_t> indices_;
  std::vector<std::string> owners_;  // by parameter; empty: none
};

checkpoint::Shard place_of(const ParameterShard& shard) {
  const bool is_scalar = shard.parameter.dim() == 0;
  return {
      .row_begin = shard.row_begin, .row_count = is_scalar ? 1 : shard.parameter.size(0), .is_of_scalar = is_scalar};
}

std::vector<OptimizerTurn> turns_of(const Module& module, std::vector<NamedOptimizer> optimizers) {
  ParameterOwners owners{module};
  std::set<std::string> names;
  std::vector<OptimizerTurn> turns;
  for (NamedOptimizer& named : optimizers) {
    if (!is_name(named.name)) refuse(named.name, "a name that is not 1 to 63 letters, digits, '_' and '-'");
    if (!names.insert(named.name).second) refuse(named.name, "the name of another one: each needs its own");
    if (named.optimizer == nullptr) refuse(named.name, "no Optimizer");
    NamedTensors parameters = owners.claim(named);
    turns.push_back({.name = std::move(named.name),
                     .optimizer = std::move(named.optimizer),
                     .parameters = std::move(parameters),
                     .gradients = {}});
  }
  for (auto& [name, parameter] : owners.unclaimed()) {
    parameter.set_requires_grad(false);
    turns.back().parameters.emplace_back(name, parameter);
  }
  return turns;
}

std::vector<NamedOptimizer> named_optimizers(Module& module, const api::OptimizerSpec& spec) {
  const ProgramCall call{"configure_named_optimizers()"};
  return module.configure_named_optimizers(public_spec(spec));
}

}  // namespace

std::vector<OptimizerTurn> open_turns(Module& module, const api::OptimizerSpec& spec,
                                      const MakeGradientSync& make_gradient_sync) {
  std::vector<NamedOptimizer> optimizers = named_optimizers(module, spec);
  std::vector<OptimizerTurn> turns;
  if (optimizers.empty()) {
    turns.push_back({.name = {},
                     .optimizer = open_optimizer(module, spec),
                     .parameters = named_parameters(module),
                     .gradients = {}});
  } else {
    turns = turns_of(module, std::move(optimizers));
  }
  for (OptimizerTurn& turn : turns) {
    const bool is_last = &turn == &turns.back();
    turn.gradients = make_gradient_sync(turn.parameters, is_last ? named_buffers(module) : NamedTensors{});
    // One turn's passes use the parameters of others, whose ranks would take part in rounds of their own.
    if (turns.size() > 1 && turn.gradients->has_parameters_in_parts()) {
      throw InvalidJob{
          "training.strategy.shardParameters is for a model with one optimizer, and this model configures several: "
          "leave the field out"};
    }
    turn.optimizer = turn.gradients->adapt(std::move(turn.optimizer));
  }
  return turns;
}

NamedTensors optimizer_state(const std::vector<OptimizerTurn>& turns) {
  NamedTensors state;
  for (const OptimizerTurn& turn : turns) {
    for (auto& [name, tensor] : turn.optimizer->state()) state.emplace_back(name_in_turn(turn.name, ".", name), tensor);
  }
  return state;
}

std::map<std::string, checkpoint::Shard> optimizer_shards(const std::vector<OptimizerTurn>& turns) {
  std::map<std::string, checkpoint::Shard> shards;
  for (const OptimizerTurn& turn : turns) {
    const std::vector<ParameterShard>& of_turn = turn.gradients->shards();
    if (of_turn.empty()) continue;
    for (const auto& [name, tensor] : turn.optimizer->state()) {
      const auto index = turn.optimizer->shard_of(name);
      if (!index) continue;
      shards[name_in_turn(turn.name, ".", name)] = place_of(of_turn.at(*index));
    }
  }
  return shards;
}

std::map<std::string, ParameterRows> rows_of_parameters(const std::vector<OptimizerTurn>& turns) {
  std::map<std::string, ParameterRows> rows;
  for (const OptimizerTurn& turn : turns) {
    if (!turn.gradients->has_parameters_in_parts()) continue;
    for (const ParameterShard& shard : turn.gradients->shards()) {
      const auto named = std::ranges::find_if(
          turn.parameters, [&](const auto& parameter) { return parameter.second.is_same(shard.parameter); });
      rows[named->first] = {.tensor = shard.rows, .shard = place_of(shard)};
    }
  }
  return rows;
}

checkpoint::State with_rows_of_parameters(checkpoint::State state, const std::vector<OptimizerTurn>& turns) {
  for (auto& [name, rows] : rows_of_parameters(turns)) {
    const std::string entry_name = fmt::format("{}{}", checkpoint::model_prefix, name);
    const auto entry = std::ranges::find(state.entries, entry_name, &checkpoint::Entry::name);
    entry->placement = checkpoint::Placement::sharded;
    entry->tensor = rows.tensor.detach();
    entry->shard = rows.shard;
  }
  return state;
}

Result<void> read_parameters(const std::vector<OptimizerTurn>& turns, const std::function<void()>& read) {
  // open_turns() refuses parameters in parts where there are several turns.
  check(turns.size() <= 1 || !turns.front().gradients->has_parameters_in_parts(), "one turn has parameters in parts");
  return turns.front().gradients->read_parameters(read);
}

Result<void> make_parameters_whole(const std::vector<OptimizerTurn>& turns) {
  for (const OptimizerTurn& turn : turns) {
    TRY(turn.gradients->make_parameters_whole());
  }
  return {};
}

bool keep_parameters_equal(const std::vector<OptimizerTurn>& turns) {
  return std::ranges::all_of(turns, [](const auto& turn) { return turn.gradients->keeps_parameters_equal(); });
}

bool keep_optimizers_equal(const std::vector<OptimizerTurn>& turns) {
  return std::ranges::all_of(turns, [](const auto& turn) { return turn.gradients->keeps_optimizer_equal(); });
}

Result<void> synchronize_model(const std::vector<OptimizerTurn>& turns) {
  for (const OptimizerTurn& turn : turns) {
    TRY(turn.gradients->synchronize_model());
  }
  return {};
}

Result<void> hold_parameters(const std::vector<OptimizerTurn>& turns) {
  for (const OptimizerTurn& turn : turns) {
    TRY(turn.gradients->hold_parameters());
  }
  return {};
}

std::uint64_t exchanged_bytes(const std::vector<OptimizerTurn>& turns) {
  std::uint64_t bytes = 0;
  for (const OptimizerTurn& turn : turns) bytes += turn.gradients->exchanged_bytes();
  return bytes;
}

std::string name_in_turn(const std::string& turn, const std::string& separator, const std::string& name) {
  return turn.empty() ? name : turn + separator + name;
}

}  // namespace trainyard::train
