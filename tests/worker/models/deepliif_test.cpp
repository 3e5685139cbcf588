#include "worker/models/deepliif.hpp"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/fakes/temporary_folder.hpp"
#include "tests/worker/models/filled_parameters.hpp"
#include "tests/worker/models/logged_values.hpp"
#include "tests/worker/train/training_run.hpp"

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
  LoggedValues seen;
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

TEST_F(DeepLiifTest, TakesTheRateOfTheGeneratorsAlone) {
  DeepLiif model{Options{R"({"modalitiesNo": 1, "netGs": "unet_32", "ngf": 1, "ndf": 1, "lrG": 0.5})"}};
  const auto optimizers = model.configure_named_optimizers({.name = "sgd", .lr = 0.25});
  const torch::NoGradGuard no_grad;
  for (const auto& [optimizer, rate] : {std::pair{&optimizers[0], 0.25}, std::pair{&optimizers[1], 0.5}}) {
    torch::Tensor parameter = optimizer->parameters.front();
    const torch::Tensor before = parameter.clone();
    parameter.mutable_grad() = torch::ones_like(parameter);
    optimizer->optimizer->step();
    EXPECT_TRUE(torch::allclose(parameter, before - rate)) << optimizer->name;
  }
}

TEST_F(DeepLiifTest, ReadsEachOptionToItsPlace) {
  const DeepLiifSettings usual = read_deepliif_settings(Options{});
  EXPECT_EQ(usual.modalities, 4);
  EXPECT_TRUE(usual.has_segmentation);
  EXPECT_EQ(usual.generator, "resnet_9blocks");
  EXPECT_EQ(usual.segmentation_generator, "unet_512");
  EXPECT_EQ(usual.norm, Norm::batch);
  EXPECT_TRUE(usual.has_dropout);
  EXPECT_FALSE(usual.is_reflected);
  EXPECT_EQ(usual.l1_factor, 100);
  EXPECT_EQ(usual.mode, GanMode::vanilla);
  EXPECT_EQ(usual.segmentation_mode, GanMode::lsgan);
  EXPECT_THAT(usual.segmentation_weights, ElementsAre(0.25, 0.15, 0.25, 0.1, 0.25));
  EXPECT_THAT(usual.generator_weights, ElementsAre(0.2, 0.2, 0.2, 0.2, 0.2));
  EXPECT_THAT(usual.discriminator_weights, ElementsAre(0.2, 0.2, 0.2, 0.2, 0.2));

  const DeepLiifSettings own = read_deepliif_settings(
      Options{R"({"modalitiesNo": 1, "segGen": true, "channels": 1, "netG": "unet_64", "netGs": "unet_32", "ngf": 5,
                  "ndf": 7, "nLayersD": 3, "norm": "instance", "dropout": false, "padding": "reflect", "lambdaL1": 9,
                  "ganMode": "lsgan", "ganModeS": "vanilla", "segWeights": [0.25, 0.75], "lossWeightsG": [1, 2],
                  "lossWeightsD": [3, 4]})"});
  EXPECT_EQ(own.modalities, 1);
  EXPECT_EQ(own.image_channels, 1);
  EXPECT_EQ(own.generator, "unet_64");
  EXPECT_EQ(own.segmentation_generator, "unet_32");
  EXPECT_EQ(own.generator_filters, 5);
  EXPECT_EQ(own.discriminator_filters, 7);
  EXPECT_EQ(own.discriminator_layers, 3);
  EXPECT_EQ(own.norm, Norm::instance);
  EXPECT_FALSE(own.has_dropout);
  EXPECT_TRUE(own.is_reflected);
  EXPECT_EQ(own.l1_factor, 9);
  EXPECT_EQ(own.mode, GanMode::lsgan);
  EXPECT_EQ(own.segmentation_mode, GanMode::vanilla);
  EXPECT_THAT(own.segmentation_weights, ElementsAre(0.25, 0.75));
  EXPECT_THAT(own.generator_weights, ElementsAre(1, 2));
  EXPECT_THAT(own.discriminator_weights, ElementsAre(3, 4));

  EXPECT_EQ(read_deepliif_settings(Options{R"({"norm": "none"})"}).norm, Norm::none);
  EXPECT_THAT(read_deepliif_settings(Options{R"({"modalitiesNo": 1})"}).segmentation_weights, ElementsAre(0.5, 0.5));
  EXPECT_THAT(read_deepliif_settings(Options{R"({"modalitiesNo": 2, "segGen": false})"}).generator_weights,
              ElementsAre(0.5, 0.5));
}

/// Makes every discriminator of `model` give the logit `logit` for each part of any image.
void fix_logits(DeepLiif& model, double logit) {
  const torch::NoGradGuard no_grad;
  for (const auto& network : model.named_children()) {
    if (!network.key().starts_with("D")) continue;
    torch::Tensor last;
    for (torch::Tensor& parameter : network.value()->parameters()) {
      parameter.zero_();
      last = parameter;  // The bias of the last convolution.
    }
    last.fill_(logit);
  }
}

