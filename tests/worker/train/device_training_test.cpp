// Training on the simulated device.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <trainyard/trainyard.hpp>

#include <cmath>
#include <memory>
#include <string>

#include "tests/fakes/fake_clock.hpp"
#include "tests/worker/fakes/fake_rank_link.hpp"
#include "tests/worker/fakes/late_device.hpp"
#include "tests/worker/fakes/rank_threads.hpp"
#include "worker/data/image_dataset.hpp"
#include "worker/data/synthetic.hpp"
#include "worker/strategy/strategies.hpp"
#include "worker/train/named_tensors.hpp"
#include "worker/train/optimizers.hpp"
#include "worker/train/trainer.hpp"

// The shipped example without its main().
#undef TRAINYARD_MAIN
#define TRAINYARD_MAIN(ModuleType) using Example = ModuleType;
#include "examples/own-model/line_fit.cpp"  // NOLINT(bugprone-suspicious-include): see above.

namespace trainyard::train {
namespace {

/// LineFit with a validation, and with a metric on the host beside those on the device.
class WatchedLineFit final : public Module {
 public:
  WatchedLineFit() { register_module("line", line_); }
  [[nodiscard]] StepOutput training_step(const Batch& batch, std::int64_t batch_index) override {
    log("batches", static_cast<double>(batch_index));
    return torch::mse_loss(line_(batch.inputs), batch.targets);
  }
  void validation_step(const Batch& batch, std::int64_t /*batch_index*/) override {
    log("val_loss", torch::mse_loss(line_(batch.inputs), batch.targets));
    log("samples", static_cast<double>(batch.size()), {.reduce = Reduce::sum});
  }

 private:
  torch::nn::Linear line_{1, 1};
};

/// One rank that trains `module` on the simulated device, with data on the host.
rank::RankEnd train_on_device(Module& module, fakes::FakeRankLink& link, bool validates) {
  const torch::Device device = fakes::late_device::device();
  api::TrainingSpec training;
  training.batch_size = 10;
  training.epochs = 3;
  training.log_every.steps = 50;
  training.optimizer = {.name = api::OptimizerName::sgd, .lr = 0.1};
  rank::RankEnd end;
  fakes::late_device::move_module(module);
  fakes::run_ranks(1, [&](fakes::RankThread& rank) {
    const LineFitData data{1};
    const fakes::FakeClock clock;
    dist::Group group{.rank = 0,
                      .world_size = 1,
                      .store = {},
                      .process_group = rank.process_group,
                      .communicator = std::move(rank.communicator),
                      .checkpoint_communicator = std::move(rank.checkpoint_communicator)};
    const strategy::WaitForWork wait = [](const c10::intrusive_ptr<c10d::Work>& work,
                                          std::string_view /*what*/) -> Result<void> {
      work->wait();
      return {};
    };
    const auto optimizer = open_optimizer(module, training.optimizer);
    const auto gradients = strategy::make_gradient_sync(named_parameters(module), named_buffers(module), group, wait);
    Trainer trainer{{.training = training,
                     .module = module,
                     .train_data = data,
                     .validation_data = validates ? &data : nullptr,
                     .optimizer = *optimizer,
                     .gradients = *gradients,
                     .group = group,
                     .link = link,
                     .wait = wait,
                     .device = device,
                     .clock = clock}};
    try {
      end = trainer.run();
    } catch (const std::exception& error) {
      end = {.exit_code = 1, .reason = "Threw", .message = error.what(), .culprit = {}};
    }
  });
  return end;
}

TEST(TrainingOnADevice, WorksForTheShippedExampleWhoseDataStaysOnTheHost) {
  Example module{Options{}};
  fakes::FakeRankLink link;
  const rank::RankEnd end = train_on_device(module, link, /*validates=*/false);
  EXPECT_EQ(end.reason, "Completed") << end.message;
  EXPECT_NEAR(module.parameters()[0].cpu().item<double>(), 3.0, 0.05) << "it has learnt the slope";
}

TEST(TrainingOnADevice, ValidatesThereAndLogsNumbersOfTheHostBesideThoseOfTheDevice) {
  WatchedLineFit module;
  fakes::FakeRankLink link;
  const rank::RankEnd end = train_on_device(module, link, /*validates=*/true);
  EXPECT_EQ(end.reason, "Completed") << end.message;
  EXPECT_NE(end.message.find("samples 2000"), std::string::npos) << end.message;
  ASSERT_FALSE(link.reports().empty());
  EXPECT_TRUE(std::isfinite(link.reports().back().loss.value_or(NAN)));
}

TEST(TrainingOnADevice, IdentifiesItsDataByTheSameIdAsOnTheHost) {
  const data::LabeledImages images = data::make_synthetic_images(100, 0, 0);
  const data::ImageDataset on_host{images.images, images.labels};
  const data::ImageDataset on_device{images.images, images.labels, fakes::late_device::device()};
  EXPECT_EQ(on_device.id(), on_host.id());
}

TEST(Optimizers, GiveADevicesKernelsWeightsOfOneType) {
  for (const OptimizerSpec& spec :
       {OptimizerSpec{.name = "adam", .lr = 0.1}, OptimizerSpec{.name = "sgd", .lr = 0.1, .momentum = 0.9}}) {
    Optimizer::NamedTensors weights;
    for (const auto type : {torch::kFloat, torch::kBFloat16, torch::kFloat}) {
      const torch::Tensor weight = torch::ones({3}).to(type).to(fakes::late_device::device()).requires_grad_();
      weight.mutable_grad() = torch::ones_like(weight, torch::requires_grad(false));
      weights.emplace_back("weight", weight);
    }
    make_optimizer(spec, weights)->step();
    for (const auto& [name, weight] : weights) {
      const torch::Tensor on_host = weight.detach().cpu().to(torch::kFloat);
      EXPECT_TRUE(torch::allclose(on_host, torch::full({3}, 0.9), 0.01)) << on_host;
    }
  }
}

}  // namespace
}  // namespace trainyard::train
