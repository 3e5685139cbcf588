// Log files of a training.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "api/contract.hpp"
#include "tests/worker/train/saving_run.hpp"
#include "worker/train/log_fields.hpp"
#include "worker/train/trainer.hpp"

namespace trainyard::train {
namespace {

using nlohmann::json;

/// A run that logs each step and writes log files beside its checkpoints.
class LoggingRun : public SavingRun {
 public:
  LoggingRun(std::int64_t world_size, std::int64_t max_steps) : SavingRun{world_size, max_steps, api::WhenBusy::wait} {
    run.training.log_every.steps = 1;
    run.training.log_files = {api::LogFile::tensorboard, api::LogFile::jsonl, api::LogFile::csv};
    run.open_log_files = [this] { return run.open_store(0); };
  }

  std::string text_of(std::string_view beginning, std::string_view end) {
    std::string text;
    for (const auto& [key, bytes] : objects.objects) {
      if (key.starts_with(beginning) && key.ends_with(end))
        text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    return text;
  }
  /// The lines of the jsonl files, in order.
  std::vector<json> lines() {
    std::vector<json> all;
    std::istringstream text{text_of("metrics.", ".jsonl")};
    for (std::string line; std::getline(text, line);) all.push_back(json::parse(line));
    return all;
  }
  /// For each attempt and kind, the steps of its lines in order.
  std::map<std::string, std::vector<std::int64_t>> steps() {
    std::map<std::string, std::vector<std::int64_t>> found;
    for (const json& line : lines()) {
      found[fmt::format("{} {}", line["attempt"].get<int>(), line["kind"].get<std::string>())].push_back(line["step"]);
    }
    return found;
  }
};

using Found = std::map<std::string, std::vector<std::int64_t>>;

TEST(TrainerLogFiles, HoldEachLineOfTheLogOverAllRanks) {
  LoggingRun logging{2, 7};
  logging.run.run();
  EXPECT_EQ(logging.run.ranks[0].end.reason, "Completed") << logging.run.ranks[0].end.message;
  EXPECT_EQ(logging.steps(),
            (Found{{"1 start", {0}}, {"1 steps", {1, 2, 3, 4, 5, 6, 7}}, {"1 epoch", {5}}, {"1 validation", {5, 7}}}));
  const auto lines = logging.lines();
  for (const json& line : lines) {
    if (line["kind"] == "epoch") {
      EXPECT_EQ(line["metrics"]["images"], 100.0);
      EXPECT_EQ(line["epoch"], 1);
    }
    if (line["kind"] == "steps" && line["step"] == 7) {
      EXPECT_EQ(line["metrics"]["loss"].get<double>(), logging.run.ranks[0].link->reports().back().loss);
      EXPECT_EQ(line["epoch"], 2);
    }
    if (line["kind"] == "validation") {
      EXPECT_TRUE(line["metrics"].contains("val_accuracy"));
    }
  }
  EXPECT_THAT(logging.text_of("metrics.", ".csv"), testing::HasSubstr("1,7,2,validation,val_loss,"));
}

/// Logs 1 after each step, on rank 0, and keeps the losses.
class LogsOne final : public Callback {
 public:
  [[nodiscard]] std::string name() const override { return "logs_one"; }
  void on_step_end(Module& module, const torch::Tensor& loss) override {
    module.log("one", 1.0, {.rank_zero_only = true});
    losses.push_back(loss.item<double>());
  }
  std::vector<double> losses;
};

TEST(TrainerLogFiles, HaveTheMeansOverTheSamplesThatThereWereWhereRanksJoin) {
  LoggingRun logging{2, 5};
  logging.run.training.strategy.join = true;
  logging.run.training.data.replace_sampler = false;
  const auto shorter = make_sequential_sampler(20), longer = make_sequential_sampler(50);
  logging.run.sampler_of = [&](std::int64_t rank) { return (rank == 0 ? shorter : longer).get(); };
  std::vector<std::shared_ptr<LogsOne>> callbacks;
  for (TrainingRun::Rank& rank : logging.run.ranks) {
    callbacks.push_back(std::make_shared<LogsOne>());
    rank.module->callbacks = {callbacks.back()};
  }
  logging.run.run();
  EXPECT_EQ(logging.run.ranks[0].end.reason, "Completed") << logging.run.ranks[0].end.message;
  ASSERT_EQ(callbacks[0]->losses.size(), 5U);
  EXPECT_TRUE(std::isnan(callbacks[0]->losses[4]));
  double images = 0.0;
  std::vector<std::size_t> steps;
  for (const json& line : logging.lines()) {
    if (line["kind"] == "epoch") images += line["metrics"]["images"].get<double>();
    if (line["kind"] != "steps") continue;
    const auto step = line["step"].get<std::size_t>();
    steps.push_back(step);
    const double of_rank1 = callbacks[1]->losses.at(step - 1);
    const double mean = step <= 2 ? (callbacks[0]->losses.at(step - 1) + of_rank1) / 2 : of_rank1;
    EXPECT_NEAR(line["metrics"]["loss"].get<double>(), mean, 1e-9) << line;
    EXPECT_EQ(line["metrics"]["one"], 1.0) << line;
  }
  EXPECT_EQ(steps, (std::vector<std::size_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(images, 70.0);
}

TEST(TrainerLogFiles, ShowWhereTheTimeOfTheStepsGoes) {
  LoggingRun logging{1, 5};
  logging.run.training.log_every.steps = 2;
  logging.run.ranks[0].module->on_step = [&logging](std::int64_t) {
    logging.run.clock.advance(std::chrono::milliseconds{30});
  };
  logging.run.run();
  std::int64_t lines_with_times = 0;
  for (const json& line : logging.lines()) {
    // The first step includes one-time set-up, so that its times are not shown.
    const bool has_times = line["kind"] == "steps" && line["step"] > 1;
    EXPECT_EQ(line["metrics"].contains("stepTimes/forward"), has_times) << line;
    if (!has_times) continue;
    ++lines_with_times;
    EXPECT_EQ(line["metrics"]["stepTimes/forward"], 30.0);
    EXPECT_EQ(line["metrics"]["stepTimes/backward"], 0.0);
  }
  EXPECT_EQ(lines_with_times, 3);  // After steps 2, 4 and 5.
  const auto reports = logging.run.ranks[0].link->reports();
  EXPECT_EQ(reports.back().step_milliseconds.at("forward"), 30.0);
}

TEST(TrainerLogFiles, NameTheRankThatTheOthersWaitFor) {
  const auto rank = [](std::chrono::milliseconds forward, std::string node) {
    observe::RankTimes times{.node = std::move(node), .times = {.steps = 1}};
    times.times.parts[static_cast<std::size_t>(observe::StepPart::forward)] = forward;
    return times;
  };
  const std::vector<observe::RankTimes> ranks{rank(std::chrono::milliseconds{10}, "a"),
                                              rank(std::chrono::milliseconds{25}, "b")};
  rank::RankProgress progress;
  progress.epoch = progress.step = progress.total_steps = 4;
  testing::internal::CaptureStderr();
  log_step(progress, {{"loss", 1.0}}, {.ranks = ranks});
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, testing::HasSubstr(R"("forward":17.5)"));
  EXPECT_THAT(log, testing::HasSubstr(R"({"node":"b","part":"forward","rank":1,"ratio":2.5})"));
}

TEST(TrainerLogFiles, ShowImagesInTensorBoardsFilesOnly) {
  LoggingRun logging{1, 2};
  logging.run.ranks[0].module->shows_images = true;
  logging.run.run();
  EXPECT_THAT(logging.text_of("events.", ""), testing::HasSubstr("\x89PNG"));
  EXPECT_THAT(logging.text_of("events.", ""), testing::HasSubstr("validation"));
  EXPECT_THAT(logging.text_of("metrics.", ""), testing::Not(testing::HasSubstr("PNG")));
}

TEST(TrainerLogFiles, HaveTheStepsOfTheirLinesWhereSnapshotsAreMadeToo) {
  LoggingRun logging{1, 3};
  logging.make_snapshots(2);
  logging.run.run();
  EXPECT_EQ(logging.run.ranks[0].end.reason, "Completed") << logging.run.ranks[0].end.message;
  EXPECT_EQ(logging.steps()["1 steps"], (std::vector<std::int64_t>{1, 2, 3}));
}

TEST(TrainerLogFiles, OfALaterAttemptSayFromWhichStepItWentOnAndReplaceNone) {
  LoggingRun failing{2, 9};
  for (auto& rank : failing.run.ranks) {
    rank.module->on_step = [seen = 0](std::int64_t) mutable {
      if (++seen == 8) throw std::runtime_error{"a bug of the model's"};
    };
  }
  failing.run.run();
  EXPECT_EQ(failing.run.ranks[0].end.reason, "Threw");

  LoggingRun next{2, 9};
  next.objects.objects = failing.objects.objects;
  next.run.attempt = 2;
  next.run.run();
  EXPECT_EQ(next.run.ranks[0].end.reason, "Completed") << next.run.ranks[0].end.message;
  EXPECT_EQ(next.steps(), (Found{{"1 start", {0}},
                                 {"1 steps", {1, 2, 3, 4, 5, 6, 7}},
                                 {"1 epoch", {5}},
                                 {"1 validation", {5}},
                                 {"2 start", {6}},
                                 {"2 steps", {7, 8, 9}},
                                 {"2 validation", {9}}}));
}

TEST(TrainerLogFiles, OfAStoreThatFailsStopNothing) {
  LoggingRun logging{2, 4};
  logging.on_put([](std::int64_t, std::string_view key) -> std::optional<Error> {
    if (key.starts_with("step-") || key.starts_with("generations/")) return std::nullopt;
    return Error{ErrorKind::forbidden, "no right to write there", std::nullopt};
  });
  logging.run.run();
  EXPECT_EQ(logging.run.ranks[0].end.reason, "Completed");
  EXPECT_TRUE(logging.lines().empty());
}

TEST(TrainerLogFiles, HoldUpNoStepHoweverSlowTheStoreIs) {
  LoggingRun logging{2, 8};
  fakes::Gate gate;
  logging.on_put([&gate](std::int64_t, std::string_view key) -> std::optional<Error> {
    if (key.starts_with("metrics.")) gate.pass();
    return std::nullopt;
  });
  logging.at_step(0, 8, [&gate] { gate.open(); });  // Never reached if a step waited for the store.
  logging.run.run();
  EXPECT_EQ(logging.run.ranks[0].end.reason, "Completed");
  EXPECT_EQ(logging.steps()["1 steps"], (std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8}));
}

TEST(TrainerLogFiles, EndWithTheStepWhereTheRunWasAskedToStop) {
  LoggingRun logging{2, 100};
  logging.at_step(1, 4, [&logging] { logging.run.ranks[1].link->request_stop(); });
  logging.run.run();
  EXPECT_EQ(logging.run.ranks[0].end.exit_code, contract::exit_preempted);
  EXPECT_THAT(logging.run.ranks[0].end.message,
              testing::HasSubstr(fmt::format("after step {},", logging.steps()["1 steps"].back())));
}

TEST(LogStep, ShowsTheSpeedOfALargeModelThatMakesLessThanOneSampleASecond) {
  rank::RankProgress progress;
  progress.epoch = progress.step = progress.total_steps = 4;
  progress.samples_per_second = 0.3912345678;
  testing::internal::CaptureStderr();
  log_step(progress, {{"loss", 1.0}}, {});
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("0.391235"));
}

TEST(LogStep, SpellsValuesThatAreNotFinite) {
  rank::RankProgress progress;
  progress.epoch = progress.step = progress.total_steps = 4;
  const double infinity = std::numeric_limits<double>::infinity();
  testing::internal::CaptureStderr();
  log_step(progress, {{"loss", -infinity}, {"a", infinity}, {"b", -infinity}, {"c", std::nan("")}}, {});
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::HasSubstr(R"(metrics={"a":"inf","b":"-inf","c":"nan","loss":"-inf"})"));
}

}  // namespace
}  // namespace trainyard::train
