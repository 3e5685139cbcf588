#include "checkpoint/interchange/removal.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>

#include "checkpoint/interchange/catalogue.hpp"
#include "tests/checkpoint/interchange/test_prefix.hpp"
#include "tests/checkpoint/run/test_run.hpp"
#include "tests/fakes/fake_clock.hpp"
#include "tests/fakes/faulty_store.hpp"

namespace trainyard::checkpoint {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Keys = std::vector<std::string>;

class ACleanUp : public MemoryPrefix {
 protected:
  /// Two generations of attempts 1 and 2, one of them unfinished, their snapshots, and what people have put beside
  /// them.
  void fill() {
    prefix.claim(1);
    prefix.save({10, 1}, 2);
    ASSERT_TRUE(storage::put_text(prefix.store(), end_key(1), ""));
    prefix.claim(2, CheckpointId{10, 1});
    prefix.save({20, 2});
    prefix.save({30, 2});
    ASSERT_TRUE(prefix.store().remove(manifest_key({30, 2})));
    for (const CheckpointId& id : {CheckpointId{5, 1}, CheckpointId{10, 1}, CheckpointId{15, 2}}) put_snapshot(id);
    for (const std::string& key : strangers) ASSERT_TRUE(storage::put_text(prefix.store(), key, "mine"));
  }
  void put_snapshot(const CheckpointId& id) {
    ASSERT_TRUE(storage::put_text(prefix.store(), snapshot_key(id), "shown"));
  }
  Result<CleanedUp> clean(storage::Store& store) { return clean_up(store, ours, clock); }
  Result<CleanedUp> clean() { return clean(prefix.store()); }
  Keys keys() {
    Keys keys;
    for (const auto& [key, content] : objects.objects) keys.push_back(key);
    return keys;
  }
  /// A prefix of another job.
  TestPrefix other(const std::string& uid) {
    TestPrefix made{std::make_unique<fakes::MemoryStore>(objects)};
    made.identity = {.job = "team/b", .job_uid = uid, .attempt = 1, .fingerprint = "fashion"};
    return made;
  }

