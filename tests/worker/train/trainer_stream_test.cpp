// Trainings on data without a size.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "api/contract.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/worker/train/training_run.hpp"

namespace trainyard::train {
namespace {

using testing::HasSubstr;
using SampleNumbers = std::vector<std::int64_t>;

/// The samples of one rank in an epoch: their numbers among 100 small samples.
struct Share {
  SampleNumbers numbers;
  bool skips = false;           // skip() does what it is asked to.
  std::int64_t throws_at = -1;  // The sample at which next() throws.
};

class ShareStream final : public SampleStream {
 public:
  ShareStream(Share share, const Dataset& samples) : share_{std::move(share)}, samples_{samples} {}
  [[nodiscard]] Batch next(std::int64_t count) override {
    const auto size = static_cast<std::int64_t>(share_.numbers.size());
    const std::int64_t end = std::min(size, begin_ + count);
    if (share_.throws_at >= begin_ && share_.throws_at < end) throw std::runtime_error{"the feed is torn"};
    const torch::Tensor ids = torch::tensor(share_.numbers, torch::kInt64).slice(0, begin_, end);
    begin_ = end;
    return ids.size(0) == 0 ? Batch{} : samples_.gather(ids);
  }
  [[nodiscard]] bool skip(std::int64_t count) override {
    if (share_.skips) begin_ += std::min(count, static_cast<std::int64_t>(share_.numbers.size()) - begin_);
    return share_.skips;
  }

 private:
  Share share_;
  const Dataset& samples_;
  std::int64_t begin_ = 0;
};

/// One rank's shares, by epoch.
class Shares final : public IterableDataset {
 public:
  Shares(std::function<Share(std::int64_t epoch)> of, bool is_interleaved)
      : of_{std::move(of)}, is_interleaved_{is_interleaved} {}
  [[nodiscard]] std::unique_ptr<SampleStream> stream(std::int64_t epoch) const override {
    return std::make_unique<ShareStream>(of_(epoch), samples_);
  }
  [[nodiscard]] bool is_interleaved() const override { return is_interleaved_; }

 private:
  data::ImageDataset samples_ = make_small_dataset(100, 0);
  std::function<Share(std::int64_t epoch)> of_;
  bool is_interleaved_;
};

/// `size` numbers that depend on rank and epoch.
SampleNumbers numbers_of(std::int64_t rank, std::int64_t epoch, std::int64_t size) {
  SampleNumbers numbers;
  for (std::int64_t index = 0; index < size; ++index) numbers.push_back((7 * index + 31 * rank + 13 * epoch) % 100);
  return numbers;
}

/// The numbers of numbers_of() as a rank's own sampler.
class OrderOfNumbers final : public Sampler {
 public:
  OrderOfNumbers(std::int64_t rank, std::int64_t size) : rank_{rank}, size_{size} {}
  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] torch::Tensor order(std::int64_t epoch) const override {
    return torch::tensor(numbers_of(rank_, epoch, size_), torch::kInt64);
  }

 private:
  std::int64_t rank_;
  std::int64_t size_;
};

/// The numbers of the samples of each step, by rank.
using StepRecord = std::map<std::int64_t, std::map<std::int64_t, SampleNumbers>>;

/// A training of two epochs, 10 samples a rank and step.
struct TrainerStream : testing::Test {
  std::unique_ptr<TrainingRun> make_run(std::int64_t world_size = 2) {
    auto run = std::make_unique<TrainingRun>(world_size);
    run->training.epochs = 2;
    run->sample_record = record_file();
    return run;
  }
  /// Makes `run` train on streams of so many samples, by rank.
  void stream_sizes(TrainingRun& run, const SampleNumbers& sizes, const Share& like = {.numbers = {}}) {
    const auto world_size = static_cast<std::int64_t>(run.ranks.size());
    shares.clear();
    for (std::int64_t rank = 0; rank < world_size; ++rank) {
      const auto of = [size = sizes.at(static_cast<std::size_t>(rank)), rank, like](std::int64_t epoch) {
        Share share = like;
        share.numbers = numbers_of(rank, epoch, size);
        return share;
      };
      shares.push_back(std::make_unique<Shares>(of, /*is_interleaved=*/false));
    }
    use_shares(run);
  }
  void use_shares(TrainingRun& run) {
    run.streams_of = [this](std::int64_t rank) { return shares.at(static_cast<std::size_t>(rank)).get(); };
  }
  /// The record so far, which begins anew.
  StepRecord take_record() {
    StepRecord record;
    std::ifstream lines{record_file()};
    for (std::string line; std::getline(lines, line);) {
      const nlohmann::json entry = nlohmann::json::parse(line);
      record[entry.at("step").get<std::int64_t>()][entry.at("rank").get<std::int64_t>()] =
          entry.at("ids").get<SampleNumbers>();
    }
    std::ofstream{record_file(), std::ios::trunc};
    return record;
  }
  [[nodiscard]] std::string record_file() const { return folder.path() + "/record"; }

