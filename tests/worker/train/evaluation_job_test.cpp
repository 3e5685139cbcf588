#include "worker/train/evaluation_job.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "api/contract.hpp"
#include "checkpoint/format/safetensors.hpp"
#include "checkpoint/interchange/safetensors_file.hpp"
#include "include/trainyard/options.hpp"
#include "tests/fakes/fake_clock.hpp"
#include "tests/fakes/faulty_store.hpp"
#include "tests/fakes/memory_store.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/worker/fakes/fake_rank_link.hpp"
#include "tests/worker/fakes/plain_wait.hpp"
#include "tests/worker/fakes/rank_threads.hpp"
#include "tests/worker/train/failing_exchange.hpp"
#include "worker/strategy/strategies.hpp"
#include "worker/train/named_tensors.hpp"
#include "worker/train/prediction_files.hpp"
#include "worker/train/program_call.hpp"

namespace trainyard::train {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;

/// Samples whose input is their number times two.
class Doubles final : public Dataset {
 public:
  explicit Doubles(std::int64_t samples) : samples_{samples} {}
  [[nodiscard]] std::int64_t size() const override { return samples_; }
  [[nodiscard]] Batch gather(const torch::Tensor& ids) const override {
    return {.inputs = ids.to(torch::kFloat) * 2, .targets = {}, .ids = ids};
  }

 private:
  std::int64_t samples_;
};

/// Multiplies by its one weight.
class Factor final : public Module {
 public:
  Factor() { register_parameter("weight", weight_); }
  [[nodiscard]] StepOutput training_step(const Batch& /*batch*/, std::int64_t /*batch_index*/) override { return {}; }
  StepOutput validation_step(const Batch& batch, std::int64_t batch_index) override {
    if (on_step) on_step(batch_index);
    EXPECT_FALSE(is_training());
    if (shows_images) show_image();
    log("val_mean", (batch.inputs * weight_).mean());
    log(accuracy, 0.25);
    StepOutput output;
    output.values["rows"] = batch.inputs;
    return output;
  }
  void validation_step_end(StepOutput output) override {
    if (on_step_end) on_step_end(output.values.at("rows").size(0));
  }
  [[nodiscard]] std::map<std::string, torch::Tensor> predict_step(const Batch& batch,
                                                                  std::int64_t batch_index) override {
    if (on_step) on_step(batch_index);
    EXPECT_FALSE(torch::GradMode::is_enabled());
    if (shows_images) show_image();
    return {{"product", batch.inputs * weight_}};
  }

  std::function<void(std::int64_t)> on_step;
  std::function<void(std::int64_t)> on_step_end;  ///< Gets the samples of the batch.
  bool shows_images = false;
  std::string accuracy = "val_accuracy";  ///< The metric's name.

 private:
  void show_image() { log_image("square", torch::full({1, 4, 4}, 0.5)); }

  torch::Tensor weight_ = torch::zeros({1});
};

class EvaluationJobTest : public testing::Test {
 protected:
  EvaluationJobTest() {
    const checkpoint::SafetensorsTensor weight{.name = "weight", .dtype = "F32", .shape = {1}, .bytes = 4};
    std::string content = checkpoint::safetensors_header({&weight, 1}, {});
    const float three = 3.0F;
    content.append(reinterpret_cast<const char*>(&three), sizeof three);
    folder_.write("w.safetensors", content);
    training.model.name = "factor";
    training.model.weights = folder_.uri() + "/w.safetensors";
    training.batch_size = 3;
    for (int rank = 0; rank < 2; ++rank) {
      modules.push_back(std::make_shared<Factor>());
      links.push_back(std::make_unique<fakes::FakeRankLink>());
    }
  }

