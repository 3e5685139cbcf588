#include "include/trainyard/module.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <stdexcept>
#include <string>
#include <string_view>

#include "worker/observe/images.hpp"

namespace trainyard {
namespace {

class LoggingModule final : public Module {
 public:
  [[nodiscard]] StepOutput training_step(const Batch& /*batch*/, std::int64_t /*batch_index*/) override { return {}; }
  void log_as(const std::string& name) { log(name, 1.0); }
  void show(const torch::Tensor& image) { log_image("image", image); }
};

class LastImage final : public observe::ImageSink {
 public:
  void log_image(std::string_view /*name*/, const torch::Tensor& image) override { last = image; }
  torch::Tensor last;
};

TEST(Module, RefusesMetricsWhoseNameIsNoLine) {
  LoggingModule module;
  for (const std::string name : {"", "two\nlines", " blank", "tab\t"}) {
    EXPECT_THROW(module.log_as(name), std::invalid_argument) << name;
  }
  EXPECT_THROW(module.log_as(std::string(201, 'x')), std::invalid_argument);
  module.log_as("loss/of a long name, " + std::string(150, 'x'));
  try {
    module.log_as("my metric/\xC3\xA4\n");
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(),
                 "log: a name is one line of 1 to 200 bytes, without control characters and without a blank at its "
                 "beginning; this one is \"my metric/\xC3\xA4\\n\", 13 bytes");
  }
}

TEST(Module, RefusesMetricsThatAreNoScalars) {
  LoggingModule module;
  module.log("one", torch::ones({1, 1}));
  for (const auto& [value, what] :
       {std::pair{torch::ones({2, 3}), "Float [2, 3]"}, std::pair{torch::ones({0}), "Float [0]"},
        std::pair{torch::Tensor{}, "no tensor"}}) {
    try {
      module.log("vector", value);
      FAIL() << what;
    } catch (const std::invalid_argument& error) {
      EXPECT_EQ(error.what(), std::string{"log(\"vector\"): a metric is a scalar, and this one is "} + what);
    }
  }
}

TEST(Module, ShowsImagesWithoutTheGraphThatMadeThem) {
  LoggingModule module;
  LastImage sink;
  const torch::Tensor image = torch::rand({1, 2, 3}, torch::requires_grad()) * 0.5;
  module.show(image);
  module.set_image_sink(&sink);
  module.show(image);
  EXPECT_FALSE(sink.last.requires_grad()) << "a sink that keeps the image would keep the step's activations";
  EXPECT_TRUE(torch::equal(sink.last, image));
}

}  // namespace
}  // namespace trainyard
