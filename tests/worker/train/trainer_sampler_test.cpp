// Samplers of users' own, and orders of each rank's own.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "api/contract.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/worker/train/training_run.hpp"

namespace trainyard::train {
namespace {

using testing::HasSubstr;
using Ids = std::vector<std::int64_t>;

/// Every seventh sample of 100, from one that depends on the epoch and on `offset`.
class SeventhSampler final : public Sampler {
 public:
  explicit SeventhSampler(std::int64_t size, std::int64_t offset = 0) : size_{size}, offset_{offset} {}
  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] torch::Tensor order(std::int64_t epoch) const override {
    return torch::arange(size_, torch::kInt64).mul_(7).add_(13 * epoch + offset_).remainder_(100);
  }
  [[nodiscard]] Ids ids(std::int64_t epoch) const {
    const torch::Tensor order = this->order(epoch);
    return {order.const_data_ptr<std::int64_t>(), order.const_data_ptr<std::int64_t>() + size_};
  }

 private:
  std::int64_t size_;
  std::int64_t offset_;
};

/// The samples of each step, by rank.
using Record = std::map<std::int64_t, std::map<std::int64_t, Ids>>;

Record read_record(const std::string& file) {
  Record record;
  std::ifstream lines{file};
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json entry = nlohmann::json::parse(line);
    Ids& ids = record[entry.at("step").get<std::int64_t>()][entry.at("rank").get<std::int64_t>()];
    EXPECT_TRUE(ids.empty()) << "step " << entry.at("step") << " is there twice";
    ids = entry.at("ids").get<Ids>();
  }
  return record;
}

/// The samples of one rank, in the order of training.
Ids ids_of_rank(const Record& record, std::int64_t rank) {
  Ids ids;
  for (const auto& [step, by_rank] : record) ids.insert(ids.end(), by_rank.at(rank).begin(), by_rank.at(rank).end());
  return ids;
}

Ids concatenated(const std::vector<Ids>& parts) {
  Ids whole;
  for (const Ids& part : parts) whole.insert(whole.end(), part.begin(), part.end());
  return whole;
}

/// A training of two epochs of 100 samples, 10 a rank and step, that records its samples.
struct TrainerSampler : testing::Test {
  std::unique_ptr<TrainingRun> make_run(const std::string& record, std::int64_t world_size = 2) {
    auto run = std::make_unique<TrainingRun>(world_size);
    run->training.epochs = 2;
    run->sample_record = folder.path() + "/" + record;
    return run;
  }
  [[nodiscard]] Record read(const std::string& record) const { return read_record(folder.path() + "/" + record); }

  fakes::TemporaryFolder folder;
};

/// In the middle of its step `step` the last rank is asked to stop; the next step is the last.
void stop_in(TrainingRun& run, std::int64_t step) {
  TrainingRun::Rank& stopped = run.ranks.back();
  stopped.module->on_step = [&stopped, step, seen = std::int64_t{0}](std::int64_t) mutable {
    if (++seen == step) stopped.link->request_stop();
  };
}

TEST_F(TrainerSampler, GivesEachPlaceOfItsOrderToOneRankAlsoToThreadsThatReadAhead) {
  const SeventhSampler sampler{60};
  for (const std::int64_t threads : {0, 1}) {
    const std::string record = fmt::format("threads{}", threads);
    const auto run = make_run(record);
    run->training.data.loader_threads = threads;
    run->sampler_of = [&](std::int64_t /*rank*/) { return &sampler; };
    run->run();
    EXPECT_EQ(run->ranks[0].end.reason, "Completed") << run->ranks[0].end.message;
    EXPECT_EQ(run->ranks[0].link->reports().back().total_steps, 6) << "60 samples are 3 steps of 2 ranks";
    EXPECT_EQ(run->ranks[0].link->reports().back().step, 6);
    Ids used;
    for (const auto& [step, by_rank] : read(record)) {
      for (std::size_t place = 0; place < 10; ++place) {
        for (const auto& [rank, ids] : by_rank) used.push_back(ids.at(place));
      }
    }
    EXPECT_EQ(used, concatenated({sampler.ids(0), sampler.ids(1)}));
  }
}

TEST_F(TrainerSampler, OfARankIsTakenWholeByThatRankWhereTheSamplerIsNotReplaced) {
  const std::vector<SeventhSampler> samplers{SeventhSampler{35}, SeventhSampler{35, 50}};
  const auto run = make_run("record");
  run->training.data.replace_sampler = false;
  run->sampler_of = [&](std::int64_t rank) { return &samplers.at(static_cast<std::size_t>(rank)); };
  run->run();
  EXPECT_EQ(run->ranks[0].end.reason, "Completed") << run->ranks[0].end.message;
  EXPECT_EQ(run->ranks[0].link->reports().back().total_steps, 8) << "35 samples of a rank are 4 steps";
  const Record record = read("record");
  EXPECT_EQ(record.size(), 8U);
  for (std::int64_t rank = 0; rank < 2; ++rank) {
    const SeventhSampler& sampler = samplers[static_cast<std::size_t>(rank)];
    EXPECT_EQ(ids_of_rank(record, rank), concatenated({sampler.ids(0), sampler.ids(1)}));
    EXPECT_EQ(record.at(4).at(rank).size(), 5U) << "the rest of the epoch, and no sample twice";
  }
}

