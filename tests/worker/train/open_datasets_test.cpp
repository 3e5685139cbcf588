#include "worker/train/open_datasets.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/fakes/fake_clock.hpp"
#include "tests/worker/fakes/fake_rank_link.hpp"
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

/// A sampler that says how many samples an epoch has, and has none.
class EmptySampler final : public Sampler {
 public:
  explicit EmptySampler(std::int64_t size) : size_{size} {}
  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] torch::Tensor order(std::int64_t /*epoch*/) const override { return torch::empty({0}, torch::kInt64); }

 private:
  std::int64_t size_;
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

TEST(OpenDatasets, RefusesASamplerOfNoOrTooManySamplesWhereItIsUsed) {
  std::int64_t size = 0;
  OpeningModule module{[&size](const DataSource& /*source*/) {
    Datasets datasets;
    datasets.train = std::make_unique<data::ImageDataset>(make_small_dataset(20, 0));
    datasets.validation = std::make_unique<data::ImageDataset>(make_small_dataset(20, 1));
    datasets.sampler = std::make_unique<EmptySampler>(size);
    return datasets;
  }};
  Job job;
  const auto refused = open_datasets(module, job, "", torch::kCPU, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::invalid);
  EXPECT_EQ(refused.error().message,
            "the sampler of the model's open_datasets() has 0 samples an epoch, and needs at least 1");
  size = 1'000'000'000'000'001;
  EXPECT_EQ(
      open_datasets(module, job, "", torch::kCPU, {}).error().message,
      "the sampler of the model's open_datasets() has 1000000000000001 samples an epoch: at most 1000000000000000 "
      "are allowed");
  job.training.task = api::Task::validate;
  EXPECT_TRUE(open_datasets(module, job, "", torch::kCPU, {}));
}

TEST(OpenDatasets, TellsTheModelWhatTheJobSaysOfItsData) {
  OpeningModule module{[](const DataSource& source) {
    EXPECT_EQ(source.format, "idx");
    EXPECT_EQ(source.folder, "/data/flowers");
    EXPECT_EQ(source.samples, 123);
    EXPECT_EQ(source.seed, 7);
    EXPECT_EQ(source.device, torch::Device{torch::kMeta});
    EXPECT_EQ(source.options.integer("width"), 5);
    return Datasets{.train = std::make_unique<data::ImageDataset>(make_small_dataset(20, 0))};
  }};
  Job job;
  job.training.seed = 7;
  job.training.data = {.format = api::DataFormat::idx, .samples = 123, .options = {{"width", 5}}};
  EXPECT_TRUE(open_datasets(module, job, "/data/flowers", torch::kMeta, {}));
}

TEST(OpenDatasets, NeedsSamplesForTheTaskOfTheJob) {
  const auto no_samples = [] {
    return std::make_unique<data::ImageDataset>(torch::zeros({0, 1, 2, 2}, torch::kUInt8),
                                                torch::zeros({0}, torch::kInt64));
  };
  const auto samples = [] { return std::make_unique<data::ImageDataset>(make_small_dataset(20, 0)); };
  struct Case {
    api::Task task;
    std::function<Datasets(const DataSource&)> open;
    std::string message;
  };
  const std::string reader = "the model's open_datasets() gave no ";
  const std::vector<Case> cases{
      {api::Task::fit, [](const DataSource&) { return Datasets{}; }, reader + "training samples"},
      {api::Task::fit, [&](const DataSource&) { return Datasets{.train = no_samples(), .validation = samples()}; },
       reader + "training samples"},
      {api::Task::test, [&](const DataSource&) { return Datasets{.train = samples()}; },
       reader + "validation or test samples"},
      {api::Task::validate,
       [&](const DataSource&) { return Datasets{.train = samples(), .validation = no_samples(), .test = samples()}; },
       reader + "validation or test samples"},
      {api::Task::predict, [&](const DataSource&) { return Datasets{.train = nullptr, .test = samples()}; }, ""},
  };
  for (const Case& c : cases) {
    OpeningModule module{c.open};
    Job job;
    job.training.task = c.task;
    const auto opened = open_datasets(module, job, "", torch::kCPU, {});
    EXPECT_EQ(opened ? "" : opened.error().message, c.message);
    if (!opened) {
      EXPECT_EQ(opened.error().kind, ErrorKind::invalid);
    }
  }
}

