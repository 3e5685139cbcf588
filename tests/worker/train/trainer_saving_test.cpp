// Checkpoints that are written while training goes on.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "api/contract.hpp"
#include "checkpoint/format/claim.hpp"
#include "checkpoint/run/fence.hpp"
#include "tests/fakes/gate.hpp"
#include "tests/fakes/memory_store.hpp"
#include "tests/worker/train/saving_run.hpp"
#include "worker/train/trainer.hpp"

namespace trainyard::train {
namespace {

using api::WhenBusy;
using testing::HasSubstr;

TEST(TrainerSaving, TakesStepsWhileACheckpointIsWrittenAndLeavesOutWhatIsDueMeanwhile) {
  for (const std::int64_t world_size : {1, 2}) {
    SavingRun saving{world_size, 8};
    fakes::Gate gate;
    saving.hold_up(2, gate);
    saving.at_step(0, 7, [&gate] { gate.open(); });  // Never reached if a step waited for the store.
    saving.run.run();
    for (std::size_t rank = 0; rank < saving.run.ranks.size(); ++rank) {
      EXPECT_EQ(saving.run.ranks[rank].end.reason, "Completed") << saving.run.ranks[rank].end.message;
      EXPECT_EQ(saving.saved(rank), (Steps{2, 8})) << world_size << " ranks: 4 and 6 came due too early";
    }
  }
}

TEST(TrainerSaving, WaitsForTheOneBeforeWhereNoneMayBeLeftOut) {
  for (const std::int64_t world_size : {1, 2}) {
    SavingRun saving{world_size, 5, WhenBusy::wait};
    fakes::Gate gate;
    saving.hold_up(2, gate);
    saving.open_when_waiting(gate, 4);
    saving.run.run();
    for (std::size_t rank = 0; rank < saving.run.ranks.size(); ++rank) {
      EXPECT_EQ(saving.run.ranks[rank].end.reason, "Completed") << saving.run.ranks[rank].end.message;
      EXPECT_EQ(saving.saved(rank), (Steps{2, 4, 5})) << world_size << " ranks";
    }
  }
}

TEST(TrainerSaving, EndsOnlyWhenTheOneUnderWayAndTheLastAreWritten) {
  SavingRun saving{2, 3};
  fakes::Gate gate;
  saving.hold_up(2, gate);
  saving.open_when_waiting(gate, 3);
  saving.run.run();
  EXPECT_EQ(saving.run.ranks[0].end.reason, "Completed");
  EXPECT_EQ(saving.saved(0), (Steps{2, 3}));
  EXPECT_TRUE(saving.objects.objects.contains("step-2/g-1/manifest.json"));
  EXPECT_TRUE(saving.objects.objects.contains("step-3/g-1/manifest.json"));
}

TEST(TrainerSaving, WaitsForNoRemovalOfOldCheckpointsOnceItIsAskedToStop) {
  fakes::Gate gate;
  SavingRun saving{1, 11};  // Its last save is none of those of every second step.
  saving.run.checkpoint->keep.last = 1;
  saving.run.open_store = [&](std::int64_t) {
    return std::make_unique<fakes::FaultyStore>(
        std::make_unique<fakes::MemoryStore>(saving.objects),
        [&](std::string_view call, std::string_view key, auto) -> std::optional<Error> {
          if (call == "remove") gate.pass();
          if (call == "put" && key == "generations/1.end") gate.open();  // The call that follows that wait.
          return std::nullopt;
        });
  };
  fakes::FakeRankLink& link = *saving.run.ranks[0].link;
  link.on_report = [&link](const rank::RankProgress& progress) {
    if (progress.checkpoint && progress.checkpoint->step == 11) link.request_stop();  // After the last save.
  };
  const auto begun = std::chrono::steady_clock::now();
  saving.run.run();
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds{15}) << "a removal may take 20 s";
  EXPECT_EQ(saving.run.ranks[0].end.reason, "Completed");
}

TEST(TrainerSaving, SavesItsCurrentStepWhenAskedToStopInTheMidstOfASave) {
  SavingRun saving{2, 100};
  fakes::Gate gate;
  saving.hold_up(2, gate);
  saving.at_step(1, 4, [&saving] { saving.run.ranks[1].link->request_stop(); });
  saving.open_when_waiting(gate, 5);
  saving.run.run();
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(saving.run.ranks[rank].end.exit_code, contract::exit_preempted);
    EXPECT_THAT(saving.run.ranks[rank].end.message, HasSubstr("after step 5, saved as memory://step-5/g-1"));
    EXPECT_EQ(saving.saved(rank), (Steps{2, 5}));
  }
}

