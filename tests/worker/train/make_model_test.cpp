#include "worker/train/make_model.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/worker/train/small_module.hpp"
#include "worker/train/program_call.hpp"

namespace trainyard::train {
namespace {

using nlohmann::json;

/// A model with options.
class SizedModule final : public Module {
 public:
  explicit SizedModule(const Options& options)
      : width{options.integer("width", 8, {.min = 1, .max = 64})}, dropout{options.number("dropout", 0.0)} {}
  [[nodiscard]] StepOutput training_step(const Batch& /*batch*/, std::int64_t /*batch_index*/) override { return {}; }

  std::int64_t width;
  double dropout;
};

Models both_models() {
  Models models;
  models.add<SmallModule>("small");
  models.add<SizedModule>("sized");
  return models;
}

std::string refusal(const std::string& name, const json& options) {
  const auto made = make_model(both_models(), {.name = name, .options = options});
  if (made) return "";
  EXPECT_EQ(made.error().kind, ErrorKind::invalid);
  return made.error().message;
}

TEST(MakeModel, MakesANewModelEachTime) {
  const Models models = both_models();
  const auto one = make_model(models, {.name = "small"});
  const auto two = make_model(models, {.name = "small"});
  ASSERT_TRUE(one.has_value() && two.has_value());
  EXPECT_NE(*one, *two);
}

TEST(MakeModel, NamesTheModelsItKnows) {
  EXPECT_EQ(refusal("resnet50", json::object()),
            "training.model.name: no model 'resnet50' here (there is: sized, small); for your own use --worker or an "
            "image");
}

TEST(MakeModel, PassesTheJobsOptionsToTheConstructor) {
  const auto made = make_model(both_models(), {.name = "sized", .options = {{"width", 16}}});
  ASSERT_TRUE(made.has_value()) << made.error().message;
  const auto& model = dynamic_cast<const SizedModule&>(**made);
  EXPECT_EQ(model.width, 16);
  EXPECT_EQ(model.dropout, 0.0);
}

TEST(MakeModel, RefusesOptionsThatTheModelRefusesOrDoesNotHave) {
  EXPECT_EQ(refusal("sized", {{"width", 65}}),
            "training.model.options.width: must be a whole number from 1 to 64, got 65");
  EXPECT_EQ(refusal("sized", {{"widht", 16}}),
            "training.model.options.widht: the model has no such option; did you mean width?");
  EXPECT_EQ(refusal("sized", {{"colour", "red"}}),
            "training.model.options.colour: the model has no such option; it has dropout, width");
  EXPECT_EQ(refusal("small", {{"width", 16}}),
            "training.model.options.width: the model has no such option; it has none here");
}

TEST(MakeModel, LetsOtherFailuresOfAConstructorPass) {
  Models models;
  models.add("broken", [](const Options&) -> std::shared_ptr<Module> { throw std::runtime_error{"no such file"}; });
  EXPECT_THROW((void)make_model(models, {.name = "broken"}), std::runtime_error);
  EXPECT_EQ(failed_call(), "the constructor of the model broken");
}

TEST(MakeModel, RefusesAFactoryThatMakesNothing) {
  Models models;
  models.add("nothing", [](const Options&) { return std::shared_ptr<Module>{}; });
  const auto made = make_model(models, {.name = "nothing"});
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().message, "the program makes no model for the name 'nothing'");
}

TEST(SnakeCase, IsWhatAPersonWouldWrite) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"MyModule", "my_module"},      {"FashionCNN", "fashion_cnn"},
      {"ResNet50", "res_net50"},      {"GPTModel", "gpt_model"},
      {"mine::deep::Model", "model"}, {"already_so", "already_so"},
      {"My_Module", "my_module"},     {"X", "x"}};
  for (const auto& [type, name] : cases) EXPECT_EQ(snake_case(type), name) << type;
}

}  // namespace
}  // namespace trainyard::train
