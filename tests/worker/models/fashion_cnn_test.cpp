#include "worker/models/fashion_cnn.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/worker/models/logged_values.hpp"
#include "worker/data/image_dataset.hpp"
#include "worker/data/synthetic.hpp"
#include "worker/observe/images.hpp"

namespace trainyard::models {
namespace {

TEST(FashionCNN, HasTheCoursesParameters) {
  const FashionCNN model;
  std::int64_t count = 0;
  for (const torch::Tensor& parameter : model.parameters()) count += parameter.numel();
  EXPECT_EQ(count, 1'475'338);
  EXPECT_TRUE(model.named_parameters().contains("layer1.0.weight"));
  EXPECT_TRUE(model.named_buffers().contains("layer2.1.running_var"));
}

TEST(FashionCNN, GivesTenLogitsAnImage) {
  FashionCNN model;
  EXPECT_EQ(model.forward(torch::rand({3, 1, 28, 28})).sizes(), (torch::IntArrayRef{3, 10}));
}

TEST(FashionCNN, DropsSingleFeaturesWhileItTrainsAndNoWholeSample) {
  torch::manual_seed(0);
  FashionCNN model;
  // A sample without any feature has the logits of the later biases, like every other such sample.
  const torch::Tensor logits = model.forward(torch::rand({64, 1, 28, 28}));
  EXPECT_EQ(std::get<0>(torch::unique_dim(logits, 0)).size(0), 64);
  model.eval();
  const torch::Tensor image = torch::rand({1, 1, 28, 28});
  EXPECT_TRUE(model.forward(image).equal(model.forward(image)));
}

class ImageShelf final : public observe::ImageSink {
 public:
  void log_image(std::string_view name, const torch::Tensor& image) override {
    names.emplace_back(name);
    last = image;
  }
  std::vector<std::string> names;
  torch::Tensor last;
};

TEST(FashionCNN, FramesTheFirstValidationImagesGreenIfTheirClassIsFound) {
  torch::manual_seed(0);
  FashionCNN model;
  model.eval();
  ImageShelf shelf;
  model.set_image_sink(&shelf);
  const auto images = data::make_synthetic_images(20, 0, data::Part::validation);
  const Batch batch = data::ImageDataset{images.images, images.labels}.gather(torch::arange(20));
  const torch::NoGradGuard no_grad;
  model.validation_step(batch, 0);
  model.validation_step(batch, 1);
  ASSERT_EQ(shelf.names, std::vector<std::string>{"validation"});
  ASSERT_EQ(shelf.last.sizes(), (torch::IntArrayRef{16, 3, 32, 32}));
  const torch::Tensor inner = shelf.last.slice(2, 2, 30).slice(3, 2, 30);
  for (std::int64_t channel = 0; channel < 3; ++channel) {
    EXPECT_TRUE(inner.select(1, channel).equal(batch.inputs.slice(0, 0, 16).select(1, 0)));
  }
  const torch::Tensor is_right = model.forward(batch.inputs).argmax(1).eq(batch.targets);
  for (std::int64_t i = 0; i < 16; ++i) {
    const bool right = is_right[i].item<bool>();
    for (const auto& [y, x] : {std::pair{0, 0}, std::pair{1, 17}, std::pair{31, 31}, std::pair{16, 30}}) {
      EXPECT_EQ(shelf.last[i][0][y][x].item<float>(), right ? 0 : 1) << i;
      EXPECT_EQ(shelf.last[i][1][y][x].item<float>(), right ? 1 : 0) << i;
      EXPECT_EQ(shelf.last[i][2][y][x].item<float>(), 0) << i;
    }
  }
  Batch small = batch;
  small.inputs = batch.inputs.slice(0, 0, 3);
  small.targets = batch.targets.slice(0, 0, 3);
  model.validation_step(small, 0);
  EXPECT_EQ(shelf.last.size(0), 3);
}

TEST(FashionCNN, ValidatesAndPredictsByItsLargestLogit) {
  torch::manual_seed(0);
  FashionCNN model;
  model.eval();
  LoggedValues logged;
  model.set_metric_sink(&logged);
  Batch batch{.inputs = torch::rand({5, 1, 28, 28}), .targets = {}, .ids = torch::arange(5)};
  const torch::NoGradGuard no_grad;
  const torch::Tensor logits = model.forward(batch.inputs);
  batch.targets = logits.argmax(1);
  batch.targets[3] = (batch.targets[3] + 1) % 10;
  model.validation_step(batch, 1);
  EXPECT_NEAR(logged.values.at("val_accuracy"), 0.8, 1e-6);
  EXPECT_NEAR(logged.values.at("val_loss"), torch::cross_entropy_loss(logits, batch.targets).item<double>(), 1e-6);
  const auto predicted = model.predict_step(batch, 0);
  EXPECT_EQ(predicted.size(), 2U);
  EXPECT_TRUE(predicted.at("class").equal(logits.argmax(1)));
  EXPECT_TRUE(predicted.at("logits").equal(logits));
}

TEST(FashionCNN, LearnsAFewImagesByHeart) {
  torch::manual_seed(0);
  FashionCNN model;
  const auto images = data::make_synthetic_images(32, 0, data::Part::train);
  const Batch batch = data::ImageDataset{images.images, images.labels}.gather(torch::arange(32));
  const auto optimizer = model.configure_optimizers({});
  double first = 0.0;
  double last = 0.0;
  for (int step = 0; step < 15; ++step) {
    for (torch::Tensor& parameter : model.parameters()) parameter.mutable_grad().reset();
    const torch::Tensor loss = model.training_step_end(model.training_step(batch, step));
    loss.backward();
    optimizer->step();
    last = loss.item<double>();
    if (step == 0) first = last;
  }
  EXPECT_LT(last, first / 5);
}

}  // namespace
}  // namespace trainyard::models
