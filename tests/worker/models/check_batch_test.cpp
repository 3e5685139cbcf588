#include "worker/models/check_batch.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <functional>
#include <string>
#include <vector>

#include "worker/models/fashion_cnn.hpp"
#include "worker/models/gpt2.hpp"
#include "worker/models/resnet.hpp"

namespace trainyard::models {
namespace {

Batch a_batch(torch::Tensor inputs, torch::Tensor targets) {
  const std::int64_t size = inputs.size(0);
  return {.inputs = std::move(inputs), .targets = std::move(targets), .ids = torch::arange(size)};
}

Batch images(std::int64_t channels, std::int64_t side) {
  return a_batch(torch::zeros({2, channels, side, side}), torch::zeros({2}, torch::kInt64));
}

Batch pairs() {
  return a_batch(torch::zeros({2, 3, 40, 40}), torch::zeros({2, 1, 3, 40, 40}));
}

Batch tokens() {
  return a_batch(torch::zeros({2, 6}, torch::kInt64), torch::zeros({2, 6}, torch::kInt64));
}

/// The message of the InvalidJob that `act` throws.
std::string refusal(const std::function<void()>& act) {
  try {
    act();
  } catch (const InvalidJob& error) {
    return error.what();
  }
  return "";
}

TEST(CheckImages, LooksAtTypeAndEachSideAndTheClasses) {
  const ImagesWanted wanted{.model = "m", .channels = 1, .side = 28, .advice = "resize them"};
  const torch::Tensor classes = torch::zeros({2}, torch::kInt64);
  struct Case {
    std::string what;
    torch::Tensor images, targets;
    std::string gives;  // empty: it fits
  };
  const std::vector<Case> cases{
      {"as wanted", torch::zeros({2, 1, 28, 28}), classes, ""},
      {"of double precision", torch::zeros({2, 1, 28, 28}, torch::kDouble), classes, ""},
      {"bytes", torch::zeros({2, 1, 28, 28}, torch::kUInt8), classes, "Byte [2, 1, 28, 28] and targets int64 [2]"},
      {"another height", torch::zeros({2, 1, 29, 28}), classes, "float [2, 1, 29, 28] and targets int64 [2]"},
      {"another width", torch::zeros({2, 1, 28, 29}), classes, "float [2, 1, 28, 29] and targets int64 [2]"},
      {"no batch", torch::zeros({1, 28, 28}), classes, "float [1, 28, 28] and targets int64 [2]"},
      {"nothing", {}, classes, "none and targets int64 [2]"},
      {"classes of 32 bits", torch::zeros({2, 1, 28, 28}), torch::zeros({2}, torch::kInt),
       "float [2, 1, 28, 28] and targets Int [2]"},
      {"no classes", torch::zeros({2, 1, 28, 28}), {}, "float [2, 1, 28, 28] and targets none"},
  };
  for (const Case& c : cases) {
    const std::string message =
        refusal([&] { check_images({.inputs = c.images, .targets = c.targets, .ids = torch::arange(2)}, wanted); });
    EXPECT_EQ(message.empty(), c.gives.empty()) << c.what;
    EXPECT_NE(message.find(c.gives), std::string::npos) << c.what << ": " << message;
  }
}

TEST(CheckPanels, LooksAtEverySizeButTheBatch) {
  const PanelsWanted wanted{.model = "m", .channels = 3, .targets = 2};
  const torch::Tensor inputs = torch::zeros({4, 3, 8, 6});
  struct Case {
    std::string what;
    torch::Tensor inputs, targets;
    bool fits;
  };
  const std::vector<Case> cases{
      {"as wanted", inputs, torch::zeros({4, 2, 3, 8, 6}), true},
      {"one target too few", inputs, torch::zeros({4, 1, 3, 8, 6}), false},
      {"targets of another height", inputs, torch::zeros({4, 2, 3, 9, 6}), false},
      {"targets of another width", inputs, torch::zeros({4, 2, 3, 8, 7}), false},
      {"gray targets", inputs, torch::zeros({4, 2, 1, 8, 6}), false},
      {"whole numbers", inputs, torch::zeros({4, 2, 3, 8, 6}, torch::kInt64), false},
      {"a target without a number", inputs, torch::zeros({4, 3, 8, 6}), false},
      {"no targets", inputs, {}, false},
      {"gray inputs", torch::zeros({4, 1, 8, 6}), torch::zeros({4, 2, 3, 8, 6}), false},
      {"bytes", inputs.to(torch::kUInt8), torch::zeros({4, 2, 3, 8, 6}), false},
      {"no inputs", {}, torch::zeros({4, 2, 3, 8, 6}), false},
  };
  for (const Case& c : cases) {
    const std::string message =
        refusal([&] { check_panels({.inputs = c.inputs, .targets = c.targets, .ids = torch::arange(4)}, wanted); });
    EXPECT_EQ(message.empty(), c.fits) << c.what << ": " << message;
  }
}

TEST(CheckTokens, LooksAtTypeAndLength) {
  const auto fits = [](const torch::Tensor& inputs, const torch::Tensor& targets) {
    return refusal([&] { check_tokens({.inputs = inputs, .targets = targets, .ids = torch::arange(2)}, "m"); }).empty();
  };
  const torch::Tensor six = torch::zeros({2, 6}, torch::kInt64);
  EXPECT_TRUE(fits(six, six));
  EXPECT_FALSE(fits(six, torch::zeros({2, 5}, torch::kInt64)));
  EXPECT_FALSE(fits(six, torch::zeros({2}, torch::kInt64)));
  EXPECT_FALSE(fits(six, torch::zeros({2, 6}, torch::kInt)));
  EXPECT_FALSE(fits(six.to(torch::kInt), six));
  EXPECT_FALSE(fits({}, six));
}

TEST(CheckBatch, RefusesDataThatTheModelCannotTrainOn) {
  FashionCNN fashion;
  ResNet18 resnet{Options{R"({"classes": 4})"}};
  ResNet18 small{Options{R"({"classes": 4, "channels": 1, "smallImages": true})"}};
  Gpt2 gpt2{Options{R"({"layers": 1, "heads": 1, "width": 4, "vocabulary": 11, "sequenceLength": 6, "dropout": 0.0})"}};
  const std::string other = "take another model or another training.data.format";
  const std::string classes = ", and their classes, int64 [B], but the data gives inputs ";
  const std::string of_tokens =
      "the model gpt2 takes tokens and the tokens after them, int64 [B, T] both, but the data gives inputs ";
  struct Case {
    std::string what;
    Module& model;
    Batch batch;
    std::string message;
  };
  const std::vector<Case> cases{
      {"fashion_cnn with its images", fashion, images(1, 28), ""},
      {"fashion_cnn with CIFAR", fashion, images(3, 32),
       "the model fashion_cnn takes images, float [B, 1, 28, 28]" + classes +
           "float [2, 3, 32, 32] and targets int64 [2]; take the model resnet18, or images of that size: fashion_cnn "
           "has no options"},
      {"fashion_cnn with larger images", fashion, images(1, 29),
       "the model fashion_cnn takes images, float [B, 1, 28, 28]" + classes +
           "float [2, 1, 29, 29] and targets int64 [2]; take the model resnet18, or images of that size: fashion_cnn "
           "has no options"},
      {"fashion_cnn with classes in a column", fashion,
       a_batch(torch::zeros({2, 1, 28, 28}), torch::zeros({2, 1}, torch::kInt64)),
       "the model fashion_cnn takes images, float [B, 1, 28, 28]" + classes +
           "float [2, 1, 28, 28] and targets int64 [2, 1]; " + other},
      {"resnet with small images", small, images(1, 32), ""},
      {"resnet with images of one pixel more than small ones", resnet, images(3, 33), ""},
      {"resnet with gray images", resnet, images(1, 40),
       "the model resnet takes images, float [B, 3, H, W]" + classes +
           "float [2, 1, 40, 40] and targets int64 [2]; set training.model.options.channels to the channels of the "
           "images"},
      {"resnet with tokens", resnet, tokens(),
       "the model resnet takes images, float [B, 3, H, W]" + classes + "int64 [2, 6] and targets int64 [2, 6]; " +
           other},
      {"resnet with pairs", resnet, pairs(),
       "the model resnet takes images, float [B, 3, H, W]" + classes +
           "float [2, 3, 40, 40] and targets float [2, 1, 3, 40, 40]; " + other},
      {"resnet with small images that it is not told of", resnet, images(3, 32),
       "the data has images float [2, 3, 32, 32], of which the model's last layer would keep one pixel each: set "
       "training.model.options.smallImages to true, as is usual for CIFAR's 32x32"},
      {"gpt2 with tokens", gpt2, tokens(), ""},
      {"gpt2 with images", gpt2, images(1, 28),
       of_tokens + "float [2, 1, 28, 28] and targets int64 [2]; set training.data.format to tokens, or take another "
                   "model"},
      {"gpt2 without targets", gpt2, a_batch(torch::zeros({2, 6}, torch::kInt64), {}),
       of_tokens + "int64 [2, 6] and targets none; set training.data.format to tokens, or take another model"},
  };
  const torch::NoGradGuard no_grad;
  for (const Case& c : cases) {
    EXPECT_EQ(refusal([&] { (void)c.model.training_step(c.batch, 0); }), c.message) << c.what;
    if (!c.message.empty()) {
      EXPECT_EQ(refusal([&] { c.model.validation_step(c.batch, 0); }), c.message) << c.what << ", in validation";
    }
  }
}

}  // namespace
}  // namespace trainyard::models
