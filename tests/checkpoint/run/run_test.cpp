#include "checkpoint/run/run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <set>

#include "checkpoint/run/inventory.hpp"
#include "tests/checkpoint/run/test_run.hpp"
#include "tests/fakes/faulty_store.hpp"

namespace trainyard::checkpoint {
namespace {

using testing::HasSubstr;

std::vector<std::string> keys_of(fakes::MemoryObjects& objects) {
  std::vector<std::string> keys;
  for (const auto& [key, content] : objects.objects) keys.push_back(key);
  return keys;
}

// A run of attempt 1 that saved at `steps`.
void save_steps(fakes::MemoryObjects& objects, const std::vector<std::int64_t>& steps) {
  TestRun run{objects};
  ASSERT_TRUE(run.restore());
  for (const std::int64_t step : steps) ASSERT_TRUE(run.save(step));
}

void add_device_generator(TestState& state) {
  state.add_device_generator();
}

TEST(Run, FindsNothingUnderAFreshPrefixAndClaimsIt) {
  fakes::MemoryObjects objects;
  TestRun run{objects};
  const auto restored = run.restore();
  ASSERT_TRUE(restored);
  EXPECT_FALSE(*restored);
  EXPECT_EQ(keys_of(objects), std::vector<std::string>{"generations/1.json"});
}

TEST(Run, GivesBackEveryByteAndValueItSaved) {
  fakes::MemoryObjects objects;
  TestRun first{objects};
  ASSERT_TRUE(first.restore());
  const auto saved = first.save(10);
  ASSERT_TRUE(saved) << saved.error().message;
  EXPECT_EQ(saved->uri, "memory://step-10/g-1");

  TestRun second{objects};
  const auto restored = second.as_attempt(2).restore();
  ASSERT_TRUE(restored) << restored.error().message;
  ASSERT_TRUE(*restored);
  EXPECT_EQ((*restored)->step, 10);
  EXPECT_EQ((*restored)->uri, saved->uri);
  EXPECT_EQ((*restored)->values, (nlohmann::json{{"epoch", 1}}));
  EXPECT_FALSE((*restored)->is_final);
  EXPECT_THAT((*restored)->skipped, testing::IsEmpty());
  EXPECT_TRUE(second.holds_state_after(10));
}

TEST(Run, WritesAFolderOfSafetensorsAndAManifest) {
  fakes::MemoryObjects objects;
  on_every_rank(2, objects, [](TestRun& run) {
    ASSERT_TRUE(run.restore());
    const auto saved = run.save(10);
    ASSERT_TRUE(saved) << saved.error().message;
  });
  EXPECT_EQ(keys_of(objects),
            (std::vector<std::string>{"generations/1.json", "generations/1.saved", "step-10/g-1/manifest.json",
                                      data_key_in(objects, {10, 1}, 0), data_key_in(objects, {10, 1}, 1)}));
}

TEST(Run, PutsOneObjectForEachRankTheManifestAndARecord) {
  for (const std::int64_t world_size : {1, 8, 60}) {
    fakes::MemoryObjects objects;
    std::atomic<std::int64_t> puts = 0;
    fakes::ThreadGroup group{world_size};
    group.run([&](Communicator& communicator) {
      TestRun run{std::make_unique<fakes::FaultyStore>(
          std::make_unique<fakes::MemoryStore>(objects),
          [&](std::string_view call, std::string_view key, auto) -> std::optional<Error> {
            if (call == "put" && (key.starts_with("step-") || key == "generations/1.saved")) ++puts;
            return std::nullopt;
          })};
      run.communicator = &communicator;
      run.large_rows = 1;
      ASSERT_TRUE(run.restore());
      ASSERT_TRUE(run.save(10));
      ASSERT_TRUE(run.save(20));
    });
    EXPECT_EQ(puts, 2 * (world_size + 2));
    EXPECT_EQ(keys_of(objects).size(), static_cast<std::size_t>(2 * (world_size + 1) + 2));
  }
}

TEST(Run, ResumesFromACheckpointWhoseFilesHaveNoNonceAndReceiptsBesideThem) {
  fakes::MemoryObjects objects;
  save_steps(objects, {10});
  fakes::MemoryStore store{objects};
  auto manifest = storage::get_text(store, "step-10/g-1/manifest.json").and_then(parse_manifest);
  ASSERT_TRUE(manifest);
  auto file = objects.objects.extract(data_key(*manifest, 0));
  objects.objects["step-10/g-1/rank-0.safetensors"] = file.mapped();
  manifest->data_nonce.clear();
  ASSERT_TRUE(storage::put_text(store, "step-10/g-1/manifest.json", to_text(*manifest)));
  ASSERT_TRUE(storage::put_text(store, "step-10/g-1/receipt-0.json", "{}"));

  TestRun run{objects};
  ASSERT_EQ(run.as_attempt(2).restore().value()->step, 10);
  EXPECT_TRUE(run.holds_state_after(10));
  for (const std::int64_t step : {20, 30}) ASSERT_TRUE(run.save(step));
  for (const std::string& key : keys_of(objects)) EXPECT_FALSE(key.starts_with("step-10/")) << key;
}

TEST(Run, DataFilesCanBeReadByTheirHeaderAlone) {
  fakes::MemoryObjects objects;
  save_steps(objects, {10});
  const std::vector<std::byte>& file = objects.objects.at(data_key_in(objects, {10, 1}, 0));
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), sizeof header_bytes);
  const auto* text = reinterpret_cast<const char*>(file.data());
  const auto header = nlohmann::json::parse(text + 8, text + 8 + header_bytes);
  const TestState expected = state_after(10);
  for (const HostEntry& entry : expected.entries()) {
    ASSERT_TRUE(header.contains(entry.info.name)) << entry.info.name;
    const auto begin = header[entry.info.name]["data_offsets"][0].get<std::size_t>();
    const auto end = header[entry.info.name]["data_offsets"][1].get<std::size_t>();
    ASSERT_EQ(end - begin, entry.info.bytes);
    EXPECT_TRUE(std::equal(entry.bytes.begin(), entry.bytes.end(), file.data() + 8 + header_bytes + begin))
        << entry.info.name;
  }
  EXPECT_EQ(header["optimizer.complex"]["dtype"], "U8");
  EXPECT_EQ(header["optimizer.complex"]["shape"], (nlohmann::json{5, 16}));
}

