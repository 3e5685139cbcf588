// Tests which run may claim the next generation after which.
#include "checkpoint/run/fence.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/checkpoint/run/test_run.hpp"
#include "tests/fakes/faulty_store.hpp"

namespace trainyard::checkpoint {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

Identity run_of(std::string job, std::string uid, std::int64_t attempt = 1, std::string fingerprint = "fashion") {
  return {.job = std::move(job), .job_uid = std::move(uid), .attempt = attempt, .fingerprint = std::move(fingerprint)};
}

TEST(CheckMayClaim, IsDecidedByTheNewestRunAndByOnesOwnEarlierOnes) {
  struct Row {
    std::string name;
    std::vector<Identity> runs;  // By generation, from 1.
    std::set<std::int64_t> ended;
    Identity next;
    std::string refusal;  // Empty: the run may claim.
    ErrorKind kind = ErrorKind::invalid;
    std::optional<Liveness> liveness{};  // The newest run's.
  };
  const Row rows[] = {
      {"the first run of all", {}, {}, run_of("a", "1"), ""},
      {"the next attempt", {run_of("a", "1")}, {}, run_of("a", "1", 2), ""},
      {"an attempt that starts twice", {run_of("a", "1", 2)}, {}, run_of("a", "1", 2), ""},
      {"an attempt that wakes late",
       {run_of("a", "1", 2)},
       {},
       run_of("a", "1", 1),
       "attempt 2 of a has begun already",
       ErrorKind::conflict},
      {"a job that was deleted and applied again", {run_of("a", "1", 3)}, {}, run_of("a", "2"), ""},
      {"its predecessor, which still runs",
       {run_of("a", "1"), run_of("a", "2")},
       {},
       run_of("a", "1", 2),
       "a newer a (UID 2, attempt 1) has taken over"},
      {"its predecessor, once it has ended", {run_of("a", "1"), run_of("a", "2")}, {2}, run_of("a", "1", 2), ""},
      {"another job while the first runs, or was killed",
       {run_of("a", "1")},
       {},
       run_of("b", "2"),
       "memory:// is in use by job a (attempt 1): wait"},
      {"another job once the first has ended", {run_of("a", "1")}, {1}, run_of("b", "2"), ""},
      {"another job while the second attempt runs",
       {run_of("a", "1"), run_of("a", "1", 2)},
       {1},
       run_of("b", "2"),
       "putting an empty object at memory://generations/2.end"},
      {"the first job while its successor runs",
       {run_of("a", "1"), run_of("b", "2")},
       {1},
       run_of("a", "1", 2),
       "in use by job b"},
      {"runs by hand of one model and data", {run_of("local", "")}, {}, run_of("local", ""), ""},
      {"a run by hand beside one that lives",
       {run_of("local", "")},
       {},
       run_of("local", ""),
       "in use by run local of generation 1, which was started by hand and is alive",
       ErrorKind::invalid,
       Liveness{.last_sign = Time{}, .is_running = {}}},
      {"a run by hand after one that was killed",
       {run_of("local", "")},
       {},
       run_of("local", ""),
       "",
       ErrorKind::invalid,
       Liveness{.last_sign = Time{} - sign_valid_for, .is_running = {}}},
      {"a run by hand after one that lived a moment ago and ended",
       {run_of("local", "")},
       {1},
       run_of("local", ""),
       "",
       ErrorKind::invalid,
       Liveness{.last_sign = Time{}, .is_running = {}}},
      {"a job in whose place a run by hand resumed", {run_of("a", "1"), run_of("a", "")}, {}, run_of("a", "1", 2), ""},
      {"runs by hand of different models",
       {run_of("local", "")},
       {},
       run_of("local", "", 1, "digits"),
       "in use by job local"},
  };
  fakes::MemoryObjects objects;
  const fakes::MemoryStore store{objects};
  for (const Row& row : rows) {
    Inventory inventory;
    for (const Identity& identity : row.runs) {
      inventory.claims.push_back({.generation = ++inventory.generation_max, .identity = identity});
    }
    inventory.ended = row.ended;
    inventory.newest_liveness = row.liveness;
    const auto may = check_may_claim(inventory, row.next, store, Time{});
    EXPECT_EQ(may.has_value(), row.refusal.empty()) << row.name;
    if (may) continue;
    EXPECT_EQ(may.error().kind, row.kind) << row.name;
    EXPECT_THAT(may.error().message, HasSubstr(row.refusal)) << row.name;
  }
}

TEST(CheckMayClaim, NamesNoShorterWaitThanTheLastSignOfLifeIsValidFor) {
  fakes::MemoryObjects objects;
  const fakes::MemoryStore store{objects};
  const Identity by_hand = run_of("local", "");
  Inventory inventory;
  inventory.claims.push_back({.generation = 1, .identity = by_hand});
  inventory.newest_liveness = Liveness{.last_sign = Time{} - sign_valid_for + 1001ms, .is_running = {}};
  const auto may = check_may_claim(inventory, by_hand, store, Time{});
  ASSERT_FALSE(may);
  EXPECT_EQ(may.error(),
            (Error{ErrorKind::invalid,
                   "memory:// is in use by run local of generation 1, which was started by hand and is alive: give "
                   "each run its own checkpoint.uri. If that run was killed, begin again in 2 s, or put an empty "
                   "object at memory://generations/1.end",
                   1001ms}))
      << may.error().message;
}

class ASecondJob : public testing::Test {
 protected:
  // As job team/a, attempt 1.
  void first_run(const std::vector<std::int64_t>& steps, bool ends) {
    ASSERT_TRUE(first.restore());
    for (const std::int64_t step : steps) ASSERT_TRUE(first.save(step));
    if (ends) {
      ASSERT_TRUE(first.end());
    }
  }

