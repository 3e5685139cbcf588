#include "worker/train/open_datasets.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "tests/worker/train/small_module.hpp"
#include "worker/train/program_call.hpp"

namespace trainyard::train {
namespace {

class OpeningModule final : public Module {
 public:
  explicit OpeningModule(std::function<Datasets(const DataSource&)> open) : open_{std::move(open)} {}
  [[nodiscard]] StepOutput training_step(const Batch& /*batch*/, std::int64_t /*batch_index*/) override { return {}; }
  [[nodiscard]] std::optional<Datasets> open_datasets(const DataSource& source) override { return open_(source); }

 private:
  std::function<Datasets(const DataSource&)> open_;
};

class EmptySampler final : public Sampler {
 public:
  [[nodiscard]] std::int64_t size() const override { return 0; }
  [[nodiscard]] torch::Tensor order(std::int64_t /*epoch*/) const override { return torch::empty({0}, torch::kInt64); }
};

TEST(OpenDatasets, TellsTheModuleItsRankForASamplerOfItsOwn) {
  OpeningModule module{[](const DataSource& source) {
    return Datasets{.train = std::make_unique<data::ImageDataset>(make_small_dataset(20, 0)),
                    .sampler = make_sequential_sampler(10 * source.rank + source.world_size)};
  }};
  const auto datasets = open_datasets(module, {}, "", torch::kCPU, {.rank = 1, .world_size = 3});
  ASSERT_TRUE(datasets) << datasets.error().message;
  EXPECT_EQ(datasets->sampler->size(), 13);
}

TEST(OpenDatasets, LetsAnExceptionOfTheModelPassAndNamesTheCall) {
  OpeningModule module{[](const DataSource& /*source*/) -> Datasets { throw std::runtime_error{"no such table"}; }};
  EXPECT_THROW((void)open_datasets(module, {}, "", torch::kCPU, {}), std::runtime_error);
  EXPECT_EQ(failed_call(), "open_datasets()");
}

TEST(OpenDatasets, RefusesASamplerOfNoSamplesWhereItIsUsed) {
  OpeningModule module{[](const DataSource& /*source*/) {
    Datasets datasets;
    datasets.train = std::make_unique<data::ImageDataset>(make_small_dataset(20, 0));
    datasets.validation = std::make_unique<data::ImageDataset>(make_small_dataset(20, 1));
    datasets.sampler = std::make_unique<EmptySampler>();
    return datasets;
  }};
  Job job;
  const auto refused = open_datasets(module, job, "", torch::kCPU, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::invalid);
  EXPECT_EQ(refused.error().message,
            "the sampler of the model's open_datasets() has 0 samples an epoch, and needs at least 1");
  job.training.task = api::Task::validate;
  EXPECT_TRUE(open_datasets(module, job, "", torch::kCPU, {}));
}

}  // namespace
}  // namespace trainyard::train