TEST(Run, GivesEachRankItsOwnState) {
  for (const std::int64_t world_size : {2, 3, 5}) {
    fakes::MemoryObjects objects;
    on_every_rank(world_size, objects, [](TestRun& run) {
      ASSERT_TRUE(run.restore());
      ASSERT_TRUE(run.save(10));
      ASSERT_TRUE(run.save(20));
    });
    on_every_rank(world_size, objects, [](TestRun& run) {
      const auto restored = run.as_attempt(2).restore();
      ASSERT_TRUE(restored) << restored.error().message;
      EXPECT_EQ((*restored)->step, 20);
      EXPECT_TRUE(run.holds_state_after(20));
    });
  }
}

TEST(Run, ResumesAtAnotherNumberOfRanksWithFreshOwnStateWhereThereIsNone) {
  fakes::MemoryObjects objects;
  on_every_rank(2, objects, [](TestRun& run) {
    ASSERT_TRUE(run.restore());
    ASSERT_TRUE(run.save(10));
  });
  on_every_rank(3, objects, [](TestRun& run) {
    const auto restored = run.as_attempt(2).restore();
    ASSERT_TRUE(restored) << restored.error().message;
    if (run.communicator->rank() < 2) {
      EXPECT_TRUE(run.holds_state_after(10));
      return;
    }
    const HostEntry& rng = run.state.entries().back();
    const TestState fresh = state_after(-1, 2);
    EXPECT_TRUE(std::equal(rng.bytes.begin(), rng.bytes.end(), fresh.entries().back().bytes.begin()));
    EXPECT_FALSE(run.state == fresh);
  });
}

TEST(Run, MovesBetweenDevicesOfWhichOneHasAGeneratorOfItsOwn) {
  for (const bool has_at_first : {true, false}) {
    fakes::MemoryObjects objects;
    on_every_rank(2, objects, [&](TestRun& run) {
      if (has_at_first) run.extend = &add_device_generator;
      ASSERT_TRUE(run.restore());
      ASSERT_TRUE(run.save(10));
    });
    on_every_rank(2, objects, [&](TestRun& run) {
      if (!has_at_first) run.extend = &add_device_generator;
      const auto restored = run.as_attempt(2).restore();
      ASSERT_TRUE(restored) << restored.error().message;
      TestState expected{run.communicator->rank()};
      expected.set(10);
      if (!has_at_first) {
        TestState fresh{run.communicator->rank()};
        fresh.add_device_generator();
        const auto& generator = fresh.entries().back().bytes;
        EXPECT_TRUE(std::equal(generator.begin(), generator.end(), run.state.entries().back().bytes.begin()));
      }
      for (std::size_t i = 0; i < expected.entries().size(); ++i) {
        const auto& bytes = expected.entries()[i].bytes;
        EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), run.state.entries()[i].bytes.begin()));
      }
    });
  }
}

