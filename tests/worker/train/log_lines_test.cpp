// The lines of a training's log, and the place of its log files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "worker/train/batch_sequence.hpp"
#include "worker/train/log_fields.hpp"
#include "worker/train/log_files.hpp"
#include "worker/train/training_log.hpp"

namespace trainyard::train {
namespace {

using testing::HasSubstr;
using testing::Not;

/// The lines that `act` writes to the log.
std::string log_of(const std::function<void()>& act) {
  testing::internal::CaptureStderr();
  act();
  return testing::internal::GetCapturedStderr();
}

/// 100 samples, which one thread at a time may gather.
class Hundred final : public Dataset {
 public:
  [[nodiscard]] std::int64_t size() const override { return 100; }
  [[nodiscard]] Batch gather(const torch::Tensor& ids) const override {
    return {.inputs = {}, .targets = {}, .ids = ids};
  }
};

std::string beginning_of(const api::TrainingSpec& training, const Computers& computers,
                         const Sampler* sampler = nullptr) {
  const Datasets datasets{.train = std::make_unique<Hundred>()};
  return log_of(
      [&] { log_beginning(training, datasets, make_sampling(training, *datasets.train, sampler, {}), computers); });
}

class Endless final : public IterableDataset {
 public:
  [[nodiscard]] std::unique_ptr<SampleStream> stream(std::int64_t /*epoch*/) const override { return nullptr; }
};

TEST(LogBeginning, HasNoNumbersOfSamplesWhereTheTrainingSetHasNoSize) {
  const Datasets datasets{.train = nullptr, .iterable_train = std::make_unique<Endless>()};
  api::TrainingSpec training;
  training.data.loader_threads = 2;
  const std::string log = log_of([&] { log_beginning(training, datasets, {}, {}); });
  EXPECT_THAT(log, HasSubstr("trainingSamples=null  epochSamples=null\n"));
  EXPECT_THAT(log, HasSubstr("loaderThreads=2  threads=1"));
}

TEST(LogBeginning, SaysHowLargeTheBatchOfAllRanksIs) {
  api::TrainingSpec training;
  training.model.name = "net";
  training.batch_size = 10;
  training.accumulate_grad_batches = 3;
  EXPECT_THAT(beginning_of(training, {.world_size = 4}),
              HasSubstr("model=net  worldSize=4  device=cpu  threadsPerRank="));
  EXPECT_THAT(beginning_of(training, {.world_size = 4}),
              HasSubstr("batchSize=10  effectiveBatchSize=120  trainingSamples=100  epochSamples=100"));
}

TEST(LogBeginning, SaysHowManySamplesOfASamplerAnEpochHas) {
  const auto sampler = make_sequential_sampler(30);
  api::TrainingSpec training;
  EXPECT_THAT(beginning_of(training, {.world_size = 4}, sampler.get()), HasSubstr("epochSamples=30\n"));
  training.data.replace_sampler = false;
  EXPECT_THAT(beginning_of(training, {.world_size = 4}, sampler.get()), HasSubstr("epochSamples=120\n"));
}

TEST(LogBeginning, SaysWhatEachReplicaGetsAndWarnsWhereSomeGetNothing) {
  struct Case {
    std::int64_t batch_size, replicas, of_each;
    bool is_warned;
  };
  for (const auto& [batch_size, replicas, of_each, is_warned] :
       {Case{10, 3, 4, false}, Case{9, 3, 3, false}, Case{9, 4, 3, true}, Case{8, 4, 2, false}, Case{3, 4, 1, true}}) {
    api::TrainingSpec training;
    training.batch_size = batch_size;
    const std::string log = beginning_of(training, {.replicas = replicas});
    EXPECT_THAT(log, HasSubstr("replicas=" + std::to_string(replicas) + "  samplesOfEach=" + std::to_string(of_each)));
    EXPECT_EQ(log.find("some replicas get no samples") != std::string::npos, is_warned)
        << batch_size << " samples for " << replicas << " replicas";
  }
  EXPECT_THAT(beginning_of({}, {}), Not(HasSubstr("replicas")));
}

TEST(LogBeginning, NamesTheRatesThatWouldFollowTheNumberOfRanksWhereTheRateDoesNot) {
  struct Case {
    std::string_view what;
    std::int64_t world_size;
    std::function<void(api::TrainingSpec&)> set;
    bool is_named;
  };
  const Case cases[] = {
      {"four ranks", 4, [](api::TrainingSpec&) {}, true},
      {"one rank", 1, [](api::TrainingSpec&) {}, false},
      {"a rate that follows", 4,
       [](api::TrainingSpec& training) { training.optimizer.lr_scaling = api::LrScaling::linear; }, false},
      {"a sum of gradients", 4,
       [](api::TrainingSpec& training) {
         training.strategy = {.name = api::StrategyName::horovod, .op = api::ReductionOp::sum};
       },
       false},
      {"parameters of each rank's own", 4,
       [](api::TrainingSpec& training) {
         training.strategy = {.name = api::StrategyName::bagua, .algorithm = api::BaguaAlgorithm::decentralized};
       },
       false},
  };
  for (const Case& c : cases) {
    api::TrainingSpec training;
    training.optimizer.lr = 0.1;
    c.set(training);
    const std::string log = beginning_of(training, {.world_size = c.world_size});
    EXPECT_EQ(log.find("lr=0.1  linear=0.4  sqrt=0.2") != std::string::npos, c.is_named) << c.what << ": " << log;
  }
}

TEST(LogBeginning, WarnsWhereTheDataIsReadByFewerThreadsThanTheJobAsksFor) {
  api::TrainingSpec training;
  EXPECT_THAT(beginning_of(training, {}), Not(HasSubstr("fewer threads")));
  training.data.loader_threads = 1;
  EXPECT_THAT(beginning_of(training, {}), Not(HasSubstr("fewer threads")));
  training.data.loader_threads = 4;
  EXPECT_THAT(beginning_of(training, {}), HasSubstr("loaderThreads=4  threads=1"));
}

TEST(LogComplete, HasAllDigitsOfTheChecksum) {
  EXPECT_THAT(
      log_of([] {
        log_complete(7, {{"val_loss", 0.5}}, 1234, 0xff);
      }),
      HasSubstr("step=7  metrics={\"val_loss\":0.5}  exchangedBytes=1234  parametersChecksum=00000000000000ff"));
}

rank::RankProgress fourth_of_nine() {
  rank::RankProgress progress;
  progress.epoch = 2;
  progress.step = 4;
  progress.total_steps = 9;
  return progress;
}

TEST(LogStep, ShowsTheFirstStepWithoutASpeed) {
  const std::string first = log_of([] { log_step(fourth_of_nine(), {{"loss", 0.5}}, {.is_first_step = true}); });
  EXPECT_THAT(first, HasSubstr("step=4  totalSteps=9  loss=0.5"));
  EXPECT_THAT(first, Not(HasSubstr("samplesPerSecond")));
  EXPECT_THAT(first, Not(HasSubstr("metrics="))) << "there are none but the loss";
  const std::string later = log_of([] { log_step(fourth_of_nine(), {{"loss", 0.5}, {"lr", 0.25}}, {}); });
  EXPECT_THAT(later, HasSubstr("epoch=2  step=4  totalSteps=9  loss=0.5  samplesPerSecond=0"));
  EXPECT_THAT(later, HasSubstr("metrics={\"loss\":0.5,\"lr\":0.25}"));
}

TEST(LogStep, HasNoLastStepWhereThatIsNotKnown) {
  rank::RankProgress progress = fourth_of_nine();
  progress.total_steps.reset();
  for (const bool is_first_step : {true, false}) {
    EXPECT_THAT(log_of([&] {
                  log_step(progress, {{"loss", 0.5}}, {.is_first_step = is_first_step});
                }),
                HasSubstr("step=4  totalSteps=null  loss=0.5"));
  }
}

TEST(LogStep, WarnsOfTheFirstLossThatIsNotFinite) {
  for (const bool is_finite : {true, false}) {
    for (const bool was_finite : {true, false}) {
      const double loss = is_finite ? 0.5 : std::nan("");
      const std::string log = log_of([&] {
        log_step(fourth_of_nine(), {{"loss", loss}}, {.was_loss_finite = was_finite});
      });
      EXPECT_EQ(log.find("the loss is not finite; training goes on") != std::string::npos, !is_finite && was_finite);
    }
  }
}

TEST(OpenLogPlace, IsTheLogsUriElseAFolderBesideTheCheckpoints) {
  Job job;
  job.checkpoint.emplace();
  job.checkpoint->uri = "file:///tmp/trainyard-checkpoints";
  const auto beside = open_log_place(job);
  ASSERT_TRUE(beside) << beside.error().message;
  EXPECT_EQ(beside->store->uri_of(beside->folder + "a"), "file:///tmp/trainyard-checkpoints/logs/a");
  job.training.log_uri = "file:///tmp/trainyard-logs";
  const auto own = open_log_place(job);
  ASSERT_TRUE(own) << own.error().message;
  EXPECT_EQ(own->store->uri_of(own->folder + "a"), "file:///tmp/trainyard-logs/a");
}

TEST(OpenLogPlace, HandsTheEncryptionOfTheCheckpointsToTheStore) {
  Job job;
  job.training.log_uri = "s3://models/logs";
  EXPECT_TRUE(open_log_place(job));
  job.checkpoint.emplace();
  job.checkpoint->s3 = {.endpoint = "http://127.0.0.1:9", .server_side_encryption = "AES256", .kms_key_id = "key-1"};
  const auto opened = open_log_place(job);
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("a KMS key is named, but not the encryption"));
}

}  // namespace
}  // namespace trainyard::train
