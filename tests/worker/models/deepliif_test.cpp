#include "worker/models/deepliif.hpp"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/fakes/temporary_folder.hpp"
#include "tests/worker/models/filled_parameters.hpp"
#include "tests/worker/train/training_run.hpp"
#include "worker/observe/images.hpp"
#include "worker/observe/metric_sinks.hpp"

namespace trainyard::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Without dropout, because ranks that are threads share a random generator.
constexpr const char* tiny = R"({"modalitiesNo": 2, "netG": "resnet_1blocks", "netGs": "unet_32", "ngf": 2, "ndf": 2,
                                 "nLayersD": 2, "dropout": false})";

/// Pictures of an input, two modalities and a segmentation, with values of a formula from -1 to 1.
class Pictures final : public Dataset {
 public:
  [[nodiscard]] std::int64_t size() const override { return 8; }
  [[nodiscard]] Batch gather(const torch::Tensor& ids) const override {
    const torch::Tensor places = torch::arange(3 * 32 * 32, torch::kFloat).mul(0.13).view({3, 32, 32});
    const torch::Tensor inputs = torch::sin(places + ids.to(torch::kFloat).view({-1, 1, 1, 1}));
    const torch::Tensor targets = torch::stack({inputs * 0.5, torch::sin(inputs), torch::cos(inputs)}, 1);
    return {.inputs = inputs, .targets = targets, .ids = ids};
  }
};

struct Seen final : observe::MetricSink, observe::ImageSink {
  void set_batch_size(std::int64_t /*samples*/) override {}
  void log(std::string_view name, const torch::Tensor& value, const LogOptions& /*options*/) override {
    values[std::string{name}] = value.item<double>();
  }
  void log_image(std::string_view name, const torch::Tensor& image) override { images[std::string{name}] = image; }

  std::map<std::string, double> values;
  std::map<std::string, torch::Tensor> images;
};

template <typename Value>
std::vector<std::string> names_of(const std::map<std::string, Value>& values) {
  std::vector<std::string> names;
  for (const auto& [name, value] : values) names.push_back(name);
  return names;
}

class DeepLiifTest : public testing::Test {
 protected:
  DeepLiifTest() {
    at::set_num_threads(1);
    torch::manual_seed(1);
  }
};

TEST_F(DeepLiifTest, HasTheNetworksOfDeepLiifByTheirNames) {
  const DeepLiif model{Options{tiny}};
  std::vector<std::string> networks;
  for (const auto& item : model.named_children()) networks.push_back(item.key());
  EXPECT_THAT(networks, ElementsAre("G1", "D1", "G2", "D2", "GS0", "DS0", "GS1", "DS1", "GS2", "DS2"));
  EXPECT_TRUE(has_parameter(model, "G1.model.1.weight", {2, 3, 7, 7}));
  EXPECT_TRUE(has_parameter(model, "DS2.model.0.weight", {2, 6, 4, 4}));
  const DeepLiif without{Options{R"({"modalitiesNo": 1, "segGen": false, "ngf": 2, "ndf": 2, "channels": 1})"}};
  EXPECT_EQ(without.named_children().size(), 2U);
  // A reflection is a layer of its own, before the convolution.
  const DeepLiif reflected{Options{
      R"({"modalitiesNo": 1, "netG": "resnet_1blocks", "netGs": "resnet_1blocks", "ngf": 1, "ndf": 1, "dropout": false})"}};
  EXPECT_TRUE(has_parameter(reflected, "G1.model.10.conv_block.0.weight", {4, 4, 3, 3}));
  EXPECT_TRUE(has_parameter(reflected, "GS1.model.10.conv_block.1.weight", {4, 4, 3, 3}));
  EXPECT_TRUE(has_parameter(without, "D1.model.0.weight", {2, 2, 4, 4}));
}

TEST_F(DeepLiifTest, LogsTheLossesAndImagesOfEachHead) {
  DeepLiif model{Options{tiny}};
  Seen seen;
  model.set_metric_sink(&seen);
  model.set_image_sink(&seen);
  const Batch batch = Pictures{}.gather(torch::arange(2));
  std::map<std::string, double> losses;
  for (const std::string turn : {"D", "G"}) {
    model.set_optimizer_turn(turn);
    losses[turn] = model.training_step(batch, 0).loss.item<double>();
  }
  const auto value = [&](const std::string& name) { return seen.values.at(name); };
  double d = 0, g = 0;
  for (const std::string head : {"1", "2", "S"}) {
    d += (value("D_real_" + head) + value("D_fake_" + head)) / 2 / 3;
    g += (value("G_GAN_" + head) + value("G_L1_" + head)) / 3;
  }
  EXPECT_NEAR(losses["D"], d, 1e-5);
  EXPECT_NEAR(losses["G"], g, 1e-4);
  EXPECT_EQ(seen.values.size(), 12U);
  EXPECT_THAT(names_of(seen.images),
              ElementsAre("fake_B_1", "fake_B_2", "fake_B_S", "real_A", "real_B_1", "real_B_2", "real_B_S"));
  EXPECT_TRUE(torch::allclose(seen.images["real_A"], (batch.inputs[0] + 1) / 2));

  seen.values.clear();
  model.eval();
  model.validation_step(batch, 0);
  EXPECT_THAT(names_of(seen.values), ElementsAre("G_L1_1_val", "G_L1_2_val", "G_L1_S_val", "val_loss"));
  EXPECT_NEAR(value("val_loss"), (value("G_L1_1_val") + value("G_L1_2_val") + value("G_L1_S_val")) / 3, 1e-5);
}

