#include "checkpoint/run/fence.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "checkpoint/format/manifest.hpp"
#include "checkpoint/format/sealed_json.hpp"
#include "tests/checkpoint/run/test_run.hpp"
#include "tests/fakes/faulty_store.hpp"

namespace trainyard::checkpoint {
namespace {

using testing::HasSubstr;

Claim claim_with(const std::string& nonce, std::int64_t attempt = 1) {
  return {.generation = 1,
          .identity = {.job = "team/a", .job_uid = "uid-a", .attempt = attempt, .fingerprint = "fashion"},
          .resumed_from = std::nullopt,
          .time = {},
          .nonce = nonce};
}

Manifest manifest_of(const Claim& claim, const std::string& values) {
  return {.id = {.step = 10, .generation = claim.generation},
          .identity = claim.identity,
          .time = {},
          .nonce = claim.nonce + "-1",
          .data_nonce = {},
          .values = {{"of", values}},
          .entries = {},
          .receipts = {}};
}

class AFence : public testing::TestWithParam<bool> {
 protected:
  fakes::MemoryObjects objects;
  fakes::MemoryStore store{objects, /*is_conditional=*/GetParam()};
};

TEST_P(AFence, LeavesTheClaimThatIsThere) {
  ASSERT_TRUE(put_claim(store, claim_with("first")));
  const auto second = put_claim(store, claim_with("second"));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, ErrorKind::already_exists);
  EXPECT_TRUE(check_newest(store, claim_with("first")));
  EXPECT_TRUE(put_claim(store, claim_with("first"))) << "the reply to an earlier try was lost";
}

TEST_P(AFence, DistinguishesRunsOfOneGenerationByTheirNonces) {
  ASSERT_TRUE(storage::put_text(store, claim_key(1), to_text(claim_with("theirs", 2))));
  const auto checked = check_newest(store, claim_with("ours"));
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().kind, ErrorKind::conflict);
  EXPECT_THAT(checked.error().message, HasSubstr("attempt 2 of team/a"));
}

TEST_P(AFence, EndsARunWhoseClaimIsGone) {
  ASSERT_TRUE(put_claim(store, claim_with("ours")));
  objects.objects.clear();
  const auto checked = check_newest(store, claim_with("ours"));
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().kind, ErrorKind::conflict) << "as for any other run that may write no more";
  EXPECT_THAT(checked.error().message, HasSubstr("this run's claim on memory:// is gone or unreadable"));
}

TEST_P(AFence, LeavesAnOpenClaimOpenThatIsNotTheNewestAnyMore) {
  Claim ours = claim_with("ours");
  ours.is_open = true;
  ASSERT_TRUE(put_claim(store, ours));
  Claim next = claim_with("next", 2);
  next.generation = 2;
  ASSERT_TRUE(put_claim(store, next));
  Claim closed = ours;
  closed.is_open = false;
  const auto late = close_claim(store, closed);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().kind, ErrorKind::conflict);
  EXPECT_TRUE(storage::get_text(store, claim_key(1)).and_then(parse_claim)->is_open)
      << "it would supersede what the next run has gone on from";
}

TEST_P(AFence, LeavesTheManifestThatAnotherRunOfThisGenerationPut) {
  const Claim theirs = claim_with("theirs");
  ASSERT_TRUE(put_manifest(store, manifest_of(theirs, "theirs"), theirs));
  const Claim ours = claim_with("ours");
  const auto put = put_manifest(store, manifest_of(ours, "ours"), ours);
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().kind, ErrorKind::conflict);
  EXPECT_THAT(put.error().message, HasSubstr("memory://step-10/g-1/manifest.json was written by another run"));
  const auto there = storage::get_text(store, manifest_key({10, 1})).and_then(parse_manifest);
  EXPECT_EQ(there->values, (nlohmann::json{{"of", "theirs"}}));
}

TEST_P(AFence, ReplacesTheManifestThatTheSameRunPut) {
  const Claim ours = claim_with("ours");
  ASSERT_TRUE(put_manifest(store, manifest_of(ours, "first"), ours));
  Manifest second = manifest_of(ours, "second");
  second.nonce = "ours-2";
  ASSERT_TRUE(put_manifest(store, second, ours));
  EXPECT_EQ(storage::get_text(store, manifest_key({10, 1})).and_then(parse_manifest), second);
}

