#include "checkpoint/run/inventory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/format/sealed_json.hpp"
#include "checkpoint/run/newest_saved.hpp"
#include "tests/checkpoint/run/test_run.hpp"
#include "tests/fakes/faulty_store.hpp"

namespace trainyard::checkpoint {
namespace {

using testing::HasSubstr;

TEST(ParseListedClaim, TakesATornClaimForNoneOnlyWhereTheStoreMayTear) {
  const Claim claim{.generation = 2, .identity = {.job = "team/a"}, .resumed_from = {}, .time = {}, .nonce = "n"};
  const std::string whole = to_text(claim);
  std::string changed = whole;
  changed[changed.find("team/a")] = 'T';
  struct Row {
    std::string_view name;
    std::string text;
    bool may_tear;
    std::string refusal;  // Empty: none.
    bool is_claim;
  };
  const Row rows[] = {
      {"a whole one", whole, false, "", true},
      {"a whole one where objects may tear", whole, true, "", true},
      {"a torn one where objects may tear", whole.substr(0, 20), true, "", false},
      {"an empty one where objects may tear", "", true, "", false},
      {"a torn one where objects are whole", whole.substr(0, 20), false, "it is not a JSON object", false},
      {"an empty one where objects are whole", "", false, "it is not a JSON object", false},
      {"one that was changed", changed, true, "its checksum does not match", false},
      {"another object", "{}", true, "it has no checksum", false},
      {"a sealed object that is no claim", seal({{"a", 1}}), true, "a generation's claim", false},
      {"one of another generation", to_text(Claim{.generation = 1}), true, "its generation is 1", false},
  };
  for (const Row& row : rows) {
    const auto parsed = parse_listed_claim(row.text, 2, row.may_tear);
    EXPECT_EQ(parsed.has_value(), row.refusal.empty()) << row.name;
    if (!parsed) {
      EXPECT_EQ(parsed.error().kind, ErrorKind::corrupt) << row.name;
      EXPECT_THAT(parsed.error().message, HasSubstr(row.refusal)) << row.name;
    } else {
      EXPECT_EQ(*parsed, row.is_claim ? std::optional{claim} : std::nullopt) << row.name;
    }
  }
}

class AnUnreadableClaim : public testing::Test {
 protected:
  // Attempt 1 saved at 10 and 20; attempt 2 resumed from 10 and ended.
  void SetUp() override {
    TestRun first{objects};
    ASSERT_TRUE(first.restore());
    for (const std::int64_t step : {10, 20}) ASSERT_TRUE(first.save(step));
    const auto manifest = objects.objects.extract("step-20/g-1/manifest.json");
    TestRun second{objects};
    ASSERT_EQ(second.as_attempt(2).restore().value()->step, 10);
    ASSERT_TRUE(second.save(15));
    ASSERT_TRUE(second.end());
    objects.objects["step-20/g-1/manifest.json"] = manifest.mapped();
    objects.objects.at("generations/2.json")[40] ^= std::byte{1};
  }

  fakes::MemoryObjects objects;
};

TEST_F(AnUnreadableClaim, StopsTheNextRunAndSaysTheWayOut) {
  TestRun third{objects};
  const auto restored = third.as_attempt(3).restore();
  ASSERT_FALSE(restored);
  EXPECT_EQ(restored.error().kind, ErrorKind::invalid);
  EXPECT_THAT(restored.error().message, HasSubstr("memory://generations/2.json cannot be read"));
  EXPECT_THAT(restored.error().message, HasSubstr("put back what was there, or remove it"));
  EXPECT_FALSE(objects.objects.contains("generations/3.json"));
}

TEST_F(AnUnreadableClaim, StopsARunThatWouldBeginFromThere) {
  fakes::MemoryStore origin{objects, true, "origin://"};
  fakes::MemoryObjects own;
  TestRun run{own};
  run.origin.emplace(Origin{.store = origin, .id = {}});
  const auto restored = run.as_job("b").restore();
  ASSERT_FALSE(restored);
  EXPECT_THAT(restored.error().message, HasSubstr("origin://generations/2.json cannot be read"));
  run.origin.emplace(Origin{.store = origin, .id = CheckpointId{15, 2}});
  EXPECT_EQ(run.restore().value()->step, 15) << "one that is named needs no claim";
}

TEST_F(AnUnreadableClaim, ThatWasRemovedStopsNobody) {
  objects.objects.erase("generations/2.json");
  TestRun third{objects};
  EXPECT_EQ(third.as_attempt(3).restore().value()->step, 20)
      << "as the message says, any checkpoint may be resumed again";
}

// A store that does not list some of what is there.
class AStoreThatListsLess : public testing::Test {
 protected:
  void SetUp() override {
    TestRun run{objects};
    ASSERT_TRUE(run.restore());
    for (const std::int64_t step : {10, 20}) ASSERT_TRUE(run.save(step));
    data = data_key_in(objects, {20, 1}, 0);
    all_of_step_20 = {data, "step-20/g-1/manifest.json"};
  }
  // Restores as attempt 2 what is there once `hidden` are not listed.
  Result<std::optional<Restored>> restore_without(const std::vector<std::string>& hidden) {
    for (const std::string& key : hidden) objects.unlisted.insert(key);
    TestRun run{objects};
    return run.as_attempt(2).restore();
  }