  fakes::MemoryObjects objects;
  TestRun first{objects};
  TestRun second{objects};
};

TEST_F(ASecondJob, IsRefusedWhileTheFirstRunsAndDoesNotDisturbIt) {
  first_run({10}, /*ends=*/false);
  for (const bool resumes_others : {true, false}) {
    second.resumes_others = resumes_others;
    const auto restored = second.as_job("b").restore();
    ASSERT_FALSE(restored);
    EXPECT_EQ(restored.error().kind, ErrorKind::invalid);
    EXPECT_THAT(restored.error().message, HasSubstr("in use by job team/a"));
  }
  EXPECT_FALSE(objects.objects.contains("generations/2.json"));
  EXPECT_TRUE(first.save(20));
}

TEST_F(ASecondJob, OfTheSameModelAndDataResumesOnceTheFirstHasEnded) {
  first_run({10}, /*ends=*/true);
  EXPECT_EQ(second.as_job("b").restore().value()->step, 10);
}

TEST_F(ASecondJob, ResumesFromAKilledOneWhenSomebodyPutsItsEnd) {
  first_run({10}, /*ends=*/false);
  ASSERT_TRUE(storage::put_text(second.store(), "generations/1.end", ""));
  EXPECT_EQ(second.as_job("b").restore().value()->step, 10);
  // The first run was not dead after all.
  const auto late = first.save(20);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().kind, ErrorKind::invalid);
  EXPECT_THAT(late.error().message, HasSubstr("job team/b has taken over"));
}

TEST_F(ASecondJob, OfAnotherModelIsRefusedWithTheWayOut) {
  first_run({10}, /*ends=*/true);
  const auto restored = second.as_job("b", "other data").restore();
  ASSERT_FALSE(restored);
  EXPECT_EQ(restored.error().kind, ErrorKind::invalid);
  EXPECT_THAT(restored.error().message,
              HasSubstr("team/a with another model or other data (fashion there, other data here)"));
  EXPECT_THAT(restored.error().message, HasSubstr("resume: none"));
  EXPECT_THAT(restored.error().message, HasSubstr("choose another with --dir, or remove it"));
  EXPECT_FALSE(objects.objects.contains("generations/2.json"));
}

