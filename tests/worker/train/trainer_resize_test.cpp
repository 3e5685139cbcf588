// A training that resumes with another number of ranks.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "api/contract.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/worker/train/training_run.hpp"
#include "worker/data/sampling.hpp"

namespace trainyard::train {
namespace {

constexpr std::int64_t samples = 120;

struct Resize {
  std::int64_t from;
  std::int64_t to;
  std::int64_t stop_step;    // The stop is asked for in the middle of this step; the next step is the last.
  std::int64_t total_steps;  // The steps of two epochs.
};

// The samples of all ranks by step, in the order of their epoch.
std::map<std::int64_t, std::vector<std::int64_t>> read_steps(const std::string& record) {
  std::map<std::int64_t, std::map<std::int64_t, std::vector<std::int64_t>>> ids_by_rank;
  std::ifstream lines{record};
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json entry = nlohmann::json::parse(line);
    auto& ids = ids_by_rank[entry.at("step").get<std::int64_t>()][entry.at("rank").get<std::int64_t>()];
    EXPECT_TRUE(ids.empty()) << "step " << entry.at("step") << " is there twice";
    ids = entry.at("ids").get<std::vector<std::int64_t>>();
  }
  std::map<std::int64_t, std::vector<std::int64_t>> steps;
  for (const auto& [step, by_rank] : ids_by_rank) {
    for (std::size_t place = 0; place < by_rank.at(0).size(); ++place) {
      for (const auto& [rank, ids] : by_rank) steps[step].push_back(ids.at(place));
    }
  }
  return steps;
}

class TrainerWithOtherRanks : public testing::TestWithParam<Resize> {};

TEST_P(TrainerWithOtherRanks, ResumesAtTheSameStepAndSampleInTheSameOrder) {
  const fakes::TemporaryFolder folder;
  const std::string record = folder.path() + "/samples.jsonl";
  for (const std::int64_t attempt : {1, 2}) {
    TrainingRun run{attempt == 1 ? GetParam().from : GetParam().to};
    run.training_samples = samples;
    run.training.epochs = 2;
    run.attempt = attempt;
    run.checkpoint.emplace();
    run.checkpoint->uri = folder.uri() + "/checkpoints";
    run.sample_record = record;
    if (attempt == 1) {
      TrainingRun::Rank& stopped = run.ranks.back();
      stopped.module->on_step = [&stopped, seen = std::int64_t{0}](std::int64_t) mutable {
        if (++seen == GetParam().stop_step) stopped.link->request_stop();
      };
    }
    run.run();
    for (const auto& rank : run.ranks) {
      EXPECT_EQ(rank.end.exit_code, attempt == 1 ? contract::exit_preempted : contract::exit_success)
          << rank.end.message;
    }
    if (attempt == 2) {
      for (const auto& rank : run.ranks) EXPECT_EQ(rank.checksum, run.ranks[0].checksum);
      EXPECT_EQ(run.ranks[0].link->reports().back().step, GetParam().total_steps);
      EXPECT_EQ(run.ranks[0].link->reports().back().total_steps, GetParam().total_steps);
    }
  }

  std::vector<std::int64_t> used;
  std::int64_t next_step = 1;
  for (const auto& [step, ids] : read_steps(record)) {
    EXPECT_EQ(step, next_step++);
    used.insert(used.end(), ids.begin(), ids.end());
  }
  EXPECT_EQ(next_step, GetParam().total_steps + 1);
  std::vector<std::int64_t> expected;
  for (const std::int64_t epoch : {0, 1}) {
    const torch::Tensor order = data::epoch_order(samples, api::TrainingSpec{}.seed, epoch);
    expected.insert(expected.end(), order.data_ptr<std::int64_t>(), order.data_ptr<std::int64_t>() + samples);
  }
  EXPECT_EQ(used, expected) << "none lost, none repeated, and in the order of a run with any number of ranks";
}

// 10 samples a rank and step. The rest of the epoch is a multiple of the new ranks' step, so that no sample is repeated
// to fill up the last step.
INSTANTIATE_TEST_SUITE_P(Resizes, TrainerWithOtherRanks,
                         testing::Values(Resize{.from = 2, .to = 4, .stop_step = 7, .total_steps = 8 + 2},
                                         Resize{.from = 4, .to = 2, .stop_step = 1, .total_steps = 2 + 2 + 6},
                                         Resize{.from = 3, .to = 1, .stop_step = 5, .total_steps = 6 + 6},
                                         Resize{.from = 1, .to = 3, .stop_step = 14, .total_steps = 15 + 3}),
                         [](const auto& info) { return fmt::format("{}To{}", info.param.from, info.param.to); });

}  // namespace
}  // namespace trainyard::train