  const Identity ours{.job = "team/a", .job_uid = "uid-a", .attempt = 3, .fingerprint = {}};
  const Keys strangers{"readme", "snapshots/g-1/plot.png", "snapshots/readme", "step-10/g-1/notes.txt",
                       "step-10/readme"};
  fakes::FakeClock clock;
};

TEST_F(ACleanUp, RemovesAllThatTheJobWroteAndNothingElse) {
  fill();
  const auto cleaned = clean();
  ASSERT_TRUE(cleaned) << cleaned.error().message;
  EXPECT_EQ(cleaned->checkpoints, 3U);
  EXPECT_EQ(cleaned->snapshots, 3U);
  EXPECT_EQ(cleaned->strangers, 2U);
  EXPECT_EQ(keys(), strangers);
}

TEST_F(ACleanUp, TakesManifestsFirstOldestFirstThenSnapshotsAndClaimsLast) {
  fill();
  std::mutex mutex;  // guards removed
  Keys removed;
  fakes::FaultyStore store{std::make_unique<fakes::MemoryStore>(objects),
                           [&](std::string_view call, std::string_view key, auto) -> std::optional<Error> {
                             const std::scoped_lock lock{mutex, objects.mutex};
                             if (call == "remove" && objects.objects.contains(key)) removed.emplace_back(key);
                             return std::nullopt;
                           }};
  ASSERT_TRUE(clean(store));
  // Several files of one checkpoint are removed at a time, and several snapshots too.
  const auto group_of = [](const std::string& key) { return key.substr(0, key.starts_with("step-") ? 8 : 10); };
  const auto is_one_by_one = [](const std::string& key) {
    return key.ends_with("manifest.json") || key.starts_with("generations/");
  };
  for (auto begin = removed.begin(); begin != removed.end();) {
    const auto end = std::find_if(begin, removed.end(), [&](const std::string& key) {
      return is_one_by_one(key) || group_of(key) != group_of(*begin);
    });
    std::sort(begin, end);
    begin = begin == end ? end + 1 : end;
  }
  EXPECT_THAT(removed,
              ElementsAre("step-10/g-1/manifest.json", "step-10/g-1/rank-0.safetensors",
                          "step-10/g-1/rank-1.safetensors", "step-10/g-1/receipt-0.json", "step-10/g-1/receipt-1.json",
                          "step-20/g-2/manifest.json", "step-20/g-2/rank-0.safetensors", "step-20/g-2/receipt-0.json",
                          "step-30/g-2/rank-0.safetensors", "step-30/g-2/receipt-0.json", "snapshots/g-1/step-10.json",
                          "snapshots/g-1/step-5.json", "snapshots/g-2/step-15.json", "generations/1.end",
                          "generations/1.json", "generations/2.json", "generations/3.json"));
}

TEST_F(ACleanUp, RemovesSnapshotsSeveralAtATime) {
  prefix.claim(1);
  for (std::int64_t step = 1; step <= 40; ++step) put_snapshot({step, 1});
  std::mutex mutex;  // guards under_way
  std::condition_variable changed;
  int under_way = 0;
  fakes::FaultyStore store{std::make_unique<fakes::MemoryStore>(objects),
                           [&](std::string_view call, std::string_view key, auto) -> std::optional<Error> {
                             if (call != "remove" || !key.starts_with("snapshots/")) return std::nullopt;
                             std::unique_lock lock{mutex};
                             ++under_way;
                             changed.notify_all();
                             const bool is_met =
                                 changed.wait_for(lock, std::chrono::minutes{1}, [&] { return under_way >= 8; });
                             return is_met ? std::nullopt : std::optional{Error{ErrorKind::timeout, "alone", {}}};
                           }};
  const auto cleaned = clean(store);
  ASSERT_TRUE(cleaned) << cleaned.error().message;
  EXPECT_EQ(cleaned->snapshots, 40U);
  EXPECT_THAT(keys(), IsEmpty());
}

TEST_F(ACleanUp, FinishesWhereverTheOneBeforeWasKilled) {
  for (int calls_max = 1;; ++calls_max) {
    SCOPED_TRACE(calls_max);
    objects.objects.clear();
    fill();
    std::atomic<int> calls = 0;
    fakes::FaultyStore store{std::make_unique<fakes::MemoryStore>(objects),
                             [&](std::string_view, std::string_view, auto) -> std::optional<Error> {
                               if (++calls <= calls_max) return std::nullopt;
                               return Error{.kind = ErrorKind::unavailable, .message = "killed", .retry_after = {}};
                             }};
    const bool is_done = clean(store).has_value();
    // No checkpoint that is left is damaged: a restore would find the newest whole one.
    const auto left = read_catalogue(prefix.store());
    ASSERT_TRUE(left);
    for (const Listed& listed : left->checkpoints) {
      EXPECT_NE(listed.standing, Standing::damaged) << folder_key(listed.id);
    }
    const auto again = clean();
    ASSERT_TRUE(again) << again.error().message;
    ASSERT_EQ(keys(), strangers);
    if (is_done) return;
  }
}

TEST_F(ACleanUp, FailsWithTheStoresErrorAtAnyCallThatFailsAndSucceedsAtTheNext) {
  for (int number = 1;; ++number) {
    SCOPED_TRACE(number);
    objects.objects.clear();
    fill();
    std::atomic<int> calls = 0;
    fakes::FaultyStore store{std::make_unique<fakes::MemoryStore>(objects),
                             [&](std::string_view, std::string_view, auto) -> std::optional<Error> {
                               if (++calls != number) return std::nullopt;
                               return Error{.kind = ErrorKind::forbidden, .message = "denied", .retry_after = {}};
                             }};
    const auto failed = clean(store);
    if (calls < number) break;
    // Asking for a claim that no list shows yet may be forbidden where there is none.
    if (!failed) {
      EXPECT_EQ(failed.error().kind, ErrorKind::forbidden);
    }
    const auto next = clean(store);
    ASSERT_TRUE(next) << next.error().message;
    ASSERT_EQ(keys(), strangers);
  }
}

TEST_F(ACleanUp, HasNothingToDoTwice) {
  fill();
  ASSERT_TRUE(clean());
  const auto again = clean();
  ASSERT_TRUE(again);
  EXPECT_EQ(again->checkpoints, 0U);
  EXPECT_EQ(keys(), strangers);
}

TEST_F(ACleanUp, LeavesAPlaceAloneWhereItsJobHasNeverWritten) {
  other("uid-b").claim(1).save({10, 1});
  const Keys before = keys();
  const auto cleaned = clean();
  ASSERT_TRUE(cleaned) << cleaned.error().message;
  EXPECT_EQ(cleaned->checkpoints, 0U);
  EXPECT_EQ(keys(), before);
}

TEST_F(ACleanUp, RemovesNothingWhereSomebodyElseHasWrittenAsWell) {
  struct Case {
    std::string name;
    std::function<void()> change;
    std::string says;
  };
  const std::vector<Case> cases{{"an older generation of another job",
                                 [this] {
                                   other("uid-b").claim(1).save({5, 1});
                                   prefix.claim(2, CheckpointId{5, 1});
                                   prefix.save({10, 2});
                                 },
                                 "also holds generation 1 of job team/b (UID uid-b): nothing is removed"},
                                {"a newer generation of another job",
                                 [this] {
                                   fill();
                                   other("uid-b").claim(3);
                                 },
                                 "also holds generation 3 of job team/b (UID uid-b)"},
                                {"a newer attempt",
                                 [this] {
                                   fill();
                                   prefix.claim(3);
                                   prefix.claim(4);
                                 },
                                 "also holds generation 4 of attempt 4 of this job, which is newer than the clean-up"},
                                {"another life of the same job",
                                 [this] {
                                   fill();
                                   TestPrefix life = other("uid-a2");
                                   life.identity.job = "team/a";
                                   life.claim(3);
                                 },
                                 "also holds generation 3 of job team/a (UID uid-a2)"},
                                {"a run by hand",
                                 [this] {
                                   fill();
                                   other("").claim(3);
                                 },
                                 "also holds generation 3 of job team/b: nothing is removed"},
                                {"a claim that cannot be read",
                                 [this] {
                                   fill();
                                   ASSERT_TRUE(storage::put_text(prefix.store(), claim_key(3), "{"));
                                 },
                                 "also holds a claim that cannot be read"},
                                {"a checkpoint that was copied here",
                                 [this] {
                                   fill();
                                   other("uid-b").save({40, 7});
                                 },
                                 "also holds step-40/g-7, of a generation that nobody has claimed"},
                                {"a checkpoint that was copied over the job's own",
                                 [this] {
                                   fill();
                                   other("uid-b").save({40, 2});
                                 },
                                 "also holds step-40/g-2, of job team/b (UID uid-b)"},
                                {"a snapshot of an older run whose claim was removed by hand",
                                 [this] {
                                   fill();
                                   put_snapshot({500, 7});
                                 },
                                 "also holds snapshots/g-7/step-500.json, of a generation that nobody has claimed"}};
  for (const Case& each : cases) {
    objects.objects.clear();
    each.change();
    const Keys before = keys();
    const auto cleaned = clean();
    ASSERT_FALSE(cleaned) << each.name;
    EXPECT_EQ(cleaned.error().kind, ErrorKind::invalid) << each.name;
    EXPECT_THAT(cleaned.error().message, HasSubstr(each.says)) << each.name;
    EXPECT_EQ(keys(), before) << each.name;
  }
}

TEST_F(ACleanUp, RemovesACheckpointOfItsOwnThatIsDamaged) {
  prefix.claim(1);
  prefix.save({10, 1});
  prefix.cut(manifest_key({10, 1}), 3);
  ASSERT_TRUE(clean());
  EXPECT_THAT(keys(), IsEmpty());
}

TEST_F(ACleanUp, TakesNothingFromARunThatClaimsAtTheSameMoment) {
  fill();
  const Keys before = keys();
  bool has_claimed = false;
  fakes::FaultyStore store{std::make_unique<fakes::MemoryStore>(objects),
                           [&](std::string_view call, std::string_view, auto) -> std::optional<Error> {
                             if (call == "put" && !has_claimed) {
                               has_claimed = true;
                               other("uid-b").claim(3);
                             }
                             return std::nullopt;
                           }};
  const auto late = clean(store);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().kind, ErrorKind::already_exists) << "worth another look";
  EXPECT_EQ(keys().size(), before.size() + 1);
  EXPECT_EQ(clean().error().kind, ErrorKind::invalid);
}

