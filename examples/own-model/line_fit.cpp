// A training program with a model of its own: the model, its data and its metrics. It runs wherever trainyard-worker
// does. A TrainingJob names the model as `training: {model: {name: line_fit}}`, and the program as the container's
// command.
#include <trainyard/trainyard.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace {

/// Points of y = 3 x + 1 with a little noise. Every rank makes the same ones.
class LineFitData final : public trainyard::Dataset {
 public:
  explicit LineFitData(std::int64_t seed) : seed_{seed} {
    auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(seed));
    x_ = torch::rand({2000, 1}, generator);
    y_ = 3 * x_ + 1 + 0.01 * torch::randn({2000, 1}, generator);
  }
  [[nodiscard]] std::int64_t size() const override { return x_.size(0); }
  /// All that the points depend on: a training does not resume with others.
  [[nodiscard]] std::string id() const override { return "a line of seed " + std::to_string(seed_); }
  [[nodiscard]] trainyard::Batch gather(const torch::Tensor& ids) const override {
    return {.inputs = x_.index_select(0, ids), .targets = y_.index_select(0, ids), .ids = ids};
  }

 private:
  std::int64_t seed_;
  torch::Tensor x_;
  torch::Tensor y_;
};

class LineFit final : public trainyard::Module {
 public:
  /// `options`: the job's training.model.options.
  explicit LineFit(const trainyard::Options& options)
      : line_{torch::nn::LinearOptions(1, 1).bias(options.boolean("bias", true))} {
    register_module("line", line_);
  }

  [[nodiscard]] trainyard::StepOutput training_step(const trainyard::Batch& batch,
                                                    std::int64_t /*batch_index*/) override {
    log("slope", line_->weight);
    return torch::mse_loss(line_(batch.inputs), batch.targets);
  }
  [[nodiscard]] std::optional<trainyard::Datasets> open_datasets(const trainyard::DataSource& source) override {
    return trainyard::Datasets{.train = std::make_unique<LineFitData>(source.seed)};
  }

 private:
  torch::nn::Linear line_;
};

}  // namespace

TRAINYARD_MAIN(LineFit)
