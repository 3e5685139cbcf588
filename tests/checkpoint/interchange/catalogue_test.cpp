#include "checkpoint/interchange/catalogue.hpp"

#include <gmock/gmock.h>

#include <random>

#include "checkpoint/interchange/removal.hpp"
#include "tests/checkpoint/interchange/test_prefix.hpp"
#include "tests/checkpoint/run/test_run.hpp"
#include "tests/fakes/faulty_store.hpp"

namespace trainyard::checkpoint {
namespace {

using testing::ElementsAre;

class ACatalogue : public MemoryPrefix {
 protected:
  // "step-10/g-1 complete", ...
  std::vector<std::string> rows() {
    std::vector<std::string> rows;
    const auto catalogue = read_catalogue(prefix.store());
    for (const Listed& listed : catalogue->checkpoints)
      rows.push_back(fmt::format("{} {}", folder_key(listed.id), to_string(listed.standing)));
    return rows;
  }
};

TEST_F(ACatalogue, SaysOfEachCheckpointWhatARestoreMakesOfIt) {
  prefix.claim(1);
  prefix.save({10, 1});
  prefix.save({20, 1}, 2);
  prefix.save({30, 1});
  prefix.claim(2, CheckpointId{20, 1});
  prefix.save({25, 2});
  prefix.save({26, 2}, 2);
  ASSERT_TRUE(prefix.store().remove(data_key(CheckpointId{26, 2}, 1)));
  prefix.save({27, 2});
  prefix.cut(manifest_key({27, 2}), 5);
  prefix.save({28, 2}, 1, true);
  prefix.save({29, 2});
  ASSERT_TRUE(prefix.store().remove(manifest_key({29, 2})));
  EXPECT_THAT(rows(), ElementsAre("step-10/g-1 complete", "step-20/g-1 complete", "step-30/g-1 superseded",
                                  "step-25/g-2 complete", "step-26/g-2 damaged", "step-27/g-2 damaged",
                                  "step-28/g-2 final", "step-29/g-2 unfinished"));
  const auto catalogue = read_catalogue(prefix.store());
  EXPECT_EQ(catalogue->newest()->id, (CheckpointId{28, 2}));
  EXPECT_EQ(catalogue->find({26, 2})->reason, "the file of rank 1 is missing");
  EXPECT_EQ(catalogue->find({29, 2})->job, "team/a");  // The claim says so.
  EXPECT_EQ(catalogue->find({29, 1}), nullptr);
}

TEST_F(ACatalogue, ListsWhatItCannotReadAsDamaged) {
  prefix.claim(1).save({10, 1});
  prefix.save({20, 1});
  prefix.save({30, 1});
  auto newer = storage::get_text(prefix.store(), manifest_key({20, 1})).and_then(unseal);
  ASSERT_TRUE(newer);
  (*newer)["version"] = 9;
  ASSERT_TRUE(storage::put_text(prefix.store(), manifest_key({20, 1}), seal(*newer)));
  const auto other = storage::get_text(prefix.store(), manifest_key({10, 1}));
  ASSERT_TRUE(storage::put_text(prefix.store(), manifest_key({30, 1}), *other));
  EXPECT_THAT(rows(), ElementsAre("step-10/g-1 complete", "step-20/g-1 damaged", "step-30/g-1 damaged"));
  const auto catalogue = read_catalogue(prefix.store());
  EXPECT_THAT(catalogue->find({20, 1})->reason, testing::HasSubstr("use a newer Trainyard"));
  EXPECT_EQ(catalogue->find({30, 1})->reason, "its manifest is of another checkpoint");
  EXPECT_FALSE(catalogue->find({30, 1})->manifest) << "it would show another step's metrics";
}

TEST_F(ACatalogue, ListsTheCurrentCheckpointOfAStepFirst) {
  prefix.claim(1);
  prefix.save({10, 1});
  prefix.save({20, 1});
  prefix.claim(2, CheckpointId{10, 1});
  prefix.save({20, 2});
  prefix.claim(3, CheckpointId{20, 2});
  prefix.save({20, 3});
  ASSERT_TRUE(prefix.store().remove(manifest_key({20, 3})));
  const auto catalogue = read_catalogue(prefix.store());
  EXPECT_EQ(catalogue->of_step(20)->id, (CheckpointId{20, 2}));
  EXPECT_EQ(catalogue->of_step(30), nullptr);
  ASSERT_TRUE(prefix.store().remove(manifest_key({20, 2})));
  prefix.cut(manifest_key({20, 1}), 3);
  EXPECT_EQ(read_catalogue(prefix.store())->of_step(20)->id, (CheckpointId{20, 1})) << "a damaged one was finished";
  ASSERT_TRUE(prefix.store().remove(manifest_key({20, 1})));
  EXPECT_EQ(read_catalogue(prefix.store())->of_step(20)->id, (CheckpointId{20, 3})) << "the newest of unfinished ones";
}

TEST_F(ACatalogue, AddsUpTheBytesOfEachFolderAlone) {
  prefix.claim(1);
  const Manifest one = prefix.save({1, 1});
  prefix.save({1, 10});
  const auto catalogue = read_catalogue(prefix.store());
  EXPECT_GT(catalogue->find({1, 1})->bytes, data_bytes(one));
  EXPECT_LT(catalogue->find({1, 1})->bytes, data_bytes(one) + 10'000);
}

// Catalogue::newest() is always what a run resumes, whatever happened under the prefix.
TEST_F(ACatalogue, CallsNewestWhatARunResumes) {
  std::mt19937 random{7};
  const auto any = [&](int count) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(count)); };
  for (int round = 0; round < 60; ++round) {
    objects.objects.clear();
    std::optional<CheckpointId> last;
    for (std::int64_t generation = 1; generation <= 3; ++generation) {
      prefix.claim(generation, last);
      for (std::int64_t step = last ? last->step + 1 : 1; step < 6; ++step) {
        if (any(2) == 0) continue;
        prefix.save({step, generation});
        if (any(3) == 0) last = CheckpointId{step, generation};
        const bool is_unfinished = any(4) == 0;
        if (is_unfinished) objects.objects.erase(manifest_key({step, generation}));
        if (any(4) == 0) prefix.cut(data_key(CheckpointId{step, generation}, 0), 1);
      }
    }
    const auto catalogue = read_catalogue(prefix.store());
    const Listed* newest = catalogue->newest();
    TestRun run{objects};
    const auto restored = run.as_attempt(9).restore();
    if (newest == nullptr) {
      EXPECT_TRUE(!restored || !*restored) << round;
    } else {
      ASSERT_TRUE(restored && *restored) << round;
      EXPECT_EQ((*restored)->uri, prefix.store().uri_of(folder_key(newest->id))) << round;
    }
  }
}

TEST_F(ACatalogue, OfNothingIsEmptyAndAStoresErrorsAreItsOwn) {
  EXPECT_TRUE(read_catalogue(prefix.store())->checkpoints.empty());
  prefix.claim(1).save({10, 1});
  for (const std::string_view broken : {"list", "get"}) {
    fakes::FaultyStore failing{std::make_unique<fakes::MemoryStore>(objects),
                               [&](std::string_view call, std::string_view, storage::Pieces) -> std::optional<Error> {
                                 if (call == broken) return Error{ErrorKind::forbidden, "no entry", std::nullopt};
                                 return std::nullopt;
                               }};
    EXPECT_EQ(read_catalogue(failing).error().kind, ErrorKind::forbidden) << broken;
  }
}

TEST_F(ACatalogue, AsksByNameForWhatIsNotListed) {
  prefix.claim(1).save({10, 1}, 2);
  prefix.save({20, 1}, 2);
  for (const std::string& key : {manifest_key({20, 1}), data_key(CheckpointId{20, 1}, 0)}) objects.unlisted.insert(key);
  const auto catalogue = read_catalogue(prefix.store());
  ASSERT_TRUE(catalogue);
  EXPECT_EQ(catalogue->newest()->id, (CheckpointId{20, 1}));
  const Removal removal = removal_of(catalogue->inventory, {20, 1});
  EXPECT_EQ(removal.keys.front(), manifest_key({20, 1})) << "it goes first, or what is left would seem damaged";
  EXPECT_EQ(removal.keys.size(), 5U);
}

}  // namespace
}  // namespace trainyard::checkpoint