TEST(TrainerSaving, WritesTheBytesOfItsStepThoughTrainingContinues) {
  const auto files_of_step_2 = [](const fakes::MemoryObjects& objects) {
    std::map<std::string, std::vector<std::byte>> files;
    for (const auto& [key, content] : objects.objects) {
      if (key.starts_with("step-2/") && key.ends_with(".safetensors"))
        files.emplace(key.substr(0, std::string_view{"step-2/g-1/rank-0"}.size()),
                      content);  // Without the save's nonce.
    }
    return files;
  };
  SavingRun oracle{2, 2};  // Saves only after its last step, when nothing changes any more.
  oracle.run.run();

  SavingRun saving{2, 7};
  fakes::Gate gate;
  saving.hold_up(2, gate);
  saving.at_step(0, 6, [&gate] { gate.open(); });
  saving.run.run();
  EXPECT_EQ(files_of_step_2(oracle.objects).size(), 2U);
  EXPECT_EQ(files_of_step_2(saving.objects), files_of_step_2(oracle.objects));
}

/// Counts how often parameters and optimizer state have changed when their copy is finished.
class CopyWatch final : public checkpoint::Checkpointer {
 public:
  CopyWatch(std::unique_ptr<checkpoint::Checkpointer> watched, std::vector<std::int64_t>& changes)
      : watched_{std::move(watched)}, changes_{changes} {}

  Result<std::optional<checkpoint::Restored>> restore(checkpoint::State& state) override {
    return watched_->restore(state);
  }
  [[nodiscard]] std::int64_t generation() const override { return watched_->generation(); }
  void begin_save(const checkpoint::State& state, std::int64_t step, const checkpoint::SaveOptions& options) override {
    state_ = &state;
    version_ = version();
    watched_->begin_save(state, step, options);
  }
  void finish_staging() override {
    watched_->finish_staging();
    if (std::exchange(is_first_, false)) changes_.push_back(version() - version_);
  }
  [[nodiscard]] bool is_saving() const override { return watched_->is_saving(); }
  [[nodiscard]] std::string trouble() const override { return watched_->trouble(); }
  std::optional<checkpoint::SaveOutcome> take_outcome(std::chrono::milliseconds patience) override {
    return watched_->take_outcome(patience);
  }
  Result<void> end(const std::function<bool()>& is_stop_asked) override { return watched_->end(is_stop_asked); }
  void remove_copies() override { watched_->remove_copies(); }

 private:
  [[nodiscard]] std::int64_t version() const {
    std::int64_t sum = 0;
    for (const checkpoint::Entry& entry : state_->entries) sum += entry.is_steady ? entry.tensor._version() : 0;
    return sum;
  }

  std::unique_ptr<checkpoint::Checkpointer> watched_;
  std::vector<std::int64_t>& changes_;
  const checkpoint::State* state_ = nullptr;
  std::int64_t version_ = 0;
  bool is_first_ = true;  // While the first save runs, every step asks for one.
};

TEST(TrainerSaving, FinishesTheCopyBeforeTheOptimizersNextStep) {
  SavingRun saving{1, 5};
  fakes::Gate gate;
  saving.hold_up(2, gate);
  saving.at_step(0, 4, [&gate] { gate.open(); });
  std::vector<std::int64_t> changes;
  saving.run.watch = [&](auto checkpointer) { return std::make_unique<CopyWatch>(std::move(checkpointer), changes); };
  saving.run.run();
  EXPECT_EQ(saving.run.ranks[0].end.reason, "Completed");
  EXPECT_EQ(changes, std::vector<std::int64_t>{0});
}

struct Trouble {
  std::string_view name;
  ErrorKind kind;
};

class AStorageThatFails : public testing::TestWithParam<Trouble> {};

TEST_P(AStorageThatFails, OnOneRankHoldsUpNobodyAndIsReportedUntilASaveSucceeds) {
  SavingRun whole{2, 9};
  whole.run.run();

  SavingRun saving{2, 7, WhenBusy::wait};
  saving.on_put([](std::int64_t rank, std::string_view key) -> std::optional<Error> {
    const bool is_down = key.starts_with("step-2/") || key.starts_with("step-4/");
    if (rank == 1 && is_down) return Error{GetParam().kind, "the store is down", std::nullopt};
    return std::nullopt;
  });
  saving.run.run();
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const auto& ended = saving.run.ranks[rank];
    EXPECT_EQ(ended.end.reason, "Completed") << ended.end.message;
    EXPECT_EQ(saving.saved(rank), (Steps{6, 7}));
    Steps failing;
    for (const auto& report : ended.link->reports()) {
      if (report.checkpoint_error.empty()) continue;
      EXPECT_THAT(report.checkpoint_error, testing::StartsWith("rank 1: the store is down"));
      failing.insert(*report.step);
    }
    EXPECT_TRUE(failing.contains(4) && !failing.contains(2));
    EXPECT_EQ(ended.link->reports().back().checkpoint_error, "");
  }

  // The checkpoint of step 6 is whole: a run that resumes from it ends like one that was never interrupted.
  saving.objects.objects.erase("step-7/g-1/manifest.json");
  SavingRun resumed{2, 9};
  resumed.objects.objects = saving.objects.objects;
  resumed.run.attempt = 2;
  resumed.run.run();
  EXPECT_EQ(resumed.run.ranks[0].end.message, whole.run.ranks[0].end.message);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(resumed.run.ranks[rank].checksum, whole.run.ranks[rank].checksum);
  }
}