TEST(Run, SaysThatTheRunBeforeHadFinished) {
  fakes::MemoryObjects objects;
  TestRun first{objects};
  ASSERT_TRUE(first.restore());
  ASSERT_TRUE(first.save(10, true));
  TestRun second{objects};
  EXPECT_TRUE(second.as_attempt(2).restore().value()->is_final);
}

TEST(Run, RecordsThatTheStepJustSavedWasTheLast) {
  fakes::MemoryObjects objects;
  TestRun first{objects};
  ASSERT_TRUE(first.restore());
  ASSERT_TRUE(first.save(10));
  const auto again = first.save(10, true);
  ASSERT_TRUE(again) << again.error().message;
  TestRun second{objects};
  const auto restored = second.as_attempt(2).restore().value();
  EXPECT_TRUE(restored->is_final);
  EXPECT_TRUE(second.holds_state_after(10));
}

TEST(Run, KeepsTheNewestTwoAndNoTraceOfTheRest) {
  fakes::MemoryObjects objects;
  TestRun run{objects};
  run.keep.last = 1;  // At least two are kept.
  ASSERT_TRUE(run.restore());
  for (const std::int64_t step : {10, 20, 30, 40}) ASSERT_TRUE(run.save(step));
  for (const std::string& key : keys_of(objects)) {
    EXPECT_TRUE(key.starts_with("step-30/") || key.starts_with("step-40/") || key.starts_with("generations/")) << key;
  }
}

TEST(Run, KeepsMilestonesAndTheBestOfEarlierAttemptsToo) {
  fakes::MemoryObjects objects;
  const auto values_of = [](std::int64_t step) {
    // The best is at step 20; each second step ends an epoch.
    return nlohmann::json{
        {"epoch", step / 20}, {"samples", step % 20}, {"metrics", {{"val_loss", std::abs(step - 20)}}}};
  };
  for (const std::int64_t attempt : {1, 2}) {
    TestRun run{objects};
    run.as_attempt(attempt);
    run.values_of = values_of;
    run.keep = {
        .last = 2, .every_steps = 70, .every_epochs = 2, .best = KeepBest{.metric = "val_loss", .is_highest = false}};
    ASSERT_TRUE(run.restore());
    const std::int64_t begin = attempt == 1 ? 0 : 60;
    for (std::int64_t step = begin + 10; step <= begin + 60; step += 10) ASSERT_TRUE(run.save(step));
  }
  std::set<std::int64_t> kept;
  fakes::MemoryStore store{objects};
  const auto listed = list_checkpoints(store);
  ASSERT_TRUE(listed);
  for (const CheckpointId& id : listed->present) kept.insert(id.step);
  EXPECT_EQ(kept, (std::set<std::int64_t>{20, 40, 70, 80, 110, 120}));
}

TEST(Run, RemovesNothingThatItCannotJudge) {
  fakes::MemoryObjects objects;
  TestRun first{objects};
  ASSERT_TRUE(first.restore());
  for (const std::int64_t step : {10, 20}) ASSERT_TRUE(first.save(step));
  bool is_away = true;
  TestRun second{std::make_unique<fakes::FaultyStore>(
      std::make_unique<fakes::MemoryStore>(objects),
      [&](std::string_view call, std::string_view key, storage::Pieces) -> std::optional<Error> {
        if (call != "get" || key != "step-10/g-1/manifest.json" || !is_away) return std::nullopt;
        return Error{ErrorKind::unavailable, "away", std::nullopt};
      })};
  second.keep.best = KeepBest{.metric = "val_loss"};
  ASSERT_TRUE(second.as_attempt(2).restore());
  for (const std::int64_t step : {30, 40}) ASSERT_TRUE(second.save(step));
  EXPECT_TRUE(objects.objects.contains("step-10/g-1/manifest.json"));
  EXPECT_FALSE(objects.objects.contains("step-20/g-1/manifest.json")) << "known to have no such metric";
  is_away = false;
  ASSERT_TRUE(second.save(50));
  EXPECT_FALSE(objects.objects.contains("step-10/g-1/manifest.json"));
}

TEST(Run, LetsTheNewerAttemptTakeOverAndFencesTheOlderOne) {
  fakes::MemoryObjects objects;
  TestRun older{objects};
  ASSERT_TRUE(older.restore());
  ASSERT_TRUE(older.save(10));
  TestRun newer{objects};
  ASSERT_EQ(newer.as_attempt(2).restore().value()->step, 10);

  const auto late = older.save(20);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().kind, ErrorKind::conflict);
  EXPECT_THAT(late.error().message, HasSubstr("attempt 2 of team/a"));
  EXPECT_FALSE(objects.objects.contains("step-20/g-1/manifest.json"));
  EXPECT_TRUE(newer.save(20));
  TestRun third{objects};
  EXPECT_EQ(third.as_attempt(3).restore().value()->uri, "memory://step-20/g-2");
}