TEST_F(TrainerSampler, OfFewerSamplesLeavesItsRankWithoutBatchesUntilTheOthersHaveUsedTheirs) {
  const std::vector<SeventhSampler> samplers{SeventhSampler{35}, SeventhSampler{52, 50}, SeventhSampler{9, 3}};
  for (const std::int64_t threads : {0, 1}) {
    const auto run = make_run("joined", 3);
    run->training.strategy.join = true;
    run->training.data.replace_sampler = false;
    run->training.data.loader_threads = threads;
    run->training.precision = threads == 0 ? api::Precision::fp32 : api::Precision::fp16_mixed;
    run->training.accumulate_grad_batches = 2;
    run->sampler_of = [&](std::int64_t rank) { return &samplers.at(static_cast<std::size_t>(rank)); };
    std::vector<std::int64_t> batches(3);
    for (std::size_t rank = 0; rank < 3; ++rank) {
      auto& count = batches.at(rank);
      run->ranks.at(rank).module->on_step = [&count](std::int64_t) { ++count; };
    }
    run->run();
    EXPECT_EQ(run->ranks[0].end.reason, "Completed") << run->ranks[0].end.message;
    EXPECT_EQ(run->ranks[0].link->reports().back().total_steps, 6) << "52 samples are 6 batches, 3 steps";
    EXPECT_EQ(batches, (std::vector<std::int64_t>{8, 12, 2})) << "in two epochs";
    const Record record = read("joined");
    for (std::int64_t rank = 0; rank < 3; ++rank) {
      const SeventhSampler& sampler = samplers[static_cast<std::size_t>(rank)];
      EXPECT_EQ(ids_of_rank(record, rank), concatenated({sampler.ids(0), sampler.ids(1)})) << "rank " << rank;
    }
    EXPECT_TRUE(record.at(3).at(0).empty() && record.at(2).at(2).empty());
    EXPECT_EQ(run->ranks[0].checksum, run->ranks[1].checksum);
    EXPECT_EQ(run->ranks[0].checksum, run->ranks[2].checksum);
    std::filesystem::remove(folder.path() + "/joined");
  }
}

TEST_F(TrainerSampler, OfFewerSamplesTrainsAsIfItsRankHadBatchesOfZeroLoss) {
  // Rank 1 joins after one batch, within an accumulated step, or has batches of zero loss from there on.
  const SeventhSampler longer{50}, shorter{10, 50}, padded{50, 50};
  std::vector<std::uint64_t> checksums;
  for (const bool joins : {true, false}) {
    const auto run = make_run(joins ? "joins" : "padded");
    run->training.strategy.join = joins;
    run->training.data.replace_sampler = false;
    run->training.epochs = 1;
    run->training.accumulate_grad_batches = 3;
    run->training.batch_size = 10;
    run->sampler_of = [&](std::int64_t rank) { return rank == 0 ? &longer : joins ? &shorter : &padded; };
    SmallModule& module = *run->ranks[1].module;
    if (!joins) module.on_step = [&module](std::int64_t batch) { module.loss_factor = batch < 1 ? 1.0 : 0.0; };
    run->run();
    EXPECT_EQ(run->ranks[0].end.reason, "Completed") << run->ranks[0].end.message;
    checksums.push_back(run->ranks[0].checksum);
  }
  EXPECT_EQ(checksums[0], checksums[1]);
}

TEST_F(TrainerSampler, RefusesADataSetThatHasAnotherSizeNow) {
  const auto run = make_run("record", 1);
  const Schedule schedule{run->training, {}, 9, 1};
  const data::ImageDataset samples = make_small_dataset(10, 0);
  EXPECT_THAT([&] { (void)open_batches(schedule, {}, samples, {.dataset_samples = 9}, run->training, {}); },
              testing::ThrowsMessage<InvalidJob>(HasSubstr("size() of the training set was 9 and is 10 now")));
}