INSTANTIATE_TEST_SUITE_P(Table, AStorageThatFails,
                         testing::Values(Trouble{"away", ErrorKind::unavailable}, Trouble{"slow", ErrorKind::timeout},
                                         Trouble{"full", ErrorKind::io}, Trouble{"forbidden", ErrorKind::forbidden},
                                         Trouble{"unauthorized", ErrorKind::unauthorized},
                                         Trouble{"gone", ErrorKind::not_found}),
                         [](const auto& info) { return std::string{info.param.name}; });

TEST(TrainerSaving, EndsWhenTheLastSaveFails) {
  for (const bool is_stopped : {false, true}) {
    SavingRun saving{2, is_stopped ? 100 : 5};
    if (is_stopped) saving.at_step(0, 4, [&saving] { saving.run.ranks[0].link->request_stop(); });
    saving.on_put([](std::int64_t, std::string_view key) -> std::optional<Error> {
      if (!key.starts_with("step-5/")) return std::nullopt;
      return Error{ErrorKind::io, "no space left on device", std::nullopt};
    });
    saving.run.run();
    for (const auto& rank : saving.run.ranks) {
      EXPECT_EQ(rank.end.exit_code, contract::exit_storage);
      EXPECT_THAT(rank.end.message, HasSubstr("no space left on device"));
    }
  }
}

TEST(TrainerSaving, EndsAllRanksAlikeWhenAnotherRunHasTakenOver) {
  struct Row {
    std::string_view name;
    checkpoint::Identity other;
    int exit_code;
  };
  const Row rows[] = {
      {"a newer attempt",
       {.job = "ns/job", .job_uid = "uid", .attempt = 2, .fingerprint = "same"},
       contract::exit_fenced},
      {"another job",
       {.job = "ns/other", .job_uid = "x", .attempt = 1, .fingerprint = "same"},
       contract::exit_do_not_restart},
  };
  for (const Row& row : rows) {
    SavingRun saving{2, 1000};
    saving.on_put([&](std::int64_t rank, std::string_view key) -> std::optional<Error> {
      if (rank != 1 || !key.starts_with("step-2/g-1/rank-1-")) return std::nullopt;
      fakes::MemoryStore store{saving.objects};
      const checkpoint::Claim claim{
          .generation = 2, .identity = row.other, .resumed_from = {}, .time = {}, .nonce = "theirs"};
      EXPECT_TRUE(checkpoint::put_claim(store, claim));
      return std::nullopt;
    });
    saving.run.run();
    for (const auto& rank : saving.run.ranks) EXPECT_EQ(rank.end.exit_code, row.exit_code) << rank.end.message;
    EXPECT_FALSE(saving.objects.objects.contains("step-2/g-1/manifest.json"));
  }
}

/// A run whose checkpoints are due every hour, by a clock that the test sets. It ends once a missed checkpoint was made
/// up for.
class HourlyRun : public SavingRun {
 public:
  static constexpr std::int64_t steps_max = 3000;

  explicit HourlyRun(std::int64_t world_size) : SavingRun{world_size, steps_max} {
    run.checkpoint->every = {.steps = {}, .epochs = {}, .time = std::chrono::hours{1}};
    run.ranks[0].link->on_report = [this](const rank::RankProgress& progress) {
      if (progress.checkpoint && progress.checkpoint->step > stop_after) run.ranks[0].link->request_stop();
      if (!progress.checkpoint_error.empty()) has_told = true;
    };
  }
  /// Calls `act` in the middle of each step, with the step's number from 1.
  void at_each_step(std::function<void(std::int64_t step)> act) {
    run.ranks[0].module->on_step = [act = std::move(act), seen = std::int64_t{0}](std::int64_t) mutable {
      act(++seen);
    };
  }

