// Processes die, the storage fails or objects are damaged, at any point of a run: which checkpoints can still be
// resumed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "checkpoint/format/sealed_json.hpp"
#include "checkpoint/run/run.hpp"
#include "tests/checkpoint/run/test_run.hpp"
#include "tests/fakes/faulty_store.hpp"

namespace trainyard::checkpoint {
namespace {

using testing::HasSubstr;

TEST(ARunThatIsNotKilled, LeavesItsEnd) {
  fakes::MemoryObjects objects;
  on_every_rank(2, objects, [](TestRun& run) {
    ASSERT_TRUE(run.restore());
    ASSERT_TRUE(run.save(10));
    ASSERT_TRUE(run.end());
  });
  EXPECT_TRUE(objects.objects.contains("generations/1.end"));
}

class ADamagedCheckpoint : public testing::Test {
 protected:
  void SetUp() override {
    on_every_rank(2, objects, [](TestRun& run) {
      ASSERT_TRUE(run.restore());
      ASSERT_TRUE(run.save(10));
      ASSERT_TRUE(run.save(20));
    });
  }

  // Restores, and expects step 10 with `reason` as the reason why step 20 was skipped.
  void expect_skipped(const std::string& reason) {
    on_every_rank(2, objects, [&](TestRun& run) {
      const auto restored = run.as_attempt(2).restore();
      ASSERT_TRUE(restored) << restored.error().message;
      ASSERT_TRUE(*restored);
      EXPECT_EQ((*restored)->step, 10);
      EXPECT_TRUE(run.holds_state_after(10));
      ASSERT_EQ((*restored)->skipped.size(), 1U);
      EXPECT_THAT((*restored)->skipped.front(), HasSubstr("step-20/g-1"));
      EXPECT_THAT((*restored)->skipped.front(), HasSubstr(reason));
    });
  }

  std::vector<std::byte>& data_of(std::int64_t rank) { return objects.objects.at(data_key_in(objects, {20, 1}, rank)); }
  std::vector<std::byte>& object(const std::string& name) { return objects.objects.at("step-20/g-1/" + name); }