  fakes::TemporaryFolder folder;
  std::vector<std::unique_ptr<Shares>> shares;
};

/// In the middle of its step `step` the last rank is asked to stop; the next step is the last.
void stop_at(TrainingRun& run, std::int64_t step) {
  TrainingRun::Rank& stopped = run.ranks.back();
  stopped.module->on_step = [&stopped, step, seen = std::int64_t{0}](std::int64_t) mutable {
    if (++seen == step) stopped.link->request_stop();
  };
}

TEST_F(TrainerStream, TrainsAsOrdersOfEachRankOfTheSameSamples) {
  struct Case {
    std::string what;
    SampleNumbers streams;
    SampleNumbers orders;  // of ranks that do the same
    bool joins;
    std::int64_t accumulated;
    std::int64_t steps;  // of two epochs
  };
  const std::vector<Case> cases{
      {"equal streams", {50, 50}, {50, 50}, false, 1, 10},
      {"a last batch that is not full", {37, 37}, {37, 37}, false, 1, 8},
      {"three ranks", {20, 20, 20}, {20, 20, 20}, false, 1, 4},
      {"one rank", {25}, {25}, false, 1, 6},
      {"a shorter stream", {50, 30}, {30, 30}, false, 1, 6},
      {"a shorter stream of the first rank", {30, 99, 70}, {30, 30, 30}, false, 1, 6},
      {"batches of a step", {70, 70}, {70, 70}, false, 3, 6},
      {"a stream that ends within a step", {70, 50}, {50, 50}, false, 3, 4},
      {"a stream that ends where a step does", {70, 60}, {60, 60}, false, 3, 4},
      {"ranks that join", {50, 22}, {50, 22}, true, 1, 10},
      {"three ranks that join within steps", {35, 52, 9}, {35, 52, 9}, true, 2, 6},
  };
  for (const Case& c : cases) {
    const auto world_size = static_cast<std::int64_t>(c.streams.size());
    std::vector<OrderOfNumbers> samplers;
    for (std::int64_t rank = 0; rank < world_size; ++rank)
      samplers.emplace_back(rank, c.orders.at(static_cast<std::size_t>(rank)));
    const auto expected = make_run(world_size);
    expected->training.data.replace_sampler = false;
    expected->training.strategy.join = c.joins;
    expected->training.accumulate_grad_batches = c.accumulated;
    expected->sampler_of = [&](std::int64_t rank) { return &samplers.at(static_cast<std::size_t>(rank)); };
    expected->run();
    const StepRecord expected_record = take_record();
    for (const std::int64_t threads : {0, 1}) {
      const auto run = make_run(world_size);
      run->training.data.loader_threads = threads;
      run->training.data.replace_sampler = !c.joins;
      run->training.strategy.join = c.joins;
      run->training.accumulate_grad_batches = c.accumulated;
      stream_sizes(*run, c.streams);
      run->run();
      EXPECT_EQ(run->ranks[0].end.reason, "Completed") << c.what << ": " << run->ranks[0].end.message;
      EXPECT_EQ(run->ranks[0].link->reports().back().step, c.steps) << c.what;
      EXPECT_EQ(take_record(), expected_record) << c.what;
      for (std::size_t rank = 0; rank < run->ranks.size(); ++rank)
        EXPECT_EQ(run->ranks[rank].checksum, expected->ranks[rank].checksum) << c.what << ", rank " << rank;
    }
  }
}

/// A classifier all of whose parameters have gradients on a rank with samples, which are sent within the backward pass.
class OneLayer final : public Module {
 public:
  OneLayer() { register_module("layer", layer_); }
  [[nodiscard]] StepOutput training_step(const Batch& batch, std::int64_t /*batch_index*/) override {
    return torch::cross_entropy_loss(layer_(batch.inputs.flatten(1)), batch.targets);
  }