  std::int64_t stop_after = 0;
  std::atomic<bool> has_told = false;  // A report has named the failing storage.
};

TEST(TrainerSaving, TriesAgainSoonAfterASaveThatFailed) {
  for (const std::int64_t world_size : {1, 2}) {
    HourlyRun saving{world_size};
    saving.on_put([&saving](std::int64_t, std::string_view key) -> std::optional<Error> {
      if (saving.has_told || !key.starts_with("step-")) return std::nullopt;
      return Error{ErrorKind::unavailable, "the store is away", std::nullopt};
    });
    saving.at_each_step([&](std::int64_t step) {
      if (step == 3) saving.run.clock.advance(std::chrono::hours{1});
      if (step > 3) saving.run.clock.advance(std::chrono::seconds{1});
    });
    saving.run.run();
    const auto& rank = saving.run.ranks[0];
    EXPECT_EQ(rank.end.reason, "Preempted") << "no checkpoint before the training's end: " << rank.end.message;
    EXPECT_LT(*saving.saved(0).begin(), HourlyRun::steps_max);
    EXPECT_TRUE(std::ranges::any_of(rank.link->reports(), [](const rank::RankProgress& report) {
      return report.checkpoint_error.find("the store is away") != std::string::npos;
    }));
    EXPECT_EQ(rank.link->reports().back().checkpoint_error, "");
  }
}

TEST(TrainerSaving, MakesUpForWhatWasLeftOutWhileTheStorageWasAway) {
  HourlyRun saving{1};
  saving.stop_after = 4;
  fakes::Gate gate;
  std::atomic<bool> is_away{true};
  saving.hold_up(4, gate);
  saving.trouble_of = [&is_away] { return is_away ? "the store is away" : ""; };
  saving.at_each_step([&](std::int64_t step) {
    if (step == 3 || step == 8) saving.run.clock.advance(std::chrono::hours{1});
    if (step != 12) return;
    is_away = false;
    gate.open();
  });
  saving.run.run();
  const auto& rank = saving.run.ranks[0];
  EXPECT_EQ(rank.end.reason, "Preempted") << "nothing was made up for: " << rank.end.message;
  EXPECT_TRUE(std::ranges::any_of(rank.link->reports(), [](const rank::RankProgress& report) {
    return report.checkpoint_error.find("is not saved yet: the store is away") != std::string::npos;
  })) << "/status says so while it lasts";
  EXPECT_EQ(rank.link->reports().back().checkpoint_error, "");
}

TEST(TrainerSaving, ReportsNoStepBeforeItKnowsWhereItResumes) {
  SavingRun saving{1, 4};
  saving.run.run();
  const fakes::FakeRankLink& link = *saving.run.ranks[0].link;
  const std::size_t before = link.reports().size();
  saving.run.attempt = 2;
  saving.run.training.max_steps = 6;
  saving.run.run();
  const auto reports = link.reports();
  ASSERT_GT(reports.size(), before);
  EXPECT_EQ(reports[before].phase, "Loading");
  const auto first = std::ranges::find_if(reports.begin() + static_cast<std::ptrdiff_t>(before), reports.end(),
                                          [](const rank::RankProgress& report) { return report.step.has_value(); });
  ASSERT_NE(first, reports.end());
  EXPECT_EQ(first->step, 4) << "and not 0";
}

TEST(TrainerSaving, WaitsForNoSaveInAGroupThatIsBroken) {
  SavingRun saving{1, 3};
  fakes::Gate gate;
  saving.hold_up(3, gate);
  const rank::RankEnd failure{
      .exit_code = contract::exit_peer_lost, .reason = "PeerLost", .message = "rank 1 was killed", .culprit = 1};
  fakes::FakeRankLink& link = *saving.run.ranks[0].link;
  link.on_report = [&](const rank::RankProgress& progress) {
    if (progress.phase == "Saving") link.break_group(failure);
  };
  saving.run.on_end = [&gate] { gate.open(); };  // Opened only now: the trainer has ended without waiting for it.
  saving.run.run();
  EXPECT_EQ(saving.run.ranks[0].end, failure);
}

TEST(TrainerSaving, SaysHowLongASaveTook) {
  SavingRun saving{1, 4};
  saving.on_put([&saving](std::int64_t, std::string_view key) -> std::optional<Error> {
    if (key.ends_with("manifest.json")) saving.run.clock.advance(std::chrono::milliseconds{1500});
    return std::nullopt;
  });
  saving.run.run();
  EXPECT_EQ(saving.run.ranks[0].link->reports().back().checkpoint->duration_seconds, 1.5);
}

}  // namespace
}  // namespace trainyard::train