  /// How each of the two ranks ends.
  std::vector<rank::RankEnd> run() {
    std::vector<rank::RankEnd> ends(2);
    fakes::run_ranks(2, [&](fakes::RankThread& thread) {
      const auto index = static_cast<std::size_t>(thread.rank);
      dist::Group group{.rank = thread.rank,
                        .world_size = thread.world_size,
                        .store = {},
                        .process_group = thread.process_group,
                        .communicator = std::move(thread.communicator),
                        .checkpoint_communicator = std::move(thread.checkpoint_communicator)};
      const bool may_fail = exchange != nullptr && thread.rank == 0;
      const strategy::WaitForWork wait = may_fail ? exchange->wait() : fakes::plain_wait;
      if (may_fail) group.communicator = exchange->watched(std::move(group.communicator));
      Module& module = *modules[index];
      const auto gradients = strategy::make_gradient_sync(named_parameters(module), named_buffers(module), group, wait);
      fakes::FaultyStore store{std::make_unique<fakes::MemoryStore>(objects),
                               [&](std::string_view call, std::string_view key, storage::Pieces) {
                                 return on_call ? on_call(call, key) : std::optional<Error>{};
                               }};
      std::optional<LogFiles> log_files;
      if (!written_logs.empty() && thread.rank == 0)
        log_files.emplace(std::make_unique<fakes::MemoryStore>(objects), clock,
                          logs::WriterSettings{.files = written_logs, .attempt = 1});
      try {
        ends[index] = run_evaluation_job({.training = training,
                                          .module = module,
                                          .data = data,
                                          .gradients = *gradients,
                                          .group = group,
                                          .link = *links[index],
                                          .wait = wait,
                                          .log_files = log_files ? &*log_files : nullptr,
                                          .predictions = &store,
                                          .clock = clock});
      } catch (const InvalidJob& error) {
        ends[index] = {.exit_code = 1, .reason = "Threw", .message = error.what(), .culprit = {}};
        calls[index] = failed_call();
      }
    });
    return ends;
  }

  /// The product of each sample, by its number, from the files that the index lists.
  std::map<std::int64_t, float> predictions() {
    fakes::MemoryStore store{objects};
    const auto index = nlohmann::json::parse(storage::get_text(store, predictions_index).value());
    EXPECT_EQ(index.at("samples"), data.size());
    EXPECT_EQ(index.at("model"), "factor");
    EXPECT_EQ(index.at("weights"), training.model.weights);
    EXPECT_EQ(index.at("files").at(0).at("key"), "predictions/rank-0-of-2-part-0.safetensors");
    EXPECT_EQ(index.at("files").at(1).at("key"), "predictions/rank-1-of-2-part-0.safetensors");
    std::map<std::int64_t, float> products;
    for (const auto& file : index.at("files")) {
      const std::string content = storage::get_text(store, file.at("key").get<std::string>()).value();
      const std::uint64_t length = *checkpoint::read_safetensors_length(content.substr(0, 8));
      const auto entries = checkpoint::parse_safetensors_header(content.substr(8, length)).value();
      const auto count = file.at("samples").get<std::size_t>();
      std::vector<std::int64_t> ids(count);
      std::vector<float> values(count);
      for (const auto& entry : entries) {
        void* into = entry.name == "ids" ? static_cast<void*>(ids.data()) : static_cast<void*>(values.data());
        std::memcpy(into, content.data() + entry.offset, entry.bytes);
      }
      for (std::size_t row = 0; row < count; ++row) {
        EXPECT_TRUE(products.emplace(ids[row], values[row]).second) << ids[row];
      }
    }
    return products;
  }

