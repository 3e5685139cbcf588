// Runs over a store whose lists lag behind what was written: only what is asked for by name is up to date.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string_view>

#include "checkpoint/format/claim.hpp"
#include "tests/checkpoint/run/test_run.hpp"
#include "tests/fakes/faulty_store.hpp"
#include "tests/fakes/late_listing_store.hpp"

namespace trainyard::checkpoint {
namespace {

// A save is three writes, and two more once there is something to remove.
class AStoreThatListsLate : public testing::TestWithParam<std::size_t> {
 protected:
  std::unique_ptr<TestRun> open(std::int64_t attempt) {
    auto run = std::make_unique<TestRun>(std::make_unique<fakes::LateListingStore>(late));
    run->large_rows = 1;
    run->as_attempt(attempt);
    return run;
  }

  fakes::LateObjects late{GetParam()};
};

TEST_P(AStoreThatListsLate, GivesBackTheNewestAndFencesAtOnce) {
  const auto older = open(1);
  ASSERT_TRUE(older->restore());
  for (std::int64_t step = 10; step <= 60; step += 10) ASSERT_TRUE(older->save(step));

  const auto newer = open(2);
  const auto restored = newer->restore();
  ASSERT_TRUE(restored && *restored) << restored.error().message;
  const std::int64_t base = (*restored)->step;
  EXPECT_EQ(base, 60);
  EXPECT_TRUE(newer->holds_state_after(base));

  const auto late_save = older->save(70);
  ASSERT_FALSE(late_save);
  EXPECT_EQ(late_save.error().kind, ErrorKind::conflict);
  for (const std::int64_t step : {base + 5, base + 15}) ASSERT_TRUE(newer->save(step));

  // A third one right afterwards, whose lists may not show the second's claim.
  const auto third = open(3);
  const auto found = third->restore();
  ASSERT_TRUE(found && *found) << found.error().message;
  EXPECT_EQ((*found)->step, 75);
  EXPECT_TRUE(third->holds_state_after(75));
}

TEST_P(AStoreThatListsLate, KeepsTheNewestTwo) {
  const auto run = open(1);
  ASSERT_TRUE(run->restore());
  for (std::int64_t step = 10; step <= 90; step += 10) {
    ASSERT_TRUE(run->save(step));
    for (const std::int64_t kept : {step - 10, step}) {
      if (kept > 0) {
        EXPECT_TRUE(late.objects.objects.contains(manifest_key({.step = kept, .generation = 1})));
      }
    }
  }
}

TEST(ListsThatLagBehind, HideNothingThatARunSavedWhileTheNextOneBegan) {
  fakes::MemoryObjects objects;
  TestRun older{objects};
  ASSERT_TRUE(older.restore());
  ASSERT_TRUE(older.save(10));
  const auto saved = objects.objects;

  // The newer run begins while the older one's claim is still open, and puts its own when the older one has saved.
  fakes::MemoryStore store{objects};
  auto open = storage::get_text(store, claim_key(1)).and_then(parse_claim);
  ASSERT_TRUE(open) << open.error().message;
  open->is_open = true;
  objects.objects.clear();
  ASSERT_TRUE(storage::put_text(store, claim_key(1), to_text(*open)));
  const auto save_before_the_claim = [&](std::string_view call, std::string_view key, storage::Pieces) {
    if (call != "put" || key != claim_key(2)) return std::optional<Error>{};
    for (const auto& [saved_key, content] : saved) {
      objects.objects.insert_or_assign(saved_key, content);
      if (saved_key != claim_key(1)) objects.unlisted.insert(saved_key);
    }
    return std::optional<Error>{};
  };
  TestRun newer{
      std::make_unique<fakes::FaultyStore>(std::make_unique<fakes::MemoryStore>(objects), save_before_the_claim)};
  const auto restored = newer.as_attempt(2).restore();
  ASSERT_TRUE(restored) << restored.error().message;
  ASSERT_TRUE(*restored) << "the older run's checkpoint, which it reported, is lost";
  EXPECT_EQ((*restored)->step, 10);
}

INSTANTIATE_TEST_SUITE_P(Writes, AStoreThatListsLate, testing::Range(std::size_t{0}, std::size_t{9}));

}  // namespace
}  // namespace trainyard::checkpoint
