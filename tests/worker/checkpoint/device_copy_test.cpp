// Copies of a state on its device, which let training go on while they come to the host.
#include "worker/checkpoint/device_copy.hpp"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <latch>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/group/communicator.hpp"
#include "tests/fakes/fake_clock.hpp"
#include "tests/fakes/memory_store.hpp"
#include "tests/worker/fakes/fake_gauge.hpp"
#include "tests/worker/fakes/late_device.hpp"
#include "tests/worker/fakes/rank_threads.hpp"
#include "worker/checkpoint/checkpointer.hpp"
#include "worker/checkpoint/staging.hpp"

namespace trainyard::checkpoint {
namespace {

namespace late_device = fakes::late_device;

constexpr std::uint64_t gib = std::uint64_t{1} << 30;

TEST(RoomForCopy, LeavesTheReserveAndWhatStepsHaveEverUsed) {
  struct Row {
    std::string_view name;
    dist::DeviceMemory memory;
    std::uint64_t training_bytes_max = 0;
    std::uint64_t room = 0;
  };
  const Row rows[] = {
      {"a step needs nothing more",
       {.free_bytes = 9 * gib, .cached_bytes = 0, .used_bytes = 2 * gib},
       2 * gib,
       8 * gib},
      {"what the allocator holds counts", {.free_bytes = gib, .cached_bytes = 5 * gib}, 0, 5 * gib},
      {"a step needs 4 GiB for activations",
       {.free_bytes = 2 * gib, .cached_bytes = 4 * gib, .used_bytes = 3 * gib},
       7 * gib,
       gib},
      {"a step needs all that is left", {.free_bytes = 2 * gib, .cached_bytes = 0, .used_bytes = gib}, 8 * gib, 0},
      {"less than the reserve is free", {.free_bytes = gib - 1}, 0, 0},
      {"the training uses more than ever", {.free_bytes = 3 * gib, .used_bytes = 5 * gib}, 4 * gib, 2 * gib},
  };
  for (const Row& row : rows) EXPECT_EQ(room_for_copy(row.memory, row.training_bytes_max), row.room) << row.name;
}

TEST(DeviceRoom, IsAskedAnewAtEachSaveAndRemembersTheMostThatTheTrainingUsed) {
  fakes::FakeGauge gauge;
  DeviceRoom room{&gauge};
  const auto ask = [&] { return room.ask({{1, 3 * gib}}, torch::kCUDA); };
  gauge.memory = {.free_bytes = 4 * gib, .cached_bytes = 0, .used_bytes = gib, .used_bytes_max = gib};
  EXPECT_EQ(ask(), (DeviceCopy{.is_made = true, .needed_bytes = 3 * gib, .room_bytes = 3 * gib}));
  gauge.memory.used_bytes_max = 2 * gib;
  EXPECT_EQ(ask(), (DeviceCopy{.is_made = false, .needed_bytes = 3 * gib, .room_bytes = 2 * gib}));
  gauge.memory.used_bytes_max = gib;
  EXPECT_EQ(ask()->room_bytes, 2 * gib) << "a later step may use as much as the largest before";
  gauge.memory.free_bytes = 5 * gib;
  EXPECT_TRUE(ask()->is_made) << "memory was freed since";
}

TEST(DeviceRoom, IsNotThereForACopyAsLargeAsOneThatFailed) {
  fakes::FakeGauge gauge;
  gauge.memory.free_bytes = 9 * gib;
  DeviceRoom room{&gauge};
  room.copy_failed(*room.ask({{0, 3 * gib}}, torch::kCUDA));
  EXPECT_EQ(gauge.resets, 1);
  EXPECT_FALSE(room.ask({{0, 3 * gib}}, torch::kCUDA)->is_made);
  EXPECT_TRUE(room.ask({{0, 3 * gib - 1}}, torch::kCUDA)->is_made);
}

TEST(DeviceRoom, NeedsEachDeviceToHaveRoomAndKnowsNothingWithoutAGauge) {
  fakes::FakeGauge gauge;
  gauge.memory.free_bytes = 4 * gib;
  DeviceRoom room{&gauge};
  EXPECT_EQ(room.ask({{0, gib}, {1, 4 * gib}, {2, gib}}, torch::kCUDA),
            (DeviceCopy{.is_made = false, .needed_bytes = 4 * gib, .room_bytes = 3 * gib}));
  EXPECT_EQ(room.ask({}, torch::kCPU), std::nullopt);
  EXPECT_EQ(DeviceRoom{nullptr}.ask({{0, gib}}, torch::kCUDA), std::nullopt);
}

TEST(DeviceCopyCount, CountsSavesAndTellsEachChange) {
  DeviceCopyCount count;
  std::vector<bool> changes;
  for (const bool is_made : {true, true, false, false, true}) changes.push_back(count.add({.is_made = is_made}));
  EXPECT_EQ(changes, (std::vector{true, false, true, false, true}));
  EXPECT_EQ(count.with_copy(), 3);
  EXPECT_EQ(count.without_copy(), 2);
}

// A parameter of 2 MiB, an Adam state that is not contiguous, and a buffer that is not steady; all ones.
State a_training_state() {
  State state;
  const auto add = [&](const char* name, Placement placement, const at::Tensor& tensor, bool is_steady) {
    state.entries.push_back(
        {.name = name, .placement = placement, .tensor = tensor.to(late_device::device()), .is_steady = is_steady});
  };
  add("parameter", Placement::replicated, at::ones({1024, 512}), true);
  add("moment", Placement::replicated, at::ones({40, 30}), true);
  state.entries.back().tensor = state.entries.back().tensor.t();
  add("buffer", Placement::rank0, at::ones({7}), false);
  state.entries.push_back(
      {.name = "step", .placement = Placement::replicated, .tensor = at::ones({1}), .is_steady = true});
  return state;
}

bool are_filled_with(std::span<const HostEntry> entries, float value) {
  return std::ranges::all_of(entries, [&](const HostEntry& entry) {
    const std::span numbers{reinterpret_cast<const float*>(entry.bytes.data()), entry.bytes.size() / sizeof(float)};
    return !numbers.empty() && std::ranges::all_of(numbers, [&](float number) { return number == value; });
  });
}

void change(const State& state, double value) {
  for (const Entry& entry : state.entries) {
    if (entry.tensor.is_cpu()) {
      entry.tensor.fill_(value);
    } else {
      late_device::queue_fill(entry.tensor, value);
    }
  }
}

/// The whole save of a Staging whose state does not change meanwhile.
bool has_staged(Staging& staging, const State& state) {
  return staging.stage(state) && staging.stage_steady() == true && staging.fetch_copies();
}

TEST(ACopyOnTheDevice, HoldsTheBytesOfTheSaveThoughTrainingChangesAllAtOnce) {
  fakes::FakeGauge gauge;
  gauge.memory.free_bytes = 2 * gib;
  Staging staging{0, 1, StagedPart::share, &gauge};
  const State state = a_training_state();
  for (const float value : {1.F, 5.F}) {
    change(state, value);
    ASSERT_TRUE(staging.stage(state));
    EXPECT_TRUE(staging.device_copy()->is_made);
    EXPECT_EQ(staging.stage_steady(), true);
    change(state, 9);
    late_device::wait();
    ASSERT_TRUE(staging.fetch_copies());
    EXPECT_TRUE(are_filled_with(staging.entries(), value));
  }
}

TEST(ACopyOnTheDevice, LetsTheHostWaitForNothingBeforeItIsFetched) {
  for (const bool has_room : {true, false}) {
    fakes::FakeGauge gauge;
    gauge.memory.free_bytes = has_room ? 2 * gib : 0;
    Staging staging{0, 1, StagedPart::share, &gauge};
    const State state = a_training_state();
    late_device::wait_for_all();
    std::vector<int> blocking_calls;
    auto count = [&, before = late_device::blocking_calls()]() mutable {
      const int now = late_device::blocking_calls();
      blocking_calls.push_back(now - std::exchange(before, now));
    };
    ASSERT_TRUE(staging.stage(state));
    count();
    EXPECT_EQ(staging.stage_steady(), true);
    count();
    ASSERT_TRUE(staging.fetch_copies());
    count();
    // The bytes fit one buffer, which is waited for once. Without room the model's buffers alone are copied first.
    EXPECT_EQ(blocking_calls, has_room ? (std::vector{0, 0, 1}) : (std::vector{0, 1, 1}));
    EXPECT_TRUE(are_filled_with(staging.entries(), 1));
  }
}

TEST(ACopyOnTheDevice, GivesItsMemoryBackAndIsNotTakenForANeedOfTheTraining) {
  fakes::FakeGauge gauge;
  gauge.memory.free_bytes = 2 * gib;
  Staging staging{0, 1, StagedPart::share, &gauge};
  const State state = a_training_state();
  late_device::wait_for_all();
  const std::size_t before = late_device::memory_bytes();
  ASSERT_TRUE(staging.stage(state));
  late_device::wait_for_all();
  EXPECT_EQ(late_device::memory_bytes() - before, 1024 * 512 * 4 + 40 * 30 * 4 + 7 * 4);
  EXPECT_EQ(staging.stage_steady(), true);
  ASSERT_TRUE(staging.fetch_copies());
  late_device::wait_for_all();
  EXPECT_EQ(late_device::memory_bytes(), before);
  EXPECT_EQ(gauge.resets, 1);
}

TEST(ACopyOnTheDevice, IsMadeAgainOnceThereIsRoom) {
  fakes::FakeGauge gauge;
  Staging staging{0, 1, StagedPart::share, &gauge};
  const State state = a_training_state();
  for (const bool has_room : {false, true, false, true}) {
    gauge.memory.free_bytes = has_room ? 2 * gib : gib;
    ASSERT_TRUE(has_staged(staging, state));
    EXPECT_EQ(staging.device_copy()->is_made, has_room);
    EXPECT_TRUE(are_filled_with(staging.entries(), 1));
  }
}

TEST(ACopyOnTheDevice, IsGivenUpWhereTheDeviceHasNoMemoryAfterAll) {
  fakes::FakeGauge gauge;
  gauge.memory.free_bytes = 2 * gib;
  const State state = a_training_state();
  // The parameter's copy or the moment's finds no memory.
  for (const int allocations : {0, 1}) {
    Staging staging{0, 1, StagedPart::share, &gauge};
    late_device::wait_for_all();
    const std::size_t before = late_device::memory_bytes();
    late_device::fail_allocation_after(allocations);
    const auto staged = staging.stage(state);
    late_device::fail_allocation_after(-1);
    ASSERT_TRUE(staged) << staged.error().message;
    EXPECT_FALSE(staging.device_copy()->is_made);
    EXPECT_EQ(staging.stage_steady(), true);
    ASSERT_TRUE(staging.fetch_copies());
    EXPECT_TRUE(are_filled_with(staging.entries(), 1));
    late_device::wait_for_all();
    EXPECT_EQ(late_device::memory_bytes(), before);
    ASSERT_TRUE(has_staged(staging, state));
    EXPECT_FALSE(staging.device_copy()->is_made) << "the next save does not try again";
  }
}

TEST(ACopyOnTheDevice, IsNotMadeOfEntriesThatChangeEitherWhereTheDeviceHasNoMemoryAtAll) {
  fakes::FakeGauge gauge;  // No room: only the model's buffer and samples would be copied there.
  Staging staging{0, 1, StagedPart::share, &gauge};
  const State state = a_training_state();
  late_device::fail_allocation_after(0);
  const auto staged = staging.stage(state);
  late_device::fail_allocation_after(-1);
  ASSERT_TRUE(staged) << staged.error().message;
  EXPECT_TRUE(are_filled_with(staging.entries(), 1)) << "all is on the host at once";
  change(state, 4);
  EXPECT_EQ(staging.stage_steady(), true);
  ASSERT_TRUE(staging.fetch_copies());
  EXPECT_TRUE(are_filled_with(staging.entries(), 1));
}

TEST(ACopyOnTheDevice, IsNotMadeBeforeAStepHasShownWhatStepsNeed) {
  fakes::FakeGauge gauge;
  gauge.memory.free_bytes = 2 * gib;
  Staging staging{0, 1, StagedPart::share, &gauge};
  const State state = a_training_state();
  ASSERT_TRUE(staging.stage(state, /*may_copy_all=*/false));
  EXPECT_FALSE(staging.device_copy()->is_made);
  EXPECT_EQ(staging.stage_steady(), true);
  ASSERT_TRUE(staging.fetch_copies());
  EXPECT_TRUE(are_filled_with(staging.entries(), 1));
  ASSERT_TRUE(has_staged(staging, state));
  EXPECT_TRUE(staging.device_copy()->is_made);
}

TEST(ACopyOnTheDevice, IsMadeAlsoWhereTheModelChangesItsParametersElsewhere) {
  fakes::FakeGauge gauge;
  Staging staging{0, 1, StagedPart::share, &gauge};
  const State state = a_training_state();
  ASSERT_TRUE(staging.stage(state));
  late_device::queue_fill(state.entries[0].tensor, 6);
  late_device::wait();
  ASSERT_EQ(staging.stage_steady(), false) << "there was no room, and the parameter changed";
  ASSERT_TRUE(staging.fetch_copies());

  gauge.memory.free_bytes = 2 * gib;
  change(state, 3);
  const int before = late_device::blocking_calls();
  ASSERT_TRUE(staging.stage(state));
  EXPECT_EQ(late_device::blocking_calls(), before);
  change(state, 4);
  EXPECT_EQ(staging.stage_steady(), true);
  ASSERT_TRUE(staging.fetch_copies());
  EXPECT_TRUE(are_filled_with(staging.entries(), 3));
}

api::CheckpointSpec a_place() {
  api::CheckpointSpec spec;
  spec.uri = "memory://";
  return spec;
}

/// A checkpointer over a store in memory, of a state on the device.
struct SavedOnDevice {
  SavedOnDevice() {
    gauge.memory.free_bytes = 2 * gib;
    checkpointer = *open_checkpointer(std::make_unique<fakes::MemoryStore>(objects), a_place(),
                                      {.job = "team/a", .job_uid = "uid", .attempt = 1, .fingerprint = "f"},
                                      communicator, clock, {.device_memory = &gauge});
    EXPECT_TRUE(checkpointer->restore(state));
  }
  SaveOutcome outcome() { return *checkpointer->take_outcome(std::chrono::minutes{1}); }