  fakes::TemporaryFolder folder_;
  api::TrainingSpec training;
  Doubles data{11};
  std::vector<std::shared_ptr<Factor>> modules;
  std::vector<std::string> calls{"", ""};  ///< Of each rank, where it threw.
  std::vector<std::unique_ptr<fakes::FakeRankLink>> links;
  fakes::MemoryObjects objects;
  std::function<std::optional<Error>(std::string_view call, std::string_view key)> on_call;
  FailingExchange* exchange = nullptr;     ///< Of rank 0.
  std::vector<api::LogFile> written_logs;  ///< By rank 0, into `objects`.
  fakes::FakeClock clock;
};

TEST_F(EvaluationJobTest, TestsEachSampleOnceWithTheWeightsOfTheJob) {
  for (const auto& [task, word] : {std::pair{api::Task::test, "tested"}, std::pair{api::Task::validate, "validated"}}) {
    training.task = task;
    // The mean of 2 * 3 * (0 + ... + 10) / 11.
    EXPECT_THAT(
        run(), Each(Field(&rank::RankEnd::message, std::string{word} + " 11 samples, val_accuracy 0.25, val_mean 30")));
    EXPECT_EQ(links[0]->reports().back().phase, "Done");
    EXPECT_EQ(links[0]->reports().back().accuracy, 0.25);
    EXPECT_TRUE(modules[0]->is_training());
  }
}

TEST_F(EvaluationJobTest, NamesTheStepOfTheModelThatFails) {
  for (const auto& module : modules) {
    module->on_step = [](std::int64_t batch_index) {
      if (batch_index == 1) throw InvalidJob{"a batch of no images"};
    };
  }
  for (const auto& [task, function] :
       {std::pair{api::Task::test, "test_step()"}, std::pair{api::Task::validate, "validation_step()"},
        std::pair{api::Task::predict, "predict_step()"}}) {
    training.task = task;
    EXPECT_THAT(run(), Each(Field(&rank::RankEnd::reason, "Threw")));
    EXPECT_THAT(calls, Each(std::string{function} + " in batch 2"));
  }
}

TEST_F(EvaluationJobTest, LogsWhatItBeginsWithOnRankZero) {
  training.task = api::Task::validate;
  testing::internal::CaptureStderr();
  EXPECT_THAT(run(), Each(Field(&rank::RankEnd::reason, "Completed")));
  const std::string log = testing::internal::GetCapturedStderr();
  const std::string line =
      "evaluation begins  task=validate  model=factor  worldSize=2  device=cpu  replicas=1  batchSize=3  samples=11\n";
  const auto found = log.find(line);
  ASSERT_NE(found, std::string::npos) << log;
  EXPECT_EQ(log.find("evaluation begins", found + 1), std::string::npos) << log;
}

TEST_F(EvaluationJobTest, CountsWhatTheEndOfAStepLogsWithTheSamplesOfItsBatch) {
  training.task = api::Task::test;
  for (const auto& module : modules) {
    module->on_step_end = [&module](std::int64_t samples) { module->log("rows", static_cast<double>(samples)); };
  }
  // Rank 0 has six of the 11 samples, and rank 1 five: batches of 3 and 3, and of 3 and 2.
  EXPECT_THAT(run(),
              Each(Field(&rank::RankEnd::message, HasSubstr("rows " + fmt::format("{:.4g}", (9.0 * 3 + 2 * 2) / 11)))));
}

TEST_F(EvaluationJobTest, NamesTheEndOfAStepThatFails) {
  for (const auto& module : modules) {
    module->on_step_end = [](std::int64_t) { throw InvalidJob{"no whole batch"}; };
  }
  for (const auto& [task, function] :
       {std::pair{api::Task::test, "test_step_end()"}, std::pair{api::Task::validate, "validation_step_end()"}}) {
    training.task = task;
    EXPECT_THAT(run(), Each(Field(&rank::RankEnd::reason, "Threw")));
    EXPECT_THAT(calls, Each(std::string{function} + " in batch 1"));
  }
}

TEST_F(EvaluationJobTest, StoresAPredictionForEachSampleAndThenTheIndex) {
  training.task = api::Task::predict;
  for (int repeat = 0; repeat < 2; ++repeat) {
    EXPECT_THAT(run(), Each(Field(&rank::RankEnd::message,
                                  "predicted 11 samples; memory://predictions/index.json lists the files")));
    const auto products = predictions();
    ASSERT_EQ(products.size(), 11U);
    for (const auto& [id, product] : products) EXPECT_EQ(product, static_cast<float>(id) * 6);
  }
}

TEST_F(EvaluationJobTest, LeavesNoIndexWhenAFileCannotBeStored) {
  training.task = api::Task::predict;
  EXPECT_EQ(run()[0].reason, "Completed");
  on_call = [](std::string_view call, std::string_view key) -> std::optional<Error> {
    if (call != "put" || key.find("rank-1") == std::string_view::npos) return std::nullopt;
    return Error{.kind = ErrorKind::unavailable, .message = "the bucket is away", .retry_after = {}};
  };
  const auto ends = run();
  EXPECT_EQ(ends[1].exit_code, contract::exit_storage);
  EXPECT_THAT(ends[1].message, HasSubstr("the bucket is away"));
  EXPECT_NE(ends[0].exit_code, contract::exit_success);
  fakes::MemoryStore store{objects};
  EXPECT_EQ(storage::get_text(store, predictions_index).error().kind, ErrorKind::not_found);
}

TEST_F(EvaluationJobTest, EndsOnAllRanksWhenTheIndexCannotBeStored) {
  training.task = api::Task::predict;
  on_call = [](std::string_view call, std::string_view key) -> std::optional<Error> {
    if (call != "put" || key != predictions_index) return std::nullopt;
    return Error{.kind = ErrorKind::io, .message = "the disk is full", .retry_after = {}};
  };
  EXPECT_THAT(run(), Each(Field(&rank::RankEnd::exit_code, contract::exit_storage)));
}

TEST_F(EvaluationJobTest, StopsOnAllRanksAfterTheSameBatch) {
  training.task = api::Task::test;
  training.batch_size = 1;
  modules[1]->on_step = [&](std::int64_t index) {
    if (index == 1) links[1]->request_stop();
  };
  for (const rank::RankEnd& end : run()) {
    EXPECT_EQ(end.exit_code, contract::exit_preempted);
    EXPECT_THAT(end.message, HasSubstr("stopped as asked after 3 of 6 batches"));
  }
}

TEST_F(EvaluationJobTest, EndsWithTheErrorOfTheWeights) {
  training.task = api::Task::test;
  training.model.weights = folder_.uri() + "/none.safetensors";
  EXPECT_THAT(run(), Each(Field(&rank::RankEnd::exit_code, contract::exit_do_not_restart)));
}

TEST_F(EvaluationJobTest, EndsByTheReportOfTheLaunchersWhicheverExchangeFails) {
  const rank::RankEnd peer_lost{
      .exit_code = contract::exit_peer_lost, .reason = "PeerLost", .message = "rank 1 was killed", .culprit = 1};
  for (const api::Task task : {api::Task::test, api::Task::predict}) {
    training.task = task;
    std::int64_t exchanges = 1;
    for (std::int64_t number = 0; number <= exchanges; ++number) {
      for (auto& link : links) link = std::make_unique<fakes::FakeRankLink>();
      FailingExchange failing{number, [&] {
                                for (auto& link : links) link->break_group(peer_lost);
                              }};
      exchange = &failing;
      const rank::RankEnd end = run()[0];
      if (number == 0) {
        ASSERT_EQ(end.reason, "Completed") << end.message;
        exchanges = failing.count();
      } else {
        EXPECT_EQ(end, peer_lost) << "exchange " << number << " of " << exchanges << ": " << end.message;
      }
    }
  }
}

TEST_F(EvaluationJobTest, EndsAsPeerLostWhereTheWeightsCannotBeSharedWithAPeerThatIsGone) {
  training.task = api::Task::test;
  FailingExchange failing{1, [] {}, ErrorKind::cancelled};
  exchange = &failing;
  EXPECT_EQ(run()[0].exit_code, contract::exit_peer_lost);
}

TEST_F(EvaluationJobTest, ReportsOnceAQuarterOfASecond) {
  training.task = api::Task::test;
  training.batch_size = 1;
  modules[0]->on_step = [this](std::int64_t) { clock.advance(std::chrono::milliseconds{125}); };
  EXPECT_EQ(run()[0].reason, "Completed");
  std::vector<std::int64_t> steps;
  for (const auto& report : links[0]->reports()) {
    if (report.phase == "Validating") steps.push_back(report.step.value_or(0));
  }
  EXPECT_THAT(steps, ElementsAre(0, 2, 4, 6));
}

TEST_F(EvaluationJobTest, WritesItsMetricsIntoTheLogFiles) {
  training.task = api::Task::test;
  written_logs = {api::LogFile::jsonl};
  EXPECT_EQ(run()[0].reason, "Completed");
  std::vector<nlohmann::json> lines;
  for (const auto& [key, bytes] : objects.objects) {
    std::istringstream text{std::string{reinterpret_cast<const char*>(bytes.data()), bytes.size()}};
    for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
  }
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0]["kind"], "start");
  EXPECT_EQ(lines[1]["kind"], "validation");
  EXPECT_EQ(lines[1]["metrics"]["val_mean"], 30.0);
  for (const auto& line : lines) {
    EXPECT_EQ(line["step"], 0);
    EXPECT_EQ(line["epoch"], 1);
  }
}