class NoStreams final : public IterableDataset {
 public:
  [[nodiscard]] std::unique_ptr<SampleStream> stream(std::int64_t /*epoch*/) const override { return nullptr; }
};

TEST(OpenDatasets, TakesATrainingSetWithoutASizeAloneAndWhereItsStepsAreKnownIfTheyMustBe) {
  struct Case {
    std::string what;
    bool has_train = false;
    bool has_sampler = false;
    api::LrScheduleName schedule = api::LrScheduleName::constant;
    std::string message{};
  };
  const std::string reader = "the model's open_datasets() gave ";
  const std::vector<Case> cases{
      {.what = "alone"},
      {.what = "beside another",
       .has_train = true,
       .message = reader + "two training sets, train and iterable_train: give one of them"},
      {.what = "with a sampler",
       .has_sampler = true,
       .message = reader + "a sampler with iterable_train, whose samples have no numbers to draw: its streams give the "
                           "order themselves"},
      {.what = "with a schedule that ends",
       .schedule = api::LrScheduleName::cosine,
       .message = "training.lrSchedule.name cosine needs the number of the last step, which a training set without a "
                  "size does not tell: set training.maxSteps"},
  };
  for (const Case& c : cases) {
    OpeningModule module{[&](const DataSource& /*source*/) {
      Datasets datasets;
      datasets.iterable_train = std::make_unique<NoStreams>();
      if (c.has_train) datasets.train = std::make_unique<data::ImageDataset>(make_small_dataset(20, 0));
      if (c.has_sampler) datasets.sampler = make_sequential_sampler(3);
      return datasets;
    }};
    Job job;
    job.training.lr_schedule.name = c.schedule;
    const auto opened = open_datasets(module, job, "", torch::kCPU, {});
    EXPECT_EQ(opened ? "" : opened.error().message, c.message) << c.what;
    if (!opened) {
      EXPECT_EQ(opened.error().kind, ErrorKind::invalid) << c.what;
    }
    job.training.task = api::Task::validate;
    EXPECT_FALSE(open_datasets(module, job, "", torch::kCPU, {})) << c.what << ": there is no validation set";
  }
}

TEST(FindData, IsTheFolderOfTheJobWhereItIsOnThisMachine) {
  fakes::FakeRankLink link;
  const fakes::FakeClock clock;
  const auto found = [&](const api::DataSpec& data) {
    Job job;
    job.training.data = data;
    return find_data(job, link, clock, {});
  };
  EXPECT_EQ(found({.path = "/data/flowers"}), "/data/flowers");
  EXPECT_EQ(found({.path = "/ignored", .uri = "file:///data/trees"}), "/data/trees");
  EXPECT_EQ(found({.uri = "abfs://models/x"}).error().kind, ErrorKind::invalid);
}

TEST(ReadOptions, AreThoseOfTheCheckpointsStorage) {
  Job job;
  EXPECT_EQ(read_options(job).endpoint, "");
  EXPECT_EQ(read_options(job).path_style, std::nullopt);
  job.checkpoint.emplace();
  job.checkpoint->s3 = {.endpoint = "http://minio:9000", .region = "eu-west-1", .path_style = false};
  const storage::S3Options options = read_options(job);
  EXPECT_EQ(options.endpoint, "http://minio:9000");
  EXPECT_EQ(options.region, "eu-west-1");
  EXPECT_EQ(options.path_style, false);
}

}  // namespace
}  // namespace trainyard::train