 private:
  torch::nn::Linear layer_{784, 10};
};

TEST_F(TrainerStream, TrainsRanksThatJoinAlsoWhereTheOthersSendTheirGradientsEarlier) {
  const std::vector<OrderOfNumbers> samplers{{0, 50}, {1, 22}};
  std::vector<std::uint64_t> checksums;
  for (const bool is_streamed : {false, true}) {
    const auto run = make_run();
    run->training.data.replace_sampler = false;
    run->training.strategy.join = true;
    for (TrainingRun::Rank& rank : run->ranks) {
      torch::manual_seed(3);
      rank.other_module = std::make_shared<OneLayer>();
    }
    if (is_streamed) {
      stream_sizes(*run, {50, 22});
    } else {
      run->sampler_of = [&](std::int64_t rank) { return &samplers.at(static_cast<std::size_t>(rank)); };
    }
    run->run();
    EXPECT_EQ(run->ranks[0].end.reason, "Completed") << run->ranks[0].end.message;
    checksums.push_back(run->ranks[0].checksum);
    EXPECT_EQ(run->ranks[1].checksum, checksums.back());
  }
  EXPECT_EQ(checksums[0], checksums[1]);
}

TEST_F(TrainerStream, KnowsItsLastStepOnlyFromMaxSteps) {
  for (const std::optional<std::int64_t> max_steps : {std::optional<std::int64_t>{}, std::optional<std::int64_t>{4}}) {
    const auto run = make_run();
    if (max_steps) run->training.epochs.reset();
    run->training.max_steps = max_steps;
    stream_sizes(*run, {30, 30});
    run->run();
    EXPECT_EQ(run->ranks[0].end.reason, "Completed") << run->ranks[0].end.message;
    const auto reports = run->ranks[0].link->reports();
    const auto begun = std::ranges::find_if(reports, [](const auto& report) { return report.step == 2; });
    ASSERT_NE(begun, reports.end());
    EXPECT_EQ(begun->total_steps, max_steps);
    EXPECT_EQ(begun->epochs, max_steps ? std::nullopt : std::optional<std::int64_t>{2});
    EXPECT_EQ(begun->eta_seconds.has_value(), max_steps && begun->samples_per_second);
    EXPECT_EQ(reports.back().step, max_steps.value_or(6));
    EXPECT_EQ(reports.back().epoch, 2);
  }
}

TEST_F(TrainerStream, EndsAnEpochOnceForValidationsAndCallbacks) {
  struct EpochCounter final : Callback {
    [[nodiscard]] std::string name() const override { return "counter"; }
    void on_epoch_end(Module& /*module*/) override { ++epochs; }
    int epochs = 0;
  };
  const auto run = make_run();
  stream_sizes(*run, {50, 30});
  std::int64_t validations = 0;
  run->ranks[0].module->on_validation = [&](std::int64_t batch) { validations += batch == 0 ? 1 : 0; };
  const auto counter = std::make_shared<EpochCounter>();
  run->ranks[0].module->callbacks = {counter};
  run->run();
  EXPECT_EQ(run->ranks[0].end.reason, "Completed") << run->ranks[0].end.message;
  EXPECT_EQ(validations, 2);
  EXPECT_EQ(counter->epochs, 2);
}

TEST_F(TrainerStream, ResumesToTheSameBits) {
  struct Case {
    std::string what;
    SampleNumbers sizes;
    std::int64_t threads = 1;
    bool skips = false;
    bool joins = false;
    std::int64_t accumulated = 1;
    std::int64_t stop_step = 3;  // of the last rank
  };
  const std::vector<Case> cases{
      {.what = "reads", .sizes = {50, 50}, .threads = 0},
      {.what = "reads ahead", .sizes = {50, 50}},
      {.what = "skips", .sizes = {50, 50}, .skips = true},
      {.what = "in the second epoch", .sizes = {50, 50}, .threads = 0, .stop_step = 6},
      {.what = "where an epoch begins", .sizes = {50, 50}, .stop_step = 4},
      {.what = "shorter", .sizes = {50, 38}},
      {.what = "joined", .sizes = {50, 12}, .joins = true, .stop_step = 2},
      {.what = "joined by one that skips", .sizes = {50, 12}, .skips = true, .joins = true, .stop_step = 2},
      {.what = "accumulated", .sizes = {70, 75}, .threads = 0, .accumulated = 2, .stop_step = 2},
  };
  for (const Case& c : cases) {
    std::vector<std::uint64_t> checksums;
    std::vector<StepRecord> records;
    for (const bool is_stopped : {false, true}) {
      for (std::int64_t attempt = is_stopped ? 1 : 2; attempt <= 2; ++attempt) {
        const auto run = make_run();
        run->training.data.loader_threads = c.threads;
        run->training.strategy.join = c.joins;
        run->training.accumulate_grad_batches = c.accumulated;
        stream_sizes(*run, c.sizes, {.numbers = {}, .skips = c.skips});
        run->attempt = attempt;
        run->checkpoint.emplace().uri = fmt::format("{}/{}{}", folder.uri(), c.what, is_stopped);
        if (attempt == 1) stop_at(*run, c.stop_step);
        run->run();
        EXPECT_EQ(run->ranks[0].end.exit_code, attempt == 1 ? contract::exit_preempted : contract::exit_success)
            << c.what << ": " << run->ranks[0].end.message;
        if (attempt == 2) checksums.push_back(run->ranks[0].checksum);
      }
      records.push_back(take_record());
    }
    EXPECT_EQ(records[0], records[1]) << c.what;
    EXPECT_EQ(checksums[0], checksums[1]) << c.what;
  }
}

TEST_F(TrainerStream, GoesOnWithAnotherNumberOfRanksOnlyWhereItIsInterleaved) {
  for (const bool is_interleaved : {true, false}) {
    const auto use_interleaved = [&](TrainingRun& run, std::int64_t world_size) {
      shares.clear();
      for (std::int64_t rank = 0; rank < world_size; ++rank) {
        shares.push_back(std::make_unique<Shares>(
            [=](std::int64_t /*epoch*/) {
              Share share;
              for (std::int64_t number = rank; number < 100; number += world_size) share.numbers.push_back(number);
              return share;
            },
            is_interleaved));
      }
      use_shares(run);
    };
    std::vector<StepRecord> records;
    for (const std::int64_t world_size : {2, 3}) {
      const auto run = make_run(world_size);
      run->training.epochs = 1;
      run->training.strategy.join = true;  // 100 samples are not as many for each of three ranks.
      use_interleaved(*run, world_size);
      run->attempt = world_size - 1;
      run->checkpoint.emplace().uri = fmt::format("{}/interleaved{}", folder.uri(), is_interleaved);
      if (world_size == 2) stop_at(*run, 1);
      run->run();
      records.push_back(take_record());
      const rank::RankEnd& end = run->ranks[0].end;
      if (world_size == 2) {
        EXPECT_EQ(end.exit_code, contract::exit_preempted) << end.message;
      } else if (is_interleaved) {
        EXPECT_EQ(end.exit_code, contract::exit_success) << end.message;
      } else {
        for (const TrainingRun::Rank& rank : run->ranks) {
          EXPECT_EQ(rank.end.exit_code, contract::exit_do_not_restart);
          EXPECT_THAT(rank.end.message,
                      HasSubstr(" is 40 samples into an epoch of 2 ranks' streams, and there are 3 ranks now: only a "
                                "training set whose is_interleaved() is true goes on with another number of ranks; "
                                "start 2 ranks, or set checkpoint.resume to none to train afresh"));
        }
      }
    }
    if (!is_interleaved) continue;
    SampleNumbers used;
    for (const StepRecord& record : records) {
      for (const auto& [step, by_rank] : record) {
        for (const auto& [rank, ids] : by_rank) used.insert(used.end(), ids.begin(), ids.end());
      }
    }
    std::ranges::sort(used);
    SampleNumbers all;
    for (std::int64_t number = 0; number < 100; ++number) all.push_back(number);
    EXPECT_EQ(used, all) << "each sample once";
  }
}

TEST_F(TrainerStream, RefusesACheckpointOfOtherDataWithinAnEpoch) {
  struct Case {
    std::string what;
    std::function<void(TrainingRun&)> before;
    std::function<void(TrainingRun&)> after;
    std::string message;
  };
  const std::vector<Case> cases{
      {"of data with a size", [](TrainingRun& /*run*/) {},
       [&](TrainingRun& run) {
         stream_sizes(run, {50, 50});
       },
       " is 40 samples into an epoch of data with a size, and the training set has none: it was saved with other data; "
       "take the same, or set checkpoint.resume to none to train afresh"},
      {"of streams",
       [&](TrainingRun& run) {
         stream_sizes(run, {50, 50});
       },
       [](TrainingRun& /*run*/) {}, " is 40 samples into an epoch of 0, and an epoch of this training has 100"},
      {"of longer streams",
       [&](TrainingRun& run) {
         stream_sizes(run, {50, 50});
       },
       [&](TrainingRun& run) {
         stream_sizes(run, {50, 20});
       },
       "the checkpoint is 40 samples into epoch 0, where 1 of the 2 ranks' streams have no more"},
  };
  for (const Case& c : cases) {
    for (const std::int64_t attempt : {1, 2}) {
      const auto run = make_run();
      attempt == 1 ? c.before(*run) : c.after(*run);
      run->attempt = attempt;
      run->checkpoint.emplace().uri = folder.uri() + "/" + c.what;
      if (attempt == 1) stop_at(*run, 1);
      run->run();
      if (attempt == 1) {
        EXPECT_EQ(run->ranks[0].end.exit_code, contract::exit_preempted) << run->ranks[0].end.message;
        continue;
      }
      for (const TrainingRun::Rank& rank : run->ranks) EXPECT_THAT(rank.end.message, HasSubstr(c.message)) << c.what;
    }
  }
}

TEST_F(TrainerStream, WithoutSamplesEndsAllRanksWithTheSameWords) {
  struct Case {
    SampleNumbers sizes;
    bool joins;
    std::string message;  // Empty: it trains.
  };
  const std::vector<Case> cases{
      {{0, 0},
       false,
       "the streams of 2 of the 2 ranks have no samples in epoch 0: each rank needs at least one, unless "
       "training.strategy.join is true"},
      {{20, 0},
       false,
       "the streams of 1 of the 2 ranks have no samples in epoch 0: each rank needs at least one, unless "
       "training.strategy.join is true"},
      {{0, 0}, true, "the streams of 2 of the 2 ranks have no samples in epoch 0: at least one rank needs some"},
      {{20, 0}, true, ""},
  };
  for (const Case& c : cases) {
    const auto run = make_run();
    run->training.strategy.join = c.joins;
    stream_sizes(*run, c.sizes);
    run->run();
    for (const TrainingRun::Rank& rank : run->ranks) {
      EXPECT_EQ(rank.end.reason, c.message.empty() ? "Completed" : "Threw");
      if (!c.message.empty()) {
        EXPECT_EQ(rank.end.message, c.message);
      }
    }
  }
}

TEST_F(TrainerStream, ThatThrowsEndsItsRankAndNamesTheCall) {
  for (const std::int64_t threads : {0, 1}) {
    const auto run = make_run(1);
    run->training.data.loader_threads = threads;
    stream_sizes(*run, {50}, {.numbers = {}, .throws_at = 25});
    run->run();
    EXPECT_EQ(run->ranks[0].end.message, "the feed is torn");
    EXPECT_EQ(run->ranks[0].failed_call, "reading a batch in step 2") << "which reads the batch of the next step";
    EXPECT_EQ(take_record().size(), 1U);
  }
}

TEST_F(TrainerStream, ThatIsNoneEndsTheRank) {
  struct NoStream final : IterableDataset {
    [[nodiscard]] std::unique_ptr<SampleStream> stream(std::int64_t /*epoch*/) const override { return nullptr; }
  };
  const NoStream none;
  const auto run = make_run(1);
  run->streams_of = [&](std::int64_t /*rank*/) { return &none; };
  run->run();
  EXPECT_EQ(run->ranks[0].end.message, "stream() of the training set gave no stream for epoch 0");
}

}  // namespace
}  // namespace trainyard::train