TEST_F(DeepLiifTest, JudgesByTheLossesOfPix2pix) {
  DeepLiif model{Options{
      R"({"modalitiesNo": 2, "netG": "resnet_1blocks", "netGs": "unet_32", "ngf": 2, "ndf": 2, "nLayersD": 2,
          "dropout": false, "segWeights": [0.25, 0.25, 0], "lossWeightsD": [1, 0, 0], "lossWeightsG": [0, 0, 1]})"}};
  fix_logits(model, 2.0);
  LoggedValues seen;
  model.set_metric_sink(&seen);
  model.set_image_sink(&seen);
  const Batch batch = Pictures{}.gather(torch::arange(1));
  model.set_optimizer_turn("D");
  const double d = model.training_step(batch, 0).loss.item<double>();
  model.set_optimizer_turn("G");
  const double g = model.training_step(batch, 0).loss.item<double>();
  const auto value = [&](const std::string& name) { return seen.values.at(name); };
  // Cross-entropy of the logit 2: ln(1 + e^-2) for a real image, and 2 more for a fake one.
  EXPECT_NEAR(value("D_real_1"), 0.126928, 1e-5);
  EXPECT_NEAR(value("D_fake_1"), 2.126928, 1e-5);
  EXPECT_NEAR(value("G_GAN_2"), 0.126928, 1e-5);
  // The segmentation's logit is 2 x (0.25 + 0.25), of which the squared distance from 1 and 0 is taken.
  EXPECT_NEAR(value("D_real_S"), 0, 1e-5);
  EXPECT_NEAR(value("D_fake_S"), 1, 1e-5);
  EXPECT_NEAR(value("G_GAN_S"), 0, 1e-5);
  for (const auto& [head, place] : {std::pair{std::string{"1"}, 0}, {"2", 1}, {"S", 2}}) {
    const torch::Tensor fake = seen.images.at("fake_B_" + head) * 2 - 1;
    const torch::Tensor real = batch.targets[0][place];
    EXPECT_TRUE(torch::allclose(seen.images.at("real_B_" + head) * 2 - 1, real, 1e-4, 1e-4)) << head;
    const double distance = torch::smooth_l1_loss(fake, real).item<double>();
    EXPECT_NEAR(value("G_L1_" + head), 100 * distance, 1e-2) << head;
  }
  EXPECT_NEAR(d, (value("D_real_1") + value("D_fake_1")) / 2, 1e-5);
  EXPECT_NEAR(g, value("G_GAN_S") + value("G_L1_S"), 1e-3);
  model.validation_step(batch, 0);
  EXPECT_NEAR(value("val_loss"), value("G_L1_S_val"), 1e-3);
}

TEST_F(DeepLiifTest, GivesEachTurnGradientsForItsOwnNetworksAlone) {
  DeepLiif model{Options{tiny}};
  const Batch batch = Pictures{}.gather(torch::arange(1));
  for (const std::string turn : {"D", "G"}) {
    for (torch::Tensor& parameter : model.parameters()) parameter.mutable_grad().reset();
    model.set_optimizer_turn(turn);
    model.training_step(batch, 0).loss.backward();
    for (const auto& item : model.named_parameters())
      EXPECT_EQ(item.value().grad().defined(), item.key().starts_with(turn)) << turn << " " << item.key();
  }
}

TEST_F(DeepLiifTest, JudgesASegmentationBesideTheInputAndEachModality) {
  for (const std::int64_t number : {0, 1, 2}) {
    std::vector<double> weights(3, 0.0);
    weights[static_cast<std::size_t>(number)] = 1.0;
    DeepLiif model{Options{fmt::format(
        R"({{"modalitiesNo": 2, "netG": "resnet_1blocks", "netGs": "unet_32", "ngf": 2, "ndf": 2, "nLayersD": 2,
             "dropout": false, "lossWeightsD": [0, 0, 1], "segWeights": [{}]}})",
        fmt::join(weights, ", "))}};
    Batch batch = Pictures{}.gather(torch::arange(1));
    batch.targets.requires_grad_();
    model.set_optimizer_turn("D");
    model.training_step(batch, 0).loss.backward();
    const torch::Tensor moved = batch.targets.grad().abs().flatten(2).sum(2)[0];
    EXPECT_EQ(moved[0].item<float>() > 0, number == 1) << number;
    EXPECT_EQ(moved[1].item<float>() > 0, number == 2) << number;
    EXPECT_GT(moved[2].item<float>(), 0) << "the segmentation itself";
  }
}

TEST_F(DeepLiifTest, ShowsALargeImageSmaller) {
  DeepLiif model{Options{R"({"modalitiesNo": 1, "segGen": false, "netG": "resnet_1blocks", "ngf": 1, "ndf": 1,
                             "nLayersD": 1, "dropout": false})"}};
  LoggedValues seen;
  model.set_image_sink(&seen);
  for (const auto& [side, shown] : {std::pair{256, 256}, std::pair{260, 130}}) {
    const torch::Tensor inputs = torch::rand({1, 3, 8, side});
    const Batch batch{.inputs = inputs, .targets = torch::rand({1, 1, 3, 8, side}), .ids = torch::arange(1)};
    for (const std::string turn : {"D", "G"}) {
      model.set_optimizer_turn(turn);
      std::ignore = model.training_step(batch, 0);
    }
    EXPECT_EQ(seen.images.at("real_A").sizes(), (torch::IntArrayRef{3, 8 * shown / side, shown}));
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