INSTANTIATE_TEST_SUITE_P(OnStores, AFence, testing::Bool(),
                         [](const auto& info) { return info.param ? "WithConditionalCreate" : "WithoutIt"; });

TEST(PutManifest, PutsNoneThatIsTooLongForReaders) {
  fakes::MemoryObjects objects;
  fakes::MemoryStore store{objects};
  const Claim ours = claim_with("ours");
  const auto put = put_manifest(store, manifest_of(ours, std::string(sealed_bytes_max, 'x')), ours);
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().kind, ErrorKind::invalid);
  EXPECT_THAT(put.error().message, HasSubstr("readers accept 67108864 at most"));
  EXPECT_FALSE(objects.objects.contains(manifest_key({10, 1})));
}

// A store without conditional create, where `meanwhile` happens once between the get of `key` and its put.
std::unique_ptr<storage::Store> meeting_store(fakes::MemoryObjects& objects, std::string key,
                                              std::function<void()> meanwhile) {
  return std::make_unique<fakes::FaultyStore>(
      std::make_unique<fakes::MemoryStore>(objects, /*is_conditional=*/false),
      [key = std::move(key), meanwhile = std::move(meanwhile), has_met = false](
          std::string_view call, std::string_view at, auto) mutable -> std::optional<Error> {
        if (call == "put" && at == key && !std::exchange(has_met, true)) meanwhile();
        return std::nullopt;
      });
}

TEST(WithoutConditionalCreate, TheRunWhoseClaimWasOverwrittenWithinOneRoundTripIsRefused) {
  fakes::MemoryObjects objects;
  TestRun first{std::make_unique<fakes::MemoryStore>(objects, false)};
  TestRun second{meeting_store(objects, claim_key(1), [&] { ASSERT_TRUE(first.restore()); })};
  ASSERT_TRUE(second.as_attempt(2).restore());

  const auto late = first.save(10);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().kind, ErrorKind::conflict);
  EXPECT_THAT(late.error().message, HasSubstr("attempt 2 of team/a has taken over"));
  EXPECT_FALSE(objects.objects.contains("step-10/g-1/manifest.json"));
  ASSERT_TRUE(second.save(10));
  TestRun third{std::make_unique<fakes::MemoryStore>(objects, false)};
  ASSERT_TRUE(third.as_attempt(3).restore());
  EXPECT_TRUE(third.holds_state_after(10));
}

TEST(WithoutConditionalCreate, TheRunWhoseClaimWasOverwrittenAtOnceLearnsByWhom) {
  fakes::MemoryObjects objects;
  bool is_claimed = false;
  bool has_met = false;
  TestRun run{std::make_unique<fakes::FaultyStore>(
      std::make_unique<fakes::MemoryStore>(objects, /*is_conditional=*/false),
      [&](std::string_view call, std::string_view key, auto) -> std::optional<Error> {
        if (key != claim_key(1)) return std::nullopt;
        if (call == "get" && is_claimed && !std::exchange(has_met, true)) {
          fakes::MemoryStore theirs{objects, /*is_conditional=*/false};
          EXPECT_TRUE(storage::put_text(theirs, claim_key(1), to_text(claim_with("theirs", 2))));
        }
        is_claimed = is_claimed || call == "put";
        return std::nullopt;
      })};
  const auto restored = run.restore();
  ASSERT_FALSE(restored);
  EXPECT_TRUE(has_met);
  EXPECT_EQ(restored.error().kind, ErrorKind::conflict);
  EXPECT_THAT(restored.error().message, HasSubstr("attempt 2 of team/a has taken over"));
}

TEST(WithoutConditionalCreate, AManifestThatCameWithinTheSaveStays) {
  fakes::MemoryObjects objects;
  TestRun first{std::make_unique<fakes::MemoryStore>(objects, false)};
  TestRun second{meeting_store(objects, claim_key(1), [&] { ASSERT_TRUE(first.restore()); })};
  ASSERT_TRUE(second.as_attempt(2).restore());
  ASSERT_TRUE(second.save(10));
  const auto whole = objects.objects;
  EXPECT_FALSE(first.save(10));
  for (const auto& [key, content] : whole) EXPECT_EQ(objects.objects.at(key), content) << key;
}