TEST_F(ACleanUp, RemovesNothingWhereAnotherRunClaimsAfterTheFence) {
  fill();
  bool is_fenced = false;
  bool has_claimed = false;
  fakes::FaultyStore store{std::make_unique<fakes::MemoryStore>(objects),
                           [&](std::string_view call, std::string_view, auto) -> std::optional<Error> {
                             if (call == "put") is_fenced = true;
                             if (call == "list" && is_fenced && !std::exchange(has_claimed, true))
                               other("uid-b").claim(4).save({40, 4});
                             return std::nullopt;
                           }};
  const auto cleaned = clean(store);
  ASSERT_FALSE(cleaned);
  EXPECT_EQ(cleaned.error().kind, ErrorKind::invalid);
  EXPECT_THAT(cleaned.error().message, HasSubstr("also holds generation 4 of job team/b (UID uid-b)"));
  EXPECT_THAT(keys(), testing::IsSupersetOf({manifest_key({10, 1}), manifest_key({40, 4})}));
}

TEST_F(ACleanUp, RemovesASnapshotThatWasWrittenWhileItBegan) {
  fill();
  fakes::FaultyStore store{std::make_unique<fakes::MemoryStore>(objects),
                           [&](std::string_view call, std::string_view, auto) -> std::optional<Error> {
                             if (call == "put") put_snapshot({20, 2});
                             return std::nullopt;
                           }};
  const auto cleaned = clean(store);
  ASSERT_TRUE(cleaned) << cleaned.error().message;
  EXPECT_EQ(cleaned->snapshots, 4U);
  EXPECT_EQ(keys(), strangers);
}