TEST_F(EvaluationJobTest, WritesTheImagesOfTheModelIntoTheLogFilesInEachTask) {
  written_logs = {api::LogFile::tensorboard};
  modules[0]->shows_images = true;
  for (const api::Task task : {api::Task::validate, api::Task::test, api::Task::predict}) {
    objects.objects.clear();
    training.task = task;
    EXPECT_EQ(run()[0].reason, "Completed");
    std::string events;
    for (const auto& [key, bytes] : objects.objects)
      if (key.starts_with("events.")) events.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    EXPECT_THAT(events, testing::AllOf(HasSubstr("square"), HasSubstr("PNG"))) << "task " << static_cast<int>(task);
  }
}

TEST_F(EvaluationJobTest, TakesTheWeightsOfTheModelWhereTheJobNamesNoOthers) {
  training.task = api::Task::test;
  training.model.weights.clear();
  EXPECT_THAT(run(), Each(Field(&rank::RankEnd::message, "tested 11 samples, val_accuracy 0.25, val_mean 0")));
}

TEST_F(EvaluationJobTest, LeavesTheModuleWithoutARank) {
  training.task = api::Task::test;
  modules[1]->on_step = [this](std::int64_t) { EXPECT_EQ(modules[1]->rank(), 1); };
  EXPECT_EQ(run()[1].reason, "Completed");
  EXPECT_THROW((void)modules[1]->rank(), std::logic_error);
}