  fakes::MemoryObjects objects;
};

TEST_F(ADamagedCheckpoint, IsSkippedWhenAFileIsMissing) {
  objects.objects.erase(data_key_in(objects, {20, 1}, 1));
  expect_skipped("the file of rank 1 is missing");
}

TEST_F(ADamagedCheckpoint, IsSkippedWhenAFileIsTooShort) {
  data_of(0).pop_back();
  expect_skipped("bytes instead of");
}

TEST_F(ADamagedCheckpoint, IsSkippedWhenAByteOfAFileChanged) {
  data_of(1)[100'000] ^= std::byte{1};
  expect_skipped("checksum of model.large does not match");
}

TEST_F(ADamagedCheckpoint, IsSkippedByAllRanksWhenOneRanksOwnStateChanged) {
  // The entries of one byte an element come last, and rank 1's own is the last of them.
  data_of(1).back() ^= std::byte{0x80};
  expect_skipped("checksum of rng.cpu does not match");
}

TEST_F(ADamagedCheckpoint, IsSkippedWhenItsManifestIsTorn) {
  object("manifest.json").resize(object("manifest.json").size() / 2);
  expect_skipped("it is not a JSON object");
}

TEST_F(ADamagedCheckpoint, IsSkippedWhenItsManifestChanged) {
  std::vector<std::byte>& manifest = object("manifest.json");
  std::string text{reinterpret_cast<const char*>(manifest.data()), manifest.size()};
  const std::size_t at = text.find("\"epoch\":2");
  ASSERT_NE(at, std::string::npos);
  manifest[at + 8] = std::byte{'3'};
  expect_skipped("its checksum does not match");
}

TEST_F(ADamagedCheckpoint, IsSkippedUnreadWhenItsManifestIsLongerThanAnyProgramWrites) {
  object("manifest.json").resize(sealed_bytes_max + 1);
  TestRun run{std::make_unique<fakes::FaultyStore>(
      std::make_unique<fakes::MemoryStore>(objects),
      [](std::string_view call, std::string_view key, auto) -> std::optional<Error> {
        EXPECT_FALSE(call == "get" && key == "step-20/g-1/manifest.json");
        return std::nullopt;
      })};
  const auto restored = run.as_attempt(2).restore();
  ASSERT_TRUE(restored && *restored) << restored.error().message;
  EXPECT_EQ((*restored)->step, 10);
  EXPECT_THAT((*restored)->skipped, testing::ElementsAre(HasSubstr("more than the limit of 67108864")));
}

TEST_F(ADamagedCheckpoint, IsSkippedWhenItIsACopyOfAnother) {
  object("manifest.json") = objects.objects.at("step-10/g-1/manifest.json");
  expect_skipped("of another checkpoint");
}

TEST_F(ADamagedCheckpoint, DoesNotComeBackOnceALaterRunResumedFromTheOneBefore) {
  const auto whole = data_of(0);
  data_of(0).pop_back();
  expect_skipped("bytes instead of");
  data_of(0) = whole;
  TestRun third{objects};
  EXPECT_EQ(third.as_attempt(3).restore().value()->step, 10);
}

TEST_F(ADamagedCheckpoint, EndsTheRunWhenThereIsNoOtherRatherThanLosingAllProgress) {
  data_of(0).pop_back();
  objects.objects.erase("step-10/g-1/manifest.json");
  on_every_rank(2, objects, [](TestRun& run) {
    const auto restored = run.as_attempt(2).restore();
    ASSERT_FALSE(restored);
    EXPECT_EQ(restored.error().kind, ErrorKind::corrupt);
    EXPECT_THAT(restored.error().message, HasSubstr("none of the 1 checkpoints in memory:// is whole"));
    EXPECT_THAT(restored.error().message, HasSubstr("resume: none"));
    EXPECT_THAT(restored.error().message, HasSubstr("step-20/g-1"));
  });
  EXPECT_FALSE(objects.objects.contains("generations/2.json"));
}

TEST_F(ADamagedCheckpoint, EndsTheRunAlsoWhereAnOlderOneNeverFinished) {
  data_of(0).pop_back();
  auto& older = objects.objects.at("step-10/g-1/manifest.json");
  older.resize(older.size() / 2);
  TestRun run{objects};
  const auto restored = run.as_attempt(2).restore();
  ASSERT_FALSE(restored) << "step 20 was complete once";
  EXPECT_EQ(restored.error().kind, ErrorKind::corrupt);
  EXPECT_THAT(restored.error().message, HasSubstr("none of the 2 checkpoints in memory:// is whole"));
}

TEST_F(ADamagedCheckpoint, EndsTheRunAlsoWhereItsManifestCannotBeFetched) {
  objects.objects.erase("step-10/g-1/manifest.json");
  const auto error_with = [&](fakes::FaultyStore::Fault fault) {
    TestRun run{std::make_unique<fakes::FaultyStore>(std::make_unique<fakes::MemoryStore>(objects), std::move(fault))};
    const auto restored = run.as_attempt(2).restore();
    return restored ? Error{ErrorKind::internal, "it began afresh"} : restored.error();
  };
  const Error gone = error_with([](std::string_view call, std::string_view key, auto) -> std::optional<Error> {
    if (call != "get" || key != "step-20/g-1/manifest.json") return std::nullopt;
    return Error{ErrorKind::not_found, "no such object"};
  });
  EXPECT_EQ(gone.kind, ErrorKind::corrupt) << gone.message;
  EXPECT_THAT(gone.message, HasSubstr("no such object"));
  object("manifest.json").resize(sealed_bytes_max + 1);
  const Error long_one = error_with([](auto...) -> std::optional<Error> { return std::nullopt; });
  EXPECT_EQ(long_one.kind, ErrorKind::corrupt) << long_one.message;
  EXPECT_THAT(long_one.message, HasSubstr("more than the limit"));
}

TEST_F(ADamagedCheckpoint, LetsTheRunBeginAfreshWhenItWasTheOnlyOneAndNeverFinished) {
  object("manifest.json").resize(object("manifest.json").size() / 2);
  objects.objects.erase("step-10/g-1/manifest.json");
  TestRun run{objects};
  const auto restored = run.as_attempt(2).restore();
  ASSERT_TRUE(restored) << restored.error().message;
  EXPECT_FALSE(*restored);
}

TEST_F(ADamagedCheckpoint, IsNotConfusedWithAStoreThatFails) {
  for (const ErrorKind kind : {ErrorKind::unavailable, ErrorKind::io, ErrorKind::timeout, ErrorKind::forbidden}) {
    for (const char* broken : {"list", "get", "get_range"}) {
      for (const std::int64_t failing_rank : {0, 1}) {
        if (failing_rank == 1 && std::string_view{broken} != "get_range") continue;  // Only rank 0 chooses.
        on_every_rank(2, objects, [&](TestRun& healthy) {
          TestRun run{std::make_unique<fakes::FaultyStore>(
              std::make_unique<fakes::MemoryStore>(objects),
              [&](std::string_view call, std::string_view, auto) -> std::optional<Error> {
                if (call != broken || healthy.communicator->rank() != failing_rank) return {};
                return Error{kind, "away", std::nullopt};
              })};
          run.communicator = healthy.communicator;
          const auto restored = run.as_attempt(2).restore();
          ASSERT_FALSE(restored) << broken;
          // Only one rank is refused the part that each rank reads.
          const bool is_refused_alone = kind == ErrorKind::forbidden && std::string_view{broken} == "get_range";
          EXPECT_EQ(restored.error().kind, is_refused_alone ? ErrorKind::unavailable : kind) << broken;
        });
      }
    }
  }
  EXPECT_FALSE(objects.objects.contains("generations/2.json"));
}

TEST(ARestore, SearchesAgainWhenAnOlderRunRemovesWhatItChose) {
  fakes::MemoryObjects objects;
  TestRun older{objects};
  ASSERT_TRUE(older.restore());
  for (const std::int64_t step : {10, 20}) ASSERT_TRUE(older.save(step));
  std::atomic<bool> has_met = false;
  TestRun newer{std::make_unique<fakes::FaultyStore>(
      std::make_unique<fakes::MemoryStore>(objects),
      [&](std::string_view call, std::string_view key, auto) -> std::optional<Error> {
        if (is_data(call, key) && !has_met.exchange(true)) {
          for (const std::int64_t step : {30, 40}) EXPECT_TRUE(older.save(step));
        }
        return {};
      })};
  const auto restored = newer.as_attempt(2).restore();
  ASSERT_TRUE(restored) << restored.error().message;
  EXPECT_EQ((*restored)->step, 40);
}

TEST(ARestore, KeepsWhatItHasLoadedWhereALaterLookFindsNothingWhole) {
  fakes::MemoryObjects objects;
  TestRun older{objects};
  ASSERT_TRUE(older.restore());
  ASSERT_TRUE(older.save(10));
  std::atomic<bool> has_met = false;
  TestRun newer{std::make_unique<fakes::FaultyStore>(
      std::make_unique<fakes::MemoryStore>(objects),
      [&](std::string_view call, std::string_view key, auto) -> std::optional<Error> {
        if (call != "put" || key != "generations/2.json" || has_met.exchange(true)) return {};
        auto torn = objects.objects.extract("step-10/g-1/manifest.json");
        torn.mapped().resize(torn.mapped().size() / 2);
        objects.objects["step-20/g-1/manifest.json"] = torn.mapped();
        return {};
      })};
  const auto restored = newer.as_attempt(2).restore();
  ASSERT_TRUE(restored && *restored);
  EXPECT_EQ((*restored)->step, 10);
  EXPECT_TRUE(newer.holds_state_after(10));
}

TEST(ARunThatCannotWrite, NamesTheRankThatFailedOnEveryRank) {
  fakes::MemoryObjects objects;
  fakes::ThreadGroup group{3};
  group.run([&](Communicator& communicator) {
    TestRun run{std::make_unique<fakes::FaultyStore>(
        std::make_unique<fakes::MemoryStore>(objects),
        [&](std::string_view call, std::string_view, auto) -> std::optional<Error> {
          if (call != "put" || communicator.rank() != 2) return {};
          return Error{ErrorKind::io, "the disk is full", std::nullopt};
        })};
    run.communicator = &communicator;
    ASSERT_TRUE(run.restore());
    const auto saved = run.save(10);
    ASSERT_FALSE(saved);
    EXPECT_EQ(saved.error(), (Error{ErrorKind::io, "rank 2: the disk is full", std::nullopt}));
  });
  EXPECT_FALSE(objects.objects.contains("step-10/g-1/manifest.json"));
}

TEST(ARunThatCannotWrite, CanSaveTheSameStepAgain) {
  fakes::MemoryObjects objects;
  int puts = 0;
  // The manifest's put is done, and its reply is lost.
  TestRun run{std::make_unique<fakes::FaultyStore>(
      std::make_unique<fakes::MemoryStore>(objects),
      [&](std::string_view call, std::string_view key, storage::Pieces pieces) -> std::optional<Error> {
        if (call != "put" || !key.ends_with("manifest.json") || ++puts > 1) return {};
        fakes::MemoryStore store{objects};
        EXPECT_TRUE(store.put(key, pieces, {}));
        return Error{ErrorKind::timeout, "no reply", std::nullopt};
      })};
  ASSERT_TRUE(run.restore());
  EXPECT_EQ(run.save(10).error().kind, ErrorKind::timeout);
  const auto again = run.save(10);
  EXPECT_TRUE(again) << again.error().message;
}

// A save that has put its manifest, and then cannot look whether the run was fenced.
class AnUnconfirmedSave : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(run.restore());
    EXPECT_EQ(run.save(10).error().kind, ErrorKind::unavailable);
    ASSERT_TRUE(objects.objects.contains("step-10/g-1/manifest.json"));
  }

