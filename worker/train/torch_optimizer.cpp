#include <fmt/format.h>
#include <torch/nn/module.h>
#include <torch/optim.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>

#include "include/trainyard/optimizer.hpp"
#include "include/trainyard/options.hpp"
#include "worker/train/named_tensors.hpp"

namespace trainyard {
namespace {

namespace optim = torch::optim;

/// LibTorch makes the state of a parameter in its first step. Here it is made at once, with the values that the first
/// step would begin with, so that a checkpoint has something to be copied into.
class TorchOptimizer final : public Optimizer {
 public:
  TorchOptimizer(std::unique_ptr<optim::Optimizer> optimizer, const torch::nn::Module& module)
      : optimizer_{std::move(optimizer)} {
    if (optimizer_ == nullptr) throw InvalidJob{"wrap_optimizer was given no optimizer"};
    std::map<void*, std::string> names;
    std::set<void*> seen;
    for (const auto& [name, parameter] : train::named_parameters(module)) names[parameter.unsafeGetTensorImpl()] = name;
    for (auto& group : optimizer_->param_groups()) {
      rates_.push_back(group.options().get_lr());
      for (const torch::Tensor& parameter : group.params()) {
        const auto name = names.find(parameter.unsafeGetTensorImpl());
        if (name == names.end()) throw InvalidJob{"the optimizer has a parameter that the model has not registered"};
        // parameters() of a module in C++ lists a tensor that two layers share twice.
        if (!seen.insert(name->first).second) {
          throw InvalidJob{
              fmt::format("the optimizer has the parameter {} twice: give it each shared tensor once", name->second)};
        }
        add(name->second, parameter, group.options());
      }
    }
    before_save();
  }

  void step() override { optimizer_->step(); }
  void set_lr_factor(double factor) override {
    for (std::size_t group = 0; group < rates_.size(); ++group)
      optimizer_->param_groups()[group].options().set_lr(rates_[group] * factor);
  }

  [[nodiscard]] NamedTensors state() override { return tensors_; }
  void before_save() override {
    for (const Count& count : counts_) count.tensor.fill_(count.number());
  }
  void after_restore() override {
    for (const Count& count : counts_) count.number() = count.tensor.item<std::int64_t>();
  }

 private:
  /// A number of steps that LibTorch keeps as an integer, and the tensor that a checkpoint has of it.
  struct Count {
    torch::Tensor tensor;
    std::function<std::int64_t&()> number;
  };

  void add(const std::string& name, const torch::Tensor& parameter, const optim::OptimizerOptions& options) {
    if (const auto* adam = options_of<optim::Adam, optim::AdamOptions>(options)) {
      add_adam<optim::AdamParamState>(name, parameter, adam->amsgrad());
    } else if (const auto* adamw = options_of<optim::AdamW, optim::AdamWOptions>(options)) {
      add_adam<optim::AdamWParamState>(name, parameter, adamw->amsgrad());
    } else if (const auto* sgd = options_of<optim::SGD, optim::SGDOptions>(options)) {
      if (sgd->dampening() != 0)
        throw InvalidJob{
            "an SGD with dampening cannot be resumed, as its first step differs from the others: use dampening 0"};
      if (sgd->momentum() == 0) return;
      auto& state = state_of<optim::SGDParamState>(parameter);
      state.momentum_buffer(add_zeros("momentum_buffer." + name, parameter));
    } else if (const auto* rmsprop = options_of<optim::RMSprop, optim::RMSpropOptions>(options)) {
      auto& state = state_of<optim::RMSpropParamState>(parameter);
      add_count(name, state);
      state.square_avg(add_zeros("square_avg." + name, parameter));
      if (rmsprop->momentum() > 0) state.momentum_buffer(add_zeros("momentum_buffer." + name, parameter));
      if (rmsprop->centered()) state.grad_avg(add_zeros("grad_avg." + name, parameter));
    } else if (options_of<optim::Adagrad, optim::AdagradOptions>(options) != nullptr) {
      auto& state = state_of<optim::AdagradParamState>(parameter);  // Its constructor has made it.
      add_count(name, state);
      tensors_.emplace_back("sum." + name, state.sum());
    } else {
      throw InvalidJob{
          "wrap_optimizer takes torch::optim's Adam, AdamW, SGD, RMSprop or Adagrad; for another optimizer derive from "
          "trainyard::Optimizer"};
    }
  }

  /// The options, if the optimizer is of `Kind`: another one might use the options and have a state of its own.
  template <typename Kind, typename KindOptions>
  [[nodiscard]] const KindOptions* options_of(const optim::OptimizerOptions& options) const {
    if (dynamic_cast<const Kind*>(optimizer_.get()) == nullptr) return nullptr;
    return dynamic_cast<const KindOptions*>(&options);
  }

  template <typename State>
  void add_adam(const std::string& name, const torch::Tensor& parameter, bool is_amsgrad) {
    auto& state = state_of<State>(parameter);
    add_count(name, state);
    state.exp_avg(add_zeros("exp_avg." + name, parameter));
    state.exp_avg_sq(add_zeros("exp_avg_sq." + name, parameter));
    if (is_amsgrad) state.max_exp_avg_sq(add_zeros("max_exp_avg_sq." + name, parameter));
  }

  template <typename State>
  State& state_of(const torch::Tensor& parameter) {
    auto& state = optimizer_->state()[parameter.unsafeGetTensorImpl()];
    if (state == nullptr) state = std::make_unique<State>();
    return static_cast<State&>(*state);
  }

  torch::Tensor add_zeros(std::string name, const torch::Tensor& parameter) {
    tensors_.emplace_back(std::move(name), torch::zeros_like(parameter, torch::requires_grad(false)));
    return tensors_.back().second;
  }

  /// `state` is in the optimizer's map, which keeps it where it is.
  template <typename State>
  void add_count(const std::string& name, State& state) {
    counts_.push_back({torch::zeros({}, torch::kInt64), [&state]() -> std::int64_t& { return state.step(); }});
    tensors_.emplace_back("step." + name, counts_.back().tensor);
  }

  std::unique_ptr<optim::Optimizer> optimizer_;
  NamedTensors tensors_;
  std::vector<Count> counts_;
  std::vector<double> rates_;  // of the groups, as the program gave them
};

}  // namespace

std::unique_ptr<Optimizer> wrap_optimizer(std::unique_ptr<optim::Optimizer> optimizer,
                                          const torch::nn::Module& module) {
  return std::make_unique<TorchOptimizer>(std::move(optimizer), module);
}

}  // namespace trainyard