  Claim newest_claim() {
    fakes::MemoryStore store{objects};
    return list_claims(store).value().back();
  }

  fakes::MemoryObjects objects;
  std::string data;
  std::vector<std::string> all_of_step_20;
};

TEST_F(AStoreThatListsLess, IsAskedForAManifestByName) {
  const auto restored = restore_without({"step-20/g-1/manifest.json"});
  EXPECT_EQ(restored.value()->step, 20);
  EXPECT_THAT((*restored)->skipped, testing::IsEmpty());
}

TEST_F(AStoreThatListsLess, HasACheckpointOfWhichItListsNothingAmongAllAndAmongTheComplete) {
  for (const std::string& key : all_of_step_20) objects.unlisted.insert(key);
  fakes::MemoryStore store{objects};
  auto inventory = take_inventory(store);
  ASSERT_TRUE(inventory) << inventory.error().message;
  ASSERT_TRUE(add_unlisted_manifests(store, *inventory));
  const std::vector<CheckpointId> both{{10, 1}, {20, 1}};
  EXPECT_EQ(inventory->complete, both);
  EXPECT_EQ(inventory->present, both) << "retention goes by these";
}

TEST_F(AStoreThatListsLess, IsAskedForAClaimThatAnotherRunMadeDuringTheLoad) {
  Claim other = newest_claim();
  other.generation = 2;
  other.nonce = "other";
  other.resumed_from = CheckpointId{.step = 10, .generation = 1};
  objects.unlisted.insert(claim_key(2));
  std::atomic<bool> has_met = false;
  TestRun run{std::make_unique<fakes::FaultyStore>(
      std::make_unique<fakes::MemoryStore>(objects),
      [&](std::string_view call, std::string_view key, auto) -> std::optional<Error> {
        if (!is_data(call, key) || has_met.exchange(true)) return std::nullopt;
        fakes::MemoryStore store{objects};
        EXPECT_TRUE(storage::put_text(store, claim_key(2), to_text(other)));
        return std::nullopt;
      })};
  const auto restored = run.as_attempt(2).restore();
  ASSERT_TRUE(restored) << restored.error().message;
  EXPECT_EQ((*restored)->uri, "memory://step-10/g-1") << "step 20 was superseded while it was loaded";
  EXPECT_EQ(newest_claim().resumed_from, other.resumed_from);
}

TEST_F(AStoreThatListsLess, IsAskedForADataFileByName) {
  const auto restored = restore_without({data});
  EXPECT_EQ(restored.value()->step, 20);
  EXPECT_THAT((*restored)->skipped, testing::IsEmpty());
}

TEST_F(AStoreThatListsLess, IsAskedForWhatTheNewestClaimNames) {
  TestRun second{objects};
  ASSERT_EQ(second.as_attempt(2).restore().value()->step, 20);
  for (const std::string& key : {data, std::string{"step-20/g-1/manifest.json"}}) objects.unlisted.insert(key);
  TestRun third{objects};
  EXPECT_EQ(third.as_attempt(3).restore().value()->step, 20);
}

TEST_F(AStoreThatListsLess, IsAskedForWhatTheNewestRunSavedLast) {
  EXPECT_EQ(restore_without(all_of_step_20).value()->step, 20);
}

TEST_F(AStoreThatListsLess, IsAskedForWhatARunSavedBeforeOnesThatDiedWithoutASave) {
  Claim claim{.generation = 2,
              .identity = {.job = "team/a", .job_uid = "uid-a", .attempt = 1, .fingerprint = "fashion"},
              .resumed_from = CheckpointId{.step = 25, .generation = 1},  // A copy on a node, which is gone.
              .time = {},
              .nonce = "second"};
  objects.unlisted.insert(all_of_step_20.begin(), all_of_step_20.end());
  fakes::MemoryStore store{objects};
  ASSERT_TRUE(storage::put_text(store, claim_key(2), to_text(claim)));
  claim.generation = 3;
  claim.is_open = true;
  ASSERT_TRUE(storage::put_text(store, claim_key(3), to_text(claim)));
  EXPECT_EQ(restore_without({}).value()->step, 20);
}

TEST_F(AStoreThatListsLess, IsBelievedOnceNoRunHasARecord) {
  objects.objects.erase("generations/1.saved");
  const auto before = objects.objects;
  EXPECT_EQ(restore_without({}).value()->step, 20) << "an older program saved it";
  objects.objects = before;
  EXPECT_EQ(restore_without(all_of_step_20).value()->step, 10);
}

// Whoever can write there need not be trusted.
TEST_F(AStoreThatListsLess, IsBelievedWhereARecordIsWrong) {
  const std::string nonce = newest_claim().nonce;
  const auto record = [](const nlohmann::json& object) {
    std::string text = seal(object);
    text.resize(newest_saved_bytes, ' ');
    return text;
  };
  for (const std::string& wrong :
       {std::string{}, std::string{"{"}, std::string(1'000, '['), record({{"nonce", nonce}}),
        record({{"nonce", nonce}, {"step", "20"}}), record({{"nonce", nonce}, {"step", -1}}),
        record({{"nonce", nonce}, {"step", 1e300}}), record({{"nonce", nonce}, {"step", 999}}),
        record({{"nonce", "another run's"}, {"step", 20}}), record({{"step", 20}}), "[]" + std::string(254, ' ')}) {
    objects.unlisted.clear();
    fakes::MemoryStore store{objects};
    ASSERT_TRUE(storage::put_text(store, "generations/1.saved", wrong));
    const auto before = objects.objects;
    EXPECT_EQ(restore_without({}).value()->step, 20) << wrong;
    objects.objects = before;
    const auto restored = restore_without(all_of_step_20);
    ASSERT_TRUE(restored) << wrong << restored.error().message;
    EXPECT_EQ((*restored)->step, 10) << wrong;
    EXPECT_THAT((*restored)->skipped, testing::IsEmpty()) << wrong;
    objects.objects = before;
  }
}

TEST_F(AStoreThatListsLess, IsAskedForNoMoreOfARecordThanItHas) {
  objects.objects.at("generations/1.saved").resize(std::size_t{1} << 20);
  TestRun run{std::make_unique<fakes::FaultyStore>(
      std::make_unique<fakes::MemoryStore>(objects),
      [](std::string_view call, std::string_view key, auto) -> std::optional<Error> {
        EXPECT_FALSE(call == "get" && key == "generations/1.saved") << "the whole object";
        return std::nullopt;
      })};
  EXPECT_EQ(run.as_attempt(2).restore().value()->step, 20);
}

TEST_F(AStoreThatListsLess, HasADamagedCheckpointIfAFileDoesNotExistEither) {
  objects.objects.erase(data);
  const auto restored = restore_without({});
  ASSERT_EQ(restored.value()->step, 10);
  EXPECT_THAT((*restored)->skipped, testing::ElementsAre(HasSubstr("the file of rank 0 is missing")));
}

TEST_F(AStoreThatListsLess, HasADamagedCheckpointWhereAFileIsTooShort) {
  objects.objects.at(data).pop_back();
  EXPECT_EQ(restore_without({data}).value()->step, 10);
}

TEST_F(AStoreThatListsLess, HasNoCheckpointIfTheManifestDoesNotExistEither) {
  objects.objects.erase("step-20/g-1/manifest.json");
  const auto restored = restore_without({});
  EXPECT_EQ(restored.value()->step, 10);
  EXPECT_THAT((*restored)->skipped, testing::IsEmpty()) << "it was never finished";
}

TEST_F(AStoreThatListsLess, IsNotTakenForEmptyWhenItFails) {
  for (const std::string_view broken : {"step-20/g-1/manifest.json", "step-20/g-1/rank-0", "generations/1.saved"}) {
    objects.unlisted = {data, "step-20/g-1/manifest.json"};
    if (broken.ends_with("manifest.json")) objects.unlisted.erase(data);
    TestRun run{std::make_unique<fakes::FaultyStore>(
        std::make_unique<fakes::MemoryStore>(objects),
        [&](std::string_view call, std::string_view key, auto) -> std::optional<Error> {
          if (!call.starts_with("get") || !key.starts_with(broken)) return std::nullopt;
          return Error{ErrorKind::unavailable, "away", std::nullopt};
        })};
    if (!broken.ends_with("manifest.json")) objects.unlisted.erase("step-20/g-1/manifest.json");
    const auto restored = run.as_attempt(2).restore();
    ASSERT_FALSE(restored) << broken;
    EXPECT_EQ(restored.error().kind, ErrorKind::unavailable);
  }
}

}  // namespace
}  // namespace trainyard::checkpoint
