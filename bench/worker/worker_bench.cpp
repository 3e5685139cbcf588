// The rank program of `scripts/bench worker`: the small MLP of bench/training/peer_models.py. FashionCNN is
// trainyard-rank's own.
#include <trainyard/trainyard.hpp>

#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>

namespace {

class SmallMlp final : public trainyard::Module {
 public:
  SmallMlp() {
    for (int layer = 0; layer < 8; ++layer) layers_->push_back(torch::nn::Linear{layer == 0 ? 28 * 28 : 32, 32});
    register_module("layers", layers_);
    register_module("head", head_);
  }

  [[nodiscard]] trainyard::StepOutput training_step(const trainyard::Batch& batch,
                                                    std::int64_t /*batch_index*/) override {
    torch::Tensor features = batch.inputs.flatten(1);
    for (const auto& layer : *layers_) features = torch::relu(layer->as<torch::nn::Linear>()->forward(features));
    return torch::cross_entropy_loss(head_(features), batch.targets);
  }

 private:
  torch::nn::ModuleList layers_;
  torch::nn::Linear head_{32, 10};
};

}  // namespace

int main() {
  trainyard::Models models;
  models.add<SmallMlp>("small_mlp");
  trainyard::run_rank(models);
}