// An attempt takes long to load, while a later one claims, trains and saves.
TEST(AStaleAttempt, ThatSleptThroughItsLoadOverwritesNoNewerClaim) {
  for (const bool is_conditional : {false, true}) {
    fakes::MemoryObjects objects;
    TestRun before{std::make_unique<fakes::MemoryStore>(objects, is_conditional)};
    ASSERT_TRUE(before.restore());
    ASSERT_TRUE(before.save(10));
    TestRun newer{std::make_unique<fakes::MemoryStore>(objects, is_conditional)};
    std::atomic<bool> has_met = false;
    TestRun stale{std::make_unique<fakes::FaultyStore>(
        std::make_unique<fakes::MemoryStore>(objects, is_conditional),
        [&](std::string_view call, std::string_view key, auto) -> std::optional<Error> {
          if (is_data(call, key) && !has_met.exchange(true)) {
            EXPECT_TRUE(newer.as_attempt(3).restore());
            EXPECT_TRUE(newer.save(20));
          }
          return std::nullopt;
        })};
    const auto restored = stale.as_attempt(2).restore();
    ASSERT_FALSE(restored);
    EXPECT_EQ(restored.error().kind, ErrorKind::conflict);
    EXPECT_THAT(restored.error().message, HasSubstr("attempt 3 of team/a has begun already, and this is attempt 2"));
    EXPECT_TRUE(newer.save(30)) << "nobody has fenced it";
  }
}

TEST(AStaleAttempt, OfAnotherJobThatSleptThroughItsLoadIsRefused) {
  fakes::MemoryObjects objects;
  TestRun before{objects};
  ASSERT_TRUE(before.restore());
  ASSERT_TRUE(before.save(10));
  ASSERT_TRUE(before.end());
  TestRun newer{objects};
  std::atomic<bool> has_met = false;
  TestRun stale{std::make_unique<fakes::FaultyStore>(
      std::make_unique<fakes::MemoryStore>(objects, false),
      [&](std::string_view call, std::string_view key, auto) -> std::optional<Error> {
        if (is_data(call, key) && !has_met.exchange(true)) {
          EXPECT_TRUE(newer.as_attempt(2).restore());
        }
        return std::nullopt;
      })};
  const auto restored = stale.as_job("b").restore();
  ASSERT_FALSE(restored);
  EXPECT_EQ(restored.error().kind, ErrorKind::invalid);
  EXPECT_THAT(restored.error().message, HasSubstr("in use by job team/a (attempt 2)"));
}

TEST(AStaleAttempt, ChoosesAgainWhenAllWasCleanedUpMeanwhile) {
  fakes::MemoryObjects objects;
  TestRun before{objects};
  ASSERT_TRUE(before.restore());
  ASSERT_TRUE(before.save(10));
  std::atomic<bool> has_met = false;
  TestRun run{std::make_unique<fakes::FaultyStore>(
      std::make_unique<fakes::MemoryStore>(objects),
      [&](std::string_view call, std::string_view key, auto) -> std::optional<Error> {
        // All is loaded by then, and the claims are read once more.
        if (is_data(call, key)) has_met = true;
        if (call == "list" && key == claims_prefix && has_met.exchange(false)) objects.objects.clear();
        return std::nullopt;
      })};
  const auto restored = run.as_attempt(2).restore();
  ASSERT_TRUE(restored) << restored.error().message;
  EXPECT_FALSE(*restored) << "nothing is there any more";
  EXPECT_TRUE(objects.objects.contains("generations/1.json"));
}

TEST(AStaleAttempt, ChoosesAgainWhenAnOpenClaimWasClosedMeanwhile) {
  fakes::MemoryObjects objects;
  TestRun before{objects};
  ASSERT_TRUE(before.restore());
  for (const std::int64_t step : {10, 20}) ASSERT_TRUE(before.save(step));
  fakes::MemoryStore store{objects};
  Claim other = claim_with("other", 2);
  other.generation = 2;
  other.is_open = true;
  ASSERT_TRUE(put_claim(store, other));
  std::atomic<bool> has_met = false;
  TestRun run{std::make_unique<fakes::FaultyStore>(
      std::make_unique<fakes::MemoryStore>(objects),
      [&](std::string_view call, std::string_view key, auto) -> std::optional<Error> {
        if (!is_data(call, key) || has_met.exchange(true)) return std::nullopt;
        other.is_open = false;
        other.resumed_from = CheckpointId{10, 1};
        EXPECT_TRUE(close_claim(store, other));
        return std::nullopt;
      })};
  EXPECT_EQ(run.as_attempt(3).restore().value()->step, 10) << "step 20 was superseded while it was loaded";
}

}  // namespace
}  // namespace trainyard::checkpoint
