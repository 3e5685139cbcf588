// A training program whose model is one that some strategies refuse, for strategy_refusals_test.
#include <trainyard/trainyard.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace {

/// An optimizer of the program's own, which overrides only what it must.
class OwnOptimizer final : public trainyard::Optimizer {
 public:
  void step() override {}
  [[nodiscard]] NamedTensors state() override { return {}; }
};

/// options.has: "nothing" that is refused; an "ownOptimizer"; two "optimizers"; a "complex" parameter; a parameter with
/// "gaps" between its rows; parameters of "oneMemory"; a parameter that is "part" of a memory; or "sparse" gradients.
class RefusedModel final : public trainyard::Module {
 public:
  explicit RefusedModel(const trainyard::Options& options)
      : has_{options.text("has", "nothing")}, weight_{register_parameter("weight", torch::ones({4, 4}))} {
    if (has_ == "optimizers") register_parameter("more", torch::ones({4}));
    if (has_ == "complex") register_parameter("phase", torch::ones({4}, torch::kComplexFloat));
    if (has_ == "gaps") register_parameter("cut", torch::ones({4, 4}).slice(1, 0, 2));
    if (has_ == "oneMemory") register_parameter("tied", weight_.detach().view({16}));
    if (has_ == "part") register_parameter("half", torch::ones({8}).slice(0, 0, 4));
    if (has_ == "sparse")
      table_ = register_module("table", torch::nn::Embedding(torch::nn::EmbeddingOptions(10, 4).sparse(true)));
  }

  [[nodiscard]] trainyard::StepOutput training_step(const trainyard::Batch& batch,
                                                    std::int64_t /*batch_index*/) override {
    torch::Tensor loss = weight_.sum();
    if (table_) loss = loss + table_->forward(torch::zeros({batch.size()}, torch::kLong)).sum();
    return loss;
  }
  [[nodiscard]] std::unique_ptr<trainyard::Optimizer> configure_optimizers(
      const trainyard::OptimizerSpec& spec) override {
    if (has_ == "ownOptimizer") return std::make_unique<OwnOptimizer>();
    return Module::configure_optimizers(spec);
  }
  [[nodiscard]] std::vector<trainyard::NamedOptimizer> configure_named_optimizers(
      const trainyard::OptimizerSpec& spec) override {
    if (has_ != "optimizers") return {};
    std::vector<trainyard::NamedOptimizer> optimizers;
    for (const std::string name : {"weight", "more"}) {
      const torch::Tensor parameter = named_parameters()[name];
      optimizers.push_back(trainyard::make_named_optimizer(name, spec, {{.parameters = {parameter}}}, *this));
    }
    return optimizers;
  }

 private:
  std::string has_;
  torch::Tensor weight_;
  torch::nn::Embedding table_{nullptr};
};

}  // namespace

int main() {
  trainyard::Models models;
  models.add<RefusedModel>("refused_model");
  trainyard::run_rank(models);
}