TEST(Module, PredictsNothingUnlessItSaysHow) {
  class Silent final : public Module {
    [[nodiscard]] StepOutput training_step(const Batch& /*batch*/, std::int64_t /*batch_index*/) override { return {}; }
  } module;
  EXPECT_THROW((void)module.predict_step({}, 0), InvalidJob);
}

TEST(DataOf, TakesTheTestSetOnlyForTestAndPredict) {
  Datasets datasets{.train = nullptr, .validation = std::make_unique<Doubles>(1)};
  EXPECT_EQ(data_of(api::Task::test, datasets), datasets.validation.get());
  datasets.test = std::make_unique<Doubles>(2);
  EXPECT_EQ(data_of(api::Task::test, datasets), datasets.test.get());
  EXPECT_EQ(data_of(api::Task::predict, datasets), datasets.test.get());
  EXPECT_EQ(data_of(api::Task::validate, datasets), datasets.validation.get());
}

TEST_F(EvaluationJobTest, ReportsTheAccuracyOfATestBesideThatOfAValidation) {
  training.task = api::Task::test;
  for (const std::string name : {"val_accuracy", "test_accuracy", "another"}) {
    for (const auto& module : modules) module->accuracy = name;
    EXPECT_THAT(run(), Each(Field(&rank::RankEnd::reason, "Completed")));
    EXPECT_EQ(links[0]->reports().back().accuracy, name == "another" ? std::nullopt : std::optional{0.25}) << name;
    links[0] = std::make_unique<fakes::FakeRankLink>();
  }
}

}  // namespace
}  // namespace trainyard::train
