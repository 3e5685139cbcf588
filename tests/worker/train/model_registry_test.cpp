#include "worker/train/model_registry.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/worker/train/small_module.hpp"

namespace trainyard::train {
namespace {

TEST(ModelRegistry, MakesANewModelEachTime) {
  ModelRegistry models;
  models.add<SmallModule>("small");
  const auto one = models.make("small");
  const auto two = models.make("small");
  ASSERT_TRUE(one.has_value() && two.has_value());
  EXPECT_NE(*one, *two);
}

TEST(ModelRegistry, NamesTheModelsItKnows) {
  ModelRegistry models;
  models.add<SmallModule>("small");
  models.add<SmallModule>("fashion_cnn");
  const auto made = models.make("resnet50");
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().kind, ErrorKind::invalid);
  EXPECT_EQ(
      made.error().message,
      "training.model.name: no model 'resnet50' here (there is: fashion_cnn, small); for your own use --worker or an "
      "image");
}

TEST(SnakeCase, IsWhatAPersonWouldWrite) {
  const std::vector<std::pair<std::string, std::string>> cases{{"MyModule", "my_module"},
                                                               {"FashionCNN", "fashion_cnn"},
                                                               {"ResNet50", "res_net50"},
                                                               {"GPTModel", "gpt_model"},
                                                               {"mine::deep::Model", "model"},
                                                               {"already_so", "already_so"},
                                                               {"X", "x"}};
  for (const auto& [type, name] : cases) EXPECT_EQ(snake_case(type), name) << type;
}

}  // namespace
}  // namespace trainyard::train