TEST(Run, FencesAllRanksOfTheOlderAttempt) {
  fakes::MemoryObjects objects;
  on_every_rank(2, objects, [&](TestRun& run) {
    ASSERT_TRUE(run.restore());
    ASSERT_TRUE(run.save(10));
    if (run.communicator->rank() == 0) {
      TestRun newer{objects};
      ASSERT_TRUE(newer.as_attempt(2).restore());
    }
    EXPECT_EQ(run.save(20).error().kind, ErrorKind::conflict);
  });
}

TEST(Run, EndsAnAttemptThatWakesAfterANewerOneHasClaimed) {
  fakes::MemoryObjects objects;
  TestRun newer{objects};
  ASSERT_TRUE(newer.as_attempt(2).restore());
  TestRun older{objects};
  const auto restored = older.restore();
  ASSERT_FALSE(restored);
  EXPECT_EQ(restored.error().kind, ErrorKind::conflict);
  EXPECT_EQ(keys_of(objects), std::vector<std::string>{"generations/1.json"});
}

TEST(Run, IgnoresWhatAFencedWriterStillManagedToFinish) {
  fakes::MemoryObjects objects;
  save_steps(objects, {10, 20, 30});
  // The claim says that attempt 2 resumed from step 20, as if step 30 had not been there.
  TestRun second{objects};
  const auto manifest = objects.objects.extract("step-30/g-1/manifest.json");
  ASSERT_EQ(second.as_attempt(2).restore().value()->step, 20);
  objects.objects["step-30/g-1/manifest.json"] = manifest.mapped();
  TestRun third{objects};
  EXPECT_EQ(third.as_attempt(3).restore().value()->step, 20);
}

TEST(Run, RefusesAStateOfAnotherShape) {
  fakes::MemoryObjects objects;
  save_steps(objects, {10});
  const auto manifest = objects.objects.at("step-10/g-1/manifest.json");
  auto other = parse_manifest({reinterpret_cast<const char*>(manifest.data()), manifest.size()}).value();
  other.entries.front().shape = {7, 64};
  const std::string text = to_text(other);
  const auto bytes = std::as_bytes(std::span{text});
  objects.objects["step-10/g-1/manifest.json"].assign(bytes.begin(), bytes.end());
  TestRun run{objects};
  const auto restored = run.as_attempt(2).restore();
  ASSERT_FALSE(restored);
  EXPECT_EQ(restored.error().kind, ErrorKind::invalid);
  EXPECT_THAT(restored.error().message, HasSubstr("model.weight"));
}

TEST(Run, RefusesRanksThatSaveDifferentThings) {
  fakes::MemoryObjects objects;
  on_every_rank(2, objects, [](TestRun& run) {
    ASSERT_TRUE(run.restore());
    const auto saved = run.save(10 + run.communicator->rank());
    ASSERT_FALSE(saved);
    EXPECT_EQ(saved.error().kind, ErrorKind::internal);
  });
}

TEST(Run, NoticesAFolderThatTheRanksDoNotShare) {
  std::vector<fakes::MemoryObjects> folders(2);
  fakes::ThreadGroup group{2};
  group.run([&](Communicator& communicator) {
    TestRun run{folders[static_cast<std::size_t>(communicator.rank())]};
    run.communicator = &communicator;
    const auto restored = run.restore();
    ASSERT_FALSE(restored);
    EXPECT_EQ(restored.error().kind, ErrorKind::invalid);
    EXPECT_THAT(restored.error().message, HasSubstr("all ranks share"));
  });
}

TEST(Run, WorksWithoutConditionalCreateAndStillNoticesAnotherWriter) {
  fakes::MemoryObjects objects;
  TestRun first{std::make_unique<fakes::MemoryStore>(objects, false)};
  ASSERT_TRUE(first.restore());
  ASSERT_TRUE(first.save(10));
  TestRun second{std::make_unique<fakes::MemoryStore>(objects, false)};
  ASSERT_EQ(second.as_attempt(2).restore().value()->step, 10);
  ASSERT_TRUE(second.save(20));
  EXPECT_EQ(first.save(20).error().kind, ErrorKind::conflict);
}

}  // namespace
}  // namespace trainyard::checkpoint