TEST_F(TrainerSampler, RepeatsTheRestOfTheEpochWhenTheTrainingResumes) {
  const SeventhSampler shared{100};
  const std::vector<SeventhSampler> own{SeventhSampler{50}, SeventhSampler{50, 3}};
  const std::vector<SeventhSampler> uneven{SeventhSampler{50}, SeventhSampler{22, 3}};
  struct Case {
    std::string what;
    bool is_replaced;
    std::function<const Sampler*(std::int64_t)> sampler_of;
    std::int64_t steps;
    std::int64_t stop_step = 7;  // The step at which the last rank stops.
  };
  const std::vector<Case> cases{
      {"shared", true, [&](std::int64_t) { return &shared; }, 10},
      {"own", false, [&](std::int64_t rank) { return &own.at(static_cast<std::size_t>(rank)); }, 10},
      {"random", false, {}, 20},
      {"joined", false, [&](std::int64_t rank) { return &uneven.at(static_cast<std::size_t>(rank)); }, 10, 3},
  };
  for (const Case& c : cases) {
    std::vector<std::uint64_t> checksums;
    for (const bool is_stopped : {false, true}) {
      for (std::int64_t attempt = is_stopped ? 1 : 2; attempt <= 2; ++attempt) {
        const auto run = make_run(c.what + (is_stopped ? "_stopped" : "_whole"));
        run->training.data.replace_sampler = c.is_replaced;
        run->training.strategy.join = c.what == "joined";
        run->sampler_of = c.sampler_of;
        run->attempt = attempt;
        run->checkpoint.emplace().uri = folder.uri() + "/" + c.what + (is_stopped ? "_stopped" : "_whole") + "_saved";
        if (attempt == 1) stop_in(*run, c.stop_step);
        run->run();
        EXPECT_EQ(run->ranks[0].end.exit_code, attempt == 1 ? contract::exit_preempted : contract::exit_success)
            << c.what << ": " << run->ranks[0].end.message;
        if (attempt == 2) checksums.push_back(run->ranks[0].checksum);
      }
    }
    const Record whole = read(c.what + "_whole");
    EXPECT_EQ(whole.size(), static_cast<std::size_t>(c.steps)) << c.what;
    EXPECT_EQ(read(c.what + "_stopped"), whole) << c.what;
    EXPECT_EQ(checksums[0], checksums[1]) << c.what;
  }
}

TEST_F(TrainerSampler, OfEachRankGoesOnAfterTheSamePartOfItsOrderWithAnotherNumberOfRanks) {
  for (const std::int64_t world_size : {2, 3}) {
    const auto run = make_run(fmt::format("{}_ranks", world_size), world_size);
    run->training.data.replace_sampler = false;
    run->training.epochs = 1;
    run->attempt = world_size - 1;
    run->checkpoint.emplace().uri = folder.uri() + "/saved";
    if (world_size == 2) stop_in(*run, 3);
    run->run();
    EXPECT_EQ(run->ranks[0].end.exit_code, world_size == 2 ? contract::exit_preempted : contract::exit_success)
        << run->ranks[0].end.message;
  }
  const Record after = read("3_ranks");
  EXPECT_EQ(after.begin()->first, 5) << "after the four steps of two ranks";
  EXPECT_EQ(after.size(), 6U);
  const auto whole = make_run("whole", 3);
  whole->training.data.replace_sampler = false;
  whole->training.epochs = 1;
  whole->run();
  Record rest = read("whole");
  std::erase_if(rest, [](const auto& entry) { return entry.first <= 4; });
  EXPECT_EQ(after, rest);
}

TEST_F(TrainerSampler, OfAnotherSizeIsRefusedInAnEpochThatWasBegunAndTakenAfterIt) {
  struct Case {
    std::int64_t stop_step;
    int exit_code;
  };
  // The stopped training makes one step more. 60 samples are an epoch of 3 steps.
  for (const Case& c : {Case{.stop_step = 1, .exit_code = contract::exit_do_not_restart},
                        Case{.stop_step = 2, .exit_code = contract::exit_success}}) {
    for (const std::int64_t attempt : {1, 2}) {
      const SeventhSampler sampler{attempt == 1 ? 60 : 80};
      const auto run = make_run("record");
      run->sampler_of = [&](std::int64_t /*rank*/) { return &sampler; };
      run->attempt = attempt;
      run->checkpoint.emplace().uri = fmt::format("{}/saved{}", folder.uri(), c.stop_step);
      run->sample_record.reset();
      if (attempt == 1) stop_in(*run, c.stop_step);
      run->run();
      EXPECT_EQ(run->ranks[0].end.exit_code, attempt == 1 ? contract::exit_preempted : c.exit_code)
          << run->ranks[0].end.message;
      if (attempt == 2 && c.exit_code == contract::exit_do_not_restart) {
        EXPECT_THAT(run->ranks[0].end.message,
                    HasSubstr(" is 40 samples into an epoch of 60, and an epoch of this training has 80: it was saved "
                              "with another sampler or other data"));
      }
    }
  }
}

TEST_F(TrainerSampler, EndsTheRankWhereItNamesASampleThatThereIsNot) {
  const SeventhSampler sampler{40};
  const auto run = make_run("record", 1);
  run->training_samples = 90;
  run->sampler_of = [&](std::int64_t /*rank*/) { return &sampler; };
  run->run();
  EXPECT_EQ(
      run->ranks[0].end.message,
      "the sampler's order of epoch 0 has sample 91 at place 13, but the training set has only 90 samples (0 to 89)");
}

}  // namespace
}  // namespace trainyard::train
