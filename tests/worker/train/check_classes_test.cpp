#include "worker/train/open_datasets.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "worker/data/image_dataset.hpp"
#include "worker/train/program_call.hpp"

namespace trainyard::train {
namespace {

class Classifier final : public Module {
 public:
  explicit Classifier(std::int64_t classes) : classes_{classes} {}
  [[nodiscard]] StepOutput training_step(const Batch& /*batch*/, std::int64_t /*batch_index*/) override { return {}; }
  [[nodiscard]] std::int64_t classes() const override { return classes_; }

 private:
  std::int64_t classes_;
};

std::unique_ptr<Dataset> labeled(std::int64_t label) {
  return std::make_unique<data::ImageDataset>(torch::zeros({2, 1, 2, 2}, torch::kUInt8),
                                              torch::tensor({std::int64_t{0}, label}, torch::kInt64));
}

TEST(CheckClasses, RefusesDataWithMoreClassesThanTheModelHas) {
  struct Case {
    std::string what;
    std::int64_t model, training, validation;
    std::string message;
  };
  const std::string advice = "; set its option in training.model.options, or take other data";
  const std::vector<Case> cases{
      {"the last class", 10, 9, 9, ""},
      {"one more", 10, 10, 9,
       "the training set has labels up to 10, but the model tells only 10 classes apart (0 to 9)" + advice},
      {"one more in validation", 10, 3, 10,
       "the validation set has labels up to 10, but the model tells only 10 classes apart (0 to 9)" + advice},
      {"a model that does not say", 0, 99, 99, ""},
  };
  for (const Case& c : cases) {
    Datasets datasets;
    datasets.train = labeled(c.training);
    datasets.validation = labeled(c.validation);
    const auto checked = check_classes(Classifier{c.model}, datasets);
    EXPECT_EQ(checked ? "" : checked.error().message, c.message) << c.what;
  }
  Datasets with_test;
  with_test.train = labeled(1);
  with_test.test = labeled(2);
  const auto checked = check_classes(Classifier{2}, with_test);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().kind, ErrorKind::invalid);
  EXPECT_EQ(checked.error().message,
            "the test set has labels up to 2, but the model tells only 2 classes apart (0 to 1)" + advice);
  struct LabeledStreams final : IterableDataset {
    [[nodiscard]] std::unique_ptr<SampleStream> stream(std::int64_t /*epoch*/) const override { return nullptr; }
    [[nodiscard]] std::int64_t classes() const override { return 3; }
  };
  EXPECT_EQ(check_classes(Classifier{2}, {.train = nullptr, .iterable_train = std::make_unique<LabeledStreams>()})
                .error()
                .message,
            "the training set has labels up to 2, but the model tells only 2 classes apart (0 to 1)" + advice);
  Datasets without_validation;
  without_validation.train = labeled(1);
  EXPECT_TRUE(check_classes(Classifier{2}, without_validation));
}

/// A data set whose classes() throws.
class UnclassifiedSet final : public Dataset {
 public:
  [[nodiscard]] std::int64_t size() const override { return 1; }
  [[nodiscard]] Batch gather(const torch::Tensor& /*ids*/) const override { return {}; }
  [[nodiscard]] std::int64_t classes() const override { throw std::runtime_error{"the list of classes is missing"}; }
};

TEST(CheckClasses, NamesTheCallThatThrew) {
  Datasets datasets;
  datasets.validation = std::make_unique<UnclassifiedSet>();
  EXPECT_THROW(static_cast<void>(check_classes(Classifier{2}, datasets)), std::runtime_error);
  EXPECT_EQ(failed_call(), "classes() of the validation set");
}

}  // namespace
}  // namespace trainyard::train
