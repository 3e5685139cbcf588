#include "worker/models/fashion_cnn.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "worker/data/image_dataset.hpp"
#include "worker/data/synthetic.hpp"

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

TEST(FashionCNN, LearnsAFewImagesByHeart) {
  torch::manual_seed(0);
  FashionCNN model;
  const auto images = data::make_synthetic_images(32, 0, 0);
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
