// Copies on the nodes between the checkpoints of the remote store.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <thread>

#include "api/contract.hpp"
#include "tests/fakes/gate.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/worker/train/saving_run.hpp"

namespace trainyard::train {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

/// Attempts of one job that saves its last step in memory, and copies of every third step in a folder of the node.
struct LocalTierOfATraining : testing::Test {
  /// Runs attempt `attempt` for up to `max_steps` steps, with what earlier attempts have left.
  std::unique_ptr<SavingRun> attempt(std::int64_t attempt, std::int64_t max_steps, std::int64_t world_size = 2) {
    auto saving = std::make_unique<SavingRun>(world_size, max_steps);
    saving->run.attempt = attempt;
    saving->run.checkpoint->every.steps = 1000;
    saving->run.checkpoint->local =
        api::LocalSpec{.path = path(), .every = {.steps = 3, .epochs = {}, .time = {}}, .keep = 1};
    saving->objects.objects = remote;
    return saving;
  }
  void end(SavingRun& saving) {
    saving.run.run();
    remote = saving.objects.objects;
  }
  /// Rank 0 fails in the middle of a step once there is a copy. A thread makes the copy of the third step, and the
  /// later steps wait for that thread.
  void fail_once_copied(SavingRun& saving) const {
    saving.run.ranks[0].module->on_step = [this, seen = 0](std::int64_t) mutable {
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes{1};
      if (++seen <= 3) return;
      while (newest_copy() == 0 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
      throw std::runtime_error{"a bug"};
    };
  }
  [[nodiscard]] std::string path() const { return folder.path() + "/local"; }
  /// Their steps.
  [[nodiscard]] Steps copies() const {
    Steps steps;
    for (std::int64_t step = 1; step <= 100; ++step) {
      if (has_copy(step)) steps.insert(step);
    }
    return steps;
  }
  [[nodiscard]] std::int64_t newest_copy() const {
    const Steps steps = copies();
    return steps.empty() ? 0 : *steps.rbegin();
  }
  [[nodiscard]] bool has_copy(std::int64_t step, std::int64_t generation = 1) const {
    return fs::exists(fmt::format("{}/uid/step-{}/g-{}/manifest.json", path(), step, generation));
  }
  [[nodiscard]] static bool is_resumed_from(const std::string& log, std::int64_t step, std::string_view place) {
    return log.find(fmt::format("resumed from a checkpoint  step={}  uri={}", step, place)) != std::string::npos;
  }

  fakes::TemporaryFolder folder;
  decltype(fakes::MemoryObjects::objects) remote;
};

TEST_F(LocalTierOfATraining, IsResumedByARunThatLostTheStepsAfterTheLastRemoteCheckpoint) {
  for (const std::int64_t world_size : {1, 2}) {
    const auto whole = attempt(1, 100, world_size);
    whole->run.checkpoint.reset();
    whole->run.run();

    remote.clear();
    const auto first = attempt(1, 100, world_size);
    fail_once_copied(*first);
    end(*first);
    const std::int64_t step = newest_copy();
    ASSERT_GT(step, 0) << world_size << " ranks";
    ASSERT_FALSE(remote.contains("step-100/g-1/manifest.json"));
    EXPECT_EQ(copies().size(), 1U) << "one is kept";

    const auto second = attempt(2, 100, world_size);
    testing::internal::CaptureStderr();
    end(*second);
    EXPECT_TRUE(is_resumed_from(testing::internal::GetCapturedStderr(), step, "file://"));
    for (std::size_t rank = 0; rank < second->run.ranks.size(); ++rank) {
      EXPECT_EQ(second->run.ranks[rank].end.reason, "Completed") << second->run.ranks[rank].end.message;
      EXPECT_EQ(second->run.ranks[rank].checksum, whole->run.ranks[rank].checksum) << "the same bits";
    }
    EXPECT_TRUE(remote.contains("step-100/g-2/manifest.json"));
    EXPECT_FALSE(fs::exists(path() + "/uid")) << "the job has succeeded";
    fs::remove_all(path());
  }
}

TEST_F(LocalTierOfATraining, IsNotMissedWhereItsFolderIsLost) {
  const auto first = attempt(1, 100);
  fail_once_copied(*first);
  end(*first);
  fs::remove_all(path());
  const auto second = attempt(2, 100);
  end(*second);
  EXPECT_EQ(second->run.ranks[0].end.reason, "Completed") << second->run.ranks[0].end.message;
}

TEST_F(LocalTierOfATraining, ThatCannotBeWrittenHoldsUpNeitherTrainingNorRemoteCheckpoints) {
  std::ofstream{path()} << "no folder";
  const auto saving = attempt(1, 20);
  saving->run.checkpoint->every.steps = 10;
  testing::internal::CaptureStderr();
  end(*saving);
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("the folder of local checkpoints cannot be written"));
  const std::string words = "no local checkpoint: saving failed";
  ASSERT_THAT(log, HasSubstr(words));
  EXPECT_EQ(log.find(words), log.rfind(words)) << "once a minute";
  EXPECT_EQ(saving->run.ranks[0].end.reason, "Completed");
  EXPECT_EQ(saving->saved(0).size(), 2U) << "the tenth, or the one after it, and the last";
}

TEST_F(LocalTierOfATraining, ComesFirstAndTheRemoteCheckpointAfterItWhenItIsAskedToStop) {
  const auto saving = attempt(1, 100);
  bool was_copied_before = false;
  saving->on_put([&](std::int64_t, std::string_view key) -> std::optional<Error> {
    if (key.starts_with("step-8/")) was_copied_before = has_copy(8);
    return std::nullopt;
  });
  saving->at_step(1, 7, [&] { saving->run.ranks[1].link->request_stop(); });
  end(*saving);
  EXPECT_EQ(saving->run.ranks[0].end.exit_code, contract::exit_preempted);
  EXPECT_TRUE(was_copied_before);
  EXPECT_TRUE(has_copy(8)) << "the next attempt may be on this node";
  EXPECT_THAT(saving->run.ranks[0].end.message, HasSubstr("saved as memory://step-8/g-1"));
}

TEST_F(LocalTierOfATraining, IsSavedRemotelyByARunThatResumesItAndIsStoppedBeforeItsFirstStep) {
  const auto first = attempt(1, 100);
  fail_once_copied(*first);
  end(*first);
  const std::int64_t step = newest_copy();
  ASSERT_GT(step, 0);

  const auto second = attempt(2, 100);
  second->on_put([&](std::int64_t, std::string_view key) -> std::optional<Error> {
    if (key == "generations/2.json") second->run.ranks[1].link->request_stop();
    return std::nullopt;
  });
  end(*second);
  for (const auto& rank : second->run.ranks) {
    EXPECT_EQ(rank.end.exit_code, contract::exit_preempted);
    EXPECT_EQ(rank.end.message, fmt::format("stopped as asked after step {0}, before this attempt's first, saved as "
                                            "memory://step-{0}/g-2",
                                            step));
  }

  fs::remove_all(path());
  const auto third = attempt(3, 100);
  testing::internal::CaptureStderr();
  end(*third);
  EXPECT_TRUE(is_resumed_from(testing::internal::GetCapturedStderr(), step, "memory://"));
}

TEST_F(LocalTierOfATraining, PutsOffNoRemoteCheckpointThatIsDueByTime) {
  const auto saving = attempt(1, 100'000);
  saving->run.checkpoint->every = {.steps = {}, .epochs = {}, .time = std::chrono::seconds{100}};
  saving->run.checkpoint->local->every = {.steps = {}, .epochs = {}, .time = std::chrono::seconds{30}};
  // The next copy is due each time that one is there, and the fifth is the last.
  saving->run.ranks[0].module->on_step = [&, last = std::int64_t{-1}, copies = 0](std::int64_t) mutable {
    std::int64_t newest = std::max<std::int64_t>(last, 0);
    std::error_code error;
    for (fs::directory_iterator entry{path() + "/uid", error}; !error && entry != fs::directory_iterator{};
         entry.increment(error)) {
      if (fs::exists(entry->path() / "g-1" / "manifest.json", error))
        newest = std::max<std::int64_t>(newest, std::stoll(entry->path().filename().string().substr(5)));
    }
    if (newest == last) return;
    last = newest;
    saving->run.clock.advance(std::chrono::seconds{40});
    if (++copies == 5) saving->run.ranks[0].link->request_stop();
  };
  end(*saving);
  const auto is_manifest = [](const auto& object) { return object.first.ends_with("/manifest.json"); };
  EXPECT_GE(std::ranges::count_if(remote, is_manifest), 2) << "one by time, between the copies, and the last";
}

TEST_F(LocalTierOfATraining, MakesNoCopyWhileACheckpointIsWritten) {
  const auto saving = attempt(1, 20);
  saving->run.checkpoint->every.steps = 4;
  saving->run.checkpoint->local->every.steps = 6;
  fakes::Gate gate;
  saving->hold_up(4, gate);
  bool had_copy = false;
  saving->at_step(0, 11, [&] {
    had_copy = has_copy(6);
    gate.open();
  });
  end(*saving);
  EXPECT_FALSE(had_copy);
  EXPECT_TRUE(saving->saved(0).contains(4));
  EXPECT_EQ(saving->run.ranks[0].end.reason, "Completed");
}

}  // namespace
}  // namespace trainyard::train