  fakes::MemoryObjects objects;
  SingleCommunicator communicator;
  fakes::FakeClock clock;
  fakes::FakeGauge gauge;
  State state = a_training_state();
  std::unique_ptr<Checkpointer> checkpointer;
};

TEST(ASaveWithACopyOnTheDevice, HasFinishedStagingBeforeTheDeviceHasDoneAnything) {
  SavedOnDevice saved;
  change(saved.state, 5);
  late_device::wait();
  std::latch may_run{1};
  late_device::queue([&] { may_run.wait(); });
  const int before = late_device::blocking_calls_of_this_thread();
  saved.checkpointer->begin_save(saved.state, 10, {});
  saved.checkpointer->finish_staging();
  EXPECT_EQ(late_device::blocking_calls_of_this_thread(), before);
  EXPECT_TRUE(saved.checkpointer->is_saving());
  change(saved.state, 6);  // The optimizer's step.
  may_run.count_down();
  const auto outcome = saved.outcome();
  ASSERT_TRUE(outcome.saved) << outcome.saved.error().message;
  EXPECT_EQ(outcome.is_copied_on_device, true);

  State restored = a_training_state();
  SavedOnDevice next;
  const auto again = open_checkpointer(std::make_unique<fakes::MemoryStore>(saved.objects), a_place(),
                                       {.job = "team/a", .job_uid = "uid", .attempt = 2, .fingerprint = "f"},
                                       next.communicator, next.clock);
  ASSERT_TRUE((*again)->restore(restored));
  for (const Entry& entry : restored.entries)
    EXPECT_TRUE(at::equal(entry.tensor.cpu(), at::full_like(entry.tensor.cpu(), 5))) << entry.name;
}

TEST(ASaveWithACopyOnTheDevice, FailsWhereTheDeviceFailsWhileTheCopyIsFetchedAndTheNextSucceeds) {
  SavedOnDevice saved;
  late_device::fail_copy_after(
      3);  // Both steady tensors and the buffer are copied on the device, and nothing to the host.
  saved.checkpointer->begin_save(saved.state, 10, {});
  saved.checkpointer->finish_staging();
  const auto failed = saved.outcome();
  late_device::fail_copy_after(-1);
  ASSERT_FALSE(failed.saved);
  EXPECT_EQ(failed.saved.error().kind, ErrorKind::internal);
  EXPECT_NE(failed.saved.error().message.find(
                "copying the state to the host: CUDA error: uncorrectable ECC error encountered"),
            std::string::npos)
      << failed.saved.error().message;

  saved.checkpointer->begin_save(saved.state, 11, {});
  EXPECT_TRUE(saved.outcome().saved);
}

TEST(ASaveWithACopyOnTheDevice, IsLostToTheOtherRanksByAPeerWhereOneRanksDeviceFails) {
  std::vector<Error> errors(2);
  fakes::MemoryObjects objects;
  fakes::run_ranks(2, [&](fakes::RankThread& rank) {
    const fakes::FakeClock clock;
    auto checkpointer = *open_checkpointer(std::make_unique<fakes::MemoryStore>(objects), a_place(),
                                           {.job = "team/a", .job_uid = "uid", .attempt = 1, .fingerprint = "f"},
                                           *rank.checkpoint_communicator, clock);
    State state = a_training_state();
    if (rank.rank == 1)
      for (Entry& entry : state.entries) entry.tensor = entry.tensor.cpu();
    ASSERT_TRUE(checkpointer->restore(state));
    if (rank.rank == 0) late_device::fail_copy_after(0);
    checkpointer->begin_save(state, 10, {});
    const auto outcome = *checkpointer->take_outcome(std::chrono::minutes{1});
    if (rank.rank == 0) late_device::fail_copy_after(-1);
    ASSERT_FALSE(outcome.saved);
    errors[static_cast<std::size_t>(rank.rank)] = outcome.saved.error();
  });
  EXPECT_EQ(errors[0].kind, ErrorKind::internal);
  EXPECT_EQ(errors[1].kind, ErrorKind::cancelled);
  EXPECT_EQ(errors[1].message, "another rank cannot save: " + errors[0].message);
}

TEST(ARestoreToADevice, IsLostToTheOtherRanksByAPeerWhereOneRanksDeviceFails) {
  std::vector<Error> errors(2);
  fakes::MemoryObjects objects;
  fakes::run_ranks(2, [&](fakes::RankThread& rank) {
    const fakes::FakeClock clock;
    const auto open_attempt = [&](std::int64_t attempt) {
      return *open_checkpointer(std::make_unique<fakes::MemoryStore>(objects), a_place(),
                                {.job = "team/a", .job_uid = "uid", .attempt = attempt, .fingerprint = "f"},
                                *rank.checkpoint_communicator, clock);
    };
    State state = a_training_state();
    if (rank.rank == 1)
      for (Entry& entry : state.entries) entry.tensor = entry.tensor.cpu();
    const auto first = open_attempt(1);
    ASSERT_TRUE(first->restore(state));
    first->begin_save(state, 10, {});
    ASSERT_TRUE(first->take_outcome(std::chrono::minutes{1})->saved);

    const auto second = open_attempt(2);
    if (rank.rank == 0) late_device::fail_copy_after(0);
    const auto restored = second->restore(state);
    if (rank.rank == 0) late_device::fail_copy_after(-1);
    ASSERT_FALSE(restored);
    errors[static_cast<std::size_t>(rank.rank)] = restored.error();
  });
  EXPECT_EQ(errors[0].kind, ErrorKind::internal);
  EXPECT_TRUE(errors[0].message.starts_with("restoring ")) << errors[0].message;
  EXPECT_EQ(errors[1].kind, ErrorKind::cancelled);
  EXPECT_EQ(errors[1].message, "another rank cannot restore: rank 0: " + errors[0].message);
}

}  // namespace
}  // namespace trainyard::checkpoint