  fakes::MemoryObjects objects;
  bool is_away = true;  // Once a manifest was put.
  std::optional<int> puts_left;
  TestRun run{std::make_unique<fakes::FaultyStore>(
      std::make_unique<fakes::MemoryStore>(objects),
      [this](std::string_view call, std::string_view key, auto) -> std::optional<Error> {
        if (call == "put" && key.ends_with(".safetensors")) {
          EXPECT_FALSE(objects.objects.contains(key)) << "rewritten, with the same bytes or others: " << key;
        }
        if (call == "put" && puts_left && (*puts_left)-- <= 0) return Error{ErrorKind::unavailable, "dead", {}};
        const bool is_saved = objects.objects.contains("step-10/g-1/manifest.json");
        if (!is_away || !is_saved || call == "put" || !key.starts_with("generations")) return std::nullopt;
        return Error{ErrorKind::unavailable, "away", {}};
      })};
};

TEST_F(AnUnconfirmedSave, IsRepeatedUnderOtherKeysAndStaysWholeWhereverThatDies) {
  is_away = false;
  // The data, the manifest that exists already, its replacement, the record.
  constexpr int puts_of_a_repeated_save = 4;
  const auto before = objects.objects;
  for (int puts = 0; puts <= puts_of_a_repeated_save; ++puts) {
    objects.objects = before;
    puts_left = puts;
    const auto saved = run.save(10);
    EXPECT_EQ(saved.has_value(), puts == puts_of_a_repeated_save);
    for (const auto& [key, content] : before) {
      if (key.ends_with(".safetensors")) {
        EXPECT_EQ(objects.objects.at(key), content) << "rewritten or removed: " << key;
      }
    }
    fakes::MemoryObjects copy;
    copy.objects = objects.objects;
    TestRun next{copy};
    EXPECT_EQ(next.as_attempt(2).restore().value()->step, 10) << puts;
    EXPECT_TRUE(next.holds_state_after(10));
  }
}

TEST(AZombieOfADeletedJob, DamagesNothingOfTheNextJobUnderThatPrefix) {
  fakes::MemoryObjects objects;
  std::string late_key;
  std::vector<std::byte> late_content;
  TestRun deleted{std::make_unique<fakes::FaultyStore>(
      std::make_unique<fakes::MemoryStore>(objects),
      [&](std::string_view call, std::string_view key, storage::Pieces pieces) -> std::optional<Error> {
        if (call != "put" || !key.ends_with(".safetensors")) return std::nullopt;
        late_key = key;
        for (const auto& piece : pieces) late_content.insert(late_content.end(), piece.begin(), piece.end());
        late_content.back() ^= std::byte{1};
        return Error{ErrorKind::timeout, "the node is cut off", std::nullopt};
      })};
  ASSERT_TRUE(deleted.restore());
  ASSERT_FALSE(deleted.save(10));
  objects.objects.clear();  // The clean-up.

  TestRun next{objects};
  next.identity.job_uid = "uid-of-the-next-life";
  ASSERT_TRUE(next.restore());
  ASSERT_TRUE(next.save(10));
  // The late file has generation 1, step 10 and rank 0, as the next life's has.
  objects.objects[late_key] = late_content;
  TestRun after{objects};
  after.identity.job_uid = "uid-of-the-next-life";
  const auto restored = after.as_attempt(2).restore();
  ASSERT_TRUE(restored && *restored) << restored.error().message;
  EXPECT_TRUE(after.holds_state_after(10));
}

TEST(ARunThatCannotTidyUp, HasSavedNevertheless) {
  fakes::MemoryObjects objects;
  TestRun run{
      std::make_unique<fakes::FaultyStore>(std::make_unique<fakes::MemoryStore>(objects),
                                           [](std::string_view call, std::string_view, auto) -> std::optional<Error> {
                                             if (call != "remove") return {};
                                             return Error{ErrorKind::forbidden, "no", std::nullopt};
                                           })};
  ASSERT_TRUE(run.restore());
  for (const std::int64_t step : {10, 20, 30, 40}) EXPECT_TRUE(run.save(step));
}

TEST(RunsThatStartTogether, GetAGenerationEachAndTheLastOneWrites) {
  fakes::MemoryObjects objects;
  // The first run's claim meets one that came just before: it chooses again and takes the next number.
  bool has_met = false;
  TestRun run{std::make_unique<fakes::FaultyStore>(
      std::make_unique<fakes::MemoryStore>(objects),
      [&](std::string_view call, std::string_view key, auto) -> std::optional<Error> {
        if (call == "put" && key == "generations/1.json" && !std::exchange(has_met, true)) {
          TestRun other{objects};
          EXPECT_TRUE(other.restore());
          EXPECT_TRUE(other.save(10));
        }
        return {};
      })};
  const auto restored = run.as_attempt(2).restore();
  ASSERT_TRUE(restored) << restored.error().message;
  ASSERT_TRUE(*restored);
  EXPECT_EQ((*restored)->step, 10);
  const auto saved = run.save(20);
  ASSERT_TRUE(saved) << saved.error().message;
  EXPECT_EQ(saved->uri, "memory://step-20/g-2");
}

}  // namespace
}  // namespace trainyard::checkpoint