TEST_F(ACleanUp, RemovesACheckpointThatWasSavedWhileItBegan) {
  TestRun run{objects};
  run.as_attempt(2);
  ASSERT_TRUE(run.restore());
  ASSERT_TRUE(run.save(10));
  bool has_saved = false;
  fakes::FaultyStore store{std::make_unique<fakes::MemoryStore>(objects),
                           [&](std::string_view call, std::string_view, auto) -> std::optional<Error> {
                             if (call == "put" && !std::exchange(has_saved, true)) {
                               EXPECT_TRUE(run.save(20));
                             }
                             return std::nullopt;
                           }};
  const auto cleaned = clean(store);
  ASSERT_TRUE(cleaned) << cleaned.error().message;
  EXPECT_EQ(cleaned->checkpoints, 2U);
  EXPECT_THAT(keys(), IsEmpty());
}

TEST_F(ACleanUp, FencesARankThatStillSaves) {
  TestRun run{objects};
  run.as_attempt(2);
  ASSERT_TRUE(run.restore());
  ASSERT_TRUE(run.save(10));
  // The store stops working when the claims would go: the job's own are there, and the one that fences.
  fakes::FaultyStore store{std::make_unique<fakes::MemoryStore>(objects),
                           [](std::string_view call, std::string_view key, auto) -> std::optional<Error> {
                             if (call != "remove" || !key.starts_with(claims_prefix)) return std::nullopt;
                             return Error{.kind = ErrorKind::unavailable, .message = "down", .retry_after = {}};
                           }};
  ASSERT_FALSE(clean(store));
  const auto saved = run.save(20);
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().kind, ErrorKind::conflict);
  TestRun late{objects};
  late.as_attempt(2);
  EXPECT_EQ(late.restore().error().kind, ErrorKind::conflict) << "a rank of the last attempt that comes now";
  ASSERT_TRUE(clean());
  EXPECT_THAT(keys(), IsEmpty());
}

TEST_F(ACleanUp, LeavesWhatStaysAfterAllForTheNextJobOfItsName) {
  fill();
  fakes::FaultyStore store{std::make_unique<fakes::MemoryStore>(objects),
                           [](std::string_view call, std::string_view, auto) -> std::optional<Error> {
                             if (call != "remove") return std::nullopt;
                             return Error{.kind = ErrorKind::forbidden, .message = "denied", .retry_after = {}};
                           }};
  ASSERT_FALSE(clean(store));
  EXPECT_EQ(read_catalogue(prefix.store())->newest()->id, (CheckpointId{20, 2})) << "it is still a candidate";
}

}  // namespace
}  // namespace trainyard::checkpoint