TEST_F(DeepLiifTest, GivesEachTurnTheParametersOfItsNetworksAndTheirRate) {
  DeepLiif model{Options{R"({"modalitiesNo": 1, "netGs": "unet_32", "ngf": 1, "ndf": 1, "lrD": 0.5})"}};
  const auto optimizers = model.configure_named_optimizers({.name = "sgd", .lr = 0.25});
  ASSERT_EQ(optimizers.size(), 2U);
  EXPECT_EQ(optimizers[0].name, "D");
  EXPECT_EQ(optimizers[1].name, "G");
  std::set<const void*> known;
  for (const auto& optimizer : optimizers)
    for (const torch::Tensor& parameter : optimizer.parameters) known.insert(parameter.unsafeGetTensorImpl());
  EXPECT_EQ(known.size(), model.parameters().size());
  const torch::NoGradGuard no_grad;
  for (const auto& [optimizer, rate] : {std::pair{&optimizers[0], 0.5}, std::pair{&optimizers[1], 0.25}}) {
    torch::Tensor parameter = optimizer->parameters.front();
    const torch::Tensor before = parameter.clone();
    parameter.mutable_grad() = torch::ones_like(parameter);
    optimizer->optimizer->step();
    EXPECT_TRUE(torch::allclose(parameter, before - rate));
  }
}

TEST_F(DeepLiifTest, RefusesWrongOptionsAndBatches) {
  const auto refusal = [](const std::string& json, const Batch& batch) -> std::string {
    try {
      DeepLiif model{Options{json}};
      model.set_optimizer_turn("D");
      std::ignore = model.training_step(batch, 0);
    } catch (const InvalidJob& error) {
      return error.what();
    }
    return "none";
  };
  const Batch batch = Pictures{}.gather(torch::arange(1));
  EXPECT_EQ(refusal(tiny, batch), "none");
  EXPECT_THAT(refusal(R"({"channels": 2})", batch), HasSubstr("options.channels: must be 1 or 3, got 2"));
  EXPECT_THAT(refusal(R"({"segWeights": [1]})", batch), HasSubstr("options.segWeights: must be 5 numbers, got 1"));
  EXPECT_THAT(refusal(R"({"modalitiesNo": 1, "ngf": 1, "ndf": 1, "netGs": "unet_32"})", batch),
              HasSubstr("2 target images of each, float [B, 2, 3, H, W], but the data gives inputs float [1, 3, 32, "
                        "32] and targets float [1, 3, 3, 32, 32]; set training.data.format to imagePairs and its "
                        "option panels to 3"));
  EXPECT_THAT(refusal(R"({"modalitiesNo": 2, "ngf": 1, "ndf": 1, "netGs": "unet_64"})", batch),
              HasSubstr("sides are multiples of 64 and at least 48, but the data gives float [1, 3, 32, 32]"));
  EXPECT_THAT(refusal(R"({"modalitiesNo": 2, "ngf": 1, "ndf": 1, "netGs": "unet_32"})", batch),
              HasSubstr("sides are multiples of 32 and at least 48"));
  const char* without_segmentation =
      R"({"modalitiesNo": 3, "segGen": false, "netG": "resnet_1blocks", "ngf": 1, "ndf": 1, "nLayersD": 2})";
  EXPECT_EQ(refusal(without_segmentation, batch), "none") << "netGs, which is unet_512, is not used";
}

TEST_F(DeepLiifTest, TrainsOnTwoRanksAndResumesToTheBit) {
  const Pictures pictures;
  const auto run_until = [&](std::int64_t max_steps, std::int64_t attempt, const fakes::TemporaryFolder* folder) {
    train::TrainingRun run{2};
    torch::manual_seed(1);
    for (auto& rank : run.ranks) rank.other_module = std::make_shared<DeepLiif>(Options{tiny});
    run.training_data = run.validation_data = &pictures;
    run.training.batch_size = 2;
    run.training.max_steps = max_steps;
    run.training.optimizer = {.lr = 2e-3, .beta1 = 0.5};
    run.attempt = attempt;
    if (folder != nullptr) run.checkpoint.emplace().uri = folder->uri() + "/checkpoints";
    run.run();
    EXPECT_EQ(run.ranks[0].end.reason, "Completed") << run.ranks[0].end.message;
    EXPECT_EQ(run.ranks[0].checksum, run.ranks[1].checksum);
    return run.ranks[0].checksum;
  };
  const auto whole = run_until(4, 1, nullptr);
  const fakes::TemporaryFolder folder;
  EXPECT_NE(run_until(2, 1, &folder), whole);
  EXPECT_EQ(run_until(4, 2, &folder), whole);
}

}  // namespace
}  // namespace trainyard::models