TEST_F(ASecondJob, WithResumeNoneBeginsAfreshAndThenResumesItsOwn) {
  first_run({10, 20}, /*ends=*/true);
  second.resumes_others = false;
  const auto restored = second.as_job("b", "other data").restore();
  ASSERT_TRUE(restored) << restored.error().message;
  EXPECT_FALSE(*restored);
  for (const std::int64_t step : {5, 6, 7}) ASSERT_TRUE(second.save(step));
  EXPECT_TRUE(objects.objects.contains("step-10/g-1/manifest.json"))
      << "another job's checkpoints are not ours to remove";
  EXPECT_FALSE(objects.objects.contains("step-5/g-2/manifest.json"));

  TestRun next{objects};
  next.resumes_others = false;
  EXPECT_EQ(next.as_job("b", "other data").as_attempt(2).restore().value()->step, 7);
}

TEST_F(ASecondJob, ThatStartsTogetherWithTheFirstIsRefused) {
  // The first claims between the second's look and its claim.
  bool has_met = false;
  TestRun late{std::make_unique<fakes::FaultyStore>(
      std::make_unique<fakes::MemoryStore>(objects),
      [&](std::string_view call, std::string_view key, auto) -> std::optional<Error> {
        if (call == "put" && key == "generations/1.json" && !std::exchange(has_met, true)) first_run({}, false);
        return {};
      })};
  const auto restored = late.as_job("b").restore();
  ASSERT_FALSE(restored);
  EXPECT_THAT(restored.error().message, HasSubstr("in use by job team/a"));
  EXPECT_TRUE(first.save(10));
}

TEST(ALifeOfAJob, IsFencedByTheNextOneAndDoesNotComeBack) {
  fakes::MemoryObjects objects;
  TestRun older{objects};
  ASSERT_TRUE(older.restore());
  ASSERT_TRUE(older.save(10));
  TestRun newer{objects};
  newer.identity.job_uid = "uid-newer";
  ASSERT_EQ(newer.restore().value()->step, 10);
  const auto late = older.save(20);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().kind, ErrorKind::conflict);
  EXPECT_THAT(late.error().message, HasSubstr("attempt 1 of a newer team/a"));

  TestRun older_again{objects};
  const auto restored = older_again.as_attempt(2).restore();
  ASSERT_FALSE(restored);
  EXPECT_EQ(restored.error().kind, ErrorKind::invalid);
  EXPECT_THAT(restored.error().message, HasSubstr("UID uid-newer"));
  EXPECT_TRUE(newer.save(20));
}

TEST(AJobOfWhichTheDataWereEdited, ResumesFromItsOwnCheckpointUnlessResumeIsNone) {
  for (const bool resumes_others : {true, false}) {
    fakes::MemoryObjects objects;
    TestRun before{objects};
    ASSERT_TRUE(before.restore());
    ASSERT_TRUE(before.save(10));
    TestRun edited{objects};
    edited.identity.fingerprint = "other data";
    edited.resumes_others = resumes_others;
    const auto restored = edited.as_attempt(2).restore();
    ASSERT_TRUE(restored) << restored.error().message;
    EXPECT_EQ(restored->has_value(), resumes_others);
  }
}

TEST(RunsByHand, ResumeByModelAndDataAndNeverWithResumeNone) {
  fakes::MemoryObjects objects;
  const auto by_hand = [&](bool resumes_others) {
    TestRun run{objects};
    run.identity = run_of("local", "");
    run.resumes_others = resumes_others;
    const auto restored = run.restore();
    EXPECT_TRUE(restored && run.save(10)) << (restored ? "" : restored.error().message);
    return restored && *restored ? (*restored)->step : 0;
  };
  EXPECT_EQ(by_hand(true), 0);
  EXPECT_EQ(by_hand(true), 10);
  EXPECT_EQ(by_hand(false), 0);
}

}  // namespace
}  // namespace trainyard::checkpoint
