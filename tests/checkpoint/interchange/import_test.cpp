#include "checkpoint/interchange/import.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <utility>

#include "checkpoint/interchange/catalogue.hpp"
#include "checkpoint/interchange/entry_names.hpp"
#include "checkpoint/interchange/verify.hpp"
#include "checkpoint/interchange/weights.hpp"
#include "tests/checkpoint/interchange/test_prefix.hpp"
#include "tests/fakes/faulty_store.hpp"
#include "tests/fakes/late_listing_store.hpp"

namespace trainyard::checkpoint {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Import : public MemoryPrefix {
 protected:
  // A file has the model's part of a state, without "model.".
  TestState state = state_after(5);
  std::vector<ForeignTensor> tensors = foreign(state);

  static std::vector<ForeignTensor> foreign(const TestState& state) {
    std::vector<ForeignTensor> tensors;
    for (const HostEntry& entry : state.entries()) {
      if (!entry.info.name.starts_with(model_prefix)) continue;
      tensors.push_back({.name = entry.info.name.substr(model_prefix.size()),
                         .dtype = *find_dtype(entry.info.dtype),
                         .shape = entry.info.shape,
                         .bytes = entry.bytes});
    }
    return tensors;
  }
  Result<Imported> import_all() { return import_tensors(prefix.store(), tensors, "m.pt", test_time); }
};

TEST_F(Import, WritesACompleteCheckpointThatEveryJobMayTakeWeightsFrom) {
  const auto imported = import_all();
  ASSERT_TRUE(imported) << imported.error().message;
  EXPECT_EQ(imported->id, (CheckpointId{.step = 0, .generation = 1}));
  EXPECT_EQ(imported->tensors, 5);
  const auto catalogue = read_catalogue(prefix.store());
  ASSERT_TRUE(catalogue);
  ASSERT_NE(catalogue->newest(), nullptr);
  EXPECT_EQ(catalogue->newest()->standing, Standing::complete);
  EXPECT_EQ(catalogue->newest()->manifest->values["importedFrom"], "m.pt");
  EXPECT_TRUE(catalogue->inventory.ended.contains(1));
  const auto verification = verify(prefix.store(), catalogue->inventory, imported->id);
  ASSERT_TRUE(verification);
  EXPECT_THAT(verification->damages, ElementsAre());
}

TEST_F(Import, GivesTheWeightsThatATrainingBeginsWith) {
  ASSERT_TRUE(import_all());
  TestState begun;
  std::vector<HostEntry> model;
  for (const HostEntry& entry : begun.entries()) {
    if (entry.info.name.starts_with(model_prefix)) model.push_back(entry);
  }
  const auto loaded = load_weights(prefix.store(), WeightsPlace{}, model);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->uri, "memory://step-0/g-1");
  for (std::size_t i = 0; i < model.size(); ++i)
    EXPECT_TRUE(std::ranges::equal(model[i].bytes, state.entries()[i].bytes)) << model[i].info.name;
}

TEST_F(Import, LeavesOutWhatIsNoModels) {
  for (ForeignTensor& tensor : tensors) tensor.name = "model." + tensor.name;
  tensors.push_back({.name = "rng.cpu.rank-0", .dtype = *find_dtype("U8"), .shape = {0}, .bytes = {}});
  const auto imported = import_all();
  ASSERT_TRUE(imported) << imported.error().message;
  EXPECT_EQ(imported->tensors, 5);
  EXPECT_THAT(imported->left_out, ElementsAre("rng.cpu.rank-0"));
}

TEST_F(Import, WritesNothingBesideCheckpoints) {
  prefix.claim(1).save({.step = 10, .generation = 1});
  const auto before = objects.objects;
  const auto refused = import_all();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::already_exists);
  EXPECT_THAT(refused.error().message, HasSubstr("there are checkpoints under memory:// already"));
  EXPECT_EQ(objects.objects, before);
}

TEST_F(Import, WritesNothingWhereAJobIsAtWork) {
  prefix.claim(1);
  const auto refused = import_all();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::invalid);
  EXPECT_THAT(refused.error().message, HasSubstr("memory:// is in use by job team/a"));
}

TEST_F(Import, RefusesTwoTensorsOfOneName) {
  tensors.push_back(tensors.front());
  EXPECT_THAT(import_all().error().message, HasSubstr("two tensors would be named model.weight"));
  EXPECT_TRUE(objects.objects.empty());
}

TEST_F(Import, ThatFailsAnywhereLeavesNoCheckpointAndIsInNoWayOfTheNext) {
  for (int puts_max = 0;; ++puts_max) {
    fakes::MemoryObjects fresh;
    int puts = 0;
    fakes::FaultyStore failing{std::make_unique<fakes::MemoryStore>(fresh),
                               [&](std::string_view call, std::string_view, storage::Pieces) -> std::optional<Error> {
                                 if (call != "put" || puts++ < puts_max) return std::nullopt;
                                 return Error{ErrorKind::unavailable, "away", std::nullopt};
                               }};
    const auto imported = import_tensors(failing, tensors, "m.pt", test_time);
    if (imported) {
      EXPECT_GT(puts_max, 4) << "claim, data, manifest, record, end";
      break;
    }
    fakes::MemoryStore store{fresh};
    const auto catalogue = read_catalogue(store);
    ASSERT_TRUE(catalogue);
    if (catalogue->newest() != nullptr) continue;  // Only its record or its end was not written.
    const auto again = import_tensors(store, tensors, "m.pt", test_time);
    ASSERT_TRUE(again) << puts_max << ": " << again.error().message;
    EXPECT_EQ(read_catalogue(store)->newest()->id, again->id);
  }
}

TEST_F(Import, ThatAnotherOvertakesDoesNotComplete) {
  fakes::MemoryStore other{objects};
  bool is_first = true;
  fakes::FaultyStore store{std::make_unique<fakes::MemoryStore>(objects),
                           [&](std::string_view, std::string_view key, storage::Pieces) -> std::optional<Error> {
                             if (key.starts_with("step-0/g-1/rank-0-") && std::exchange(is_first, false)) {
                               EXPECT_TRUE(import_tensors(other, tensors, "theirs.pt", test_time));
                             }
                             return std::nullopt;
                           }};
  const auto imported = import_tensors(store, tensors, "ours.pt", test_time);
  ASSERT_FALSE(imported);
  EXPECT_EQ(imported.error().kind, ErrorKind::conflict);
  EXPECT_EQ(read_catalogue(other)->newest()->manifest->values["importedFrom"], "theirs.pt");
}

TEST_F(Import, FailsIfAnotherRunClaimsThePrefixAtTheLastMoment) {
  fakes::FaultyStore store{std::make_unique<fakes::MemoryStore>(objects),
                           [&](std::string_view call, std::string_view key, storage::Pieces) -> std::optional<Error> {
                             if (call == "put" && key == manifest_key({.step = 0, .generation = 1})) prefix.claim(2);
                             return std::nullopt;
                           }};
  const auto imported = import_tensors(store, tensors, "m.pt", test_time);
  ASSERT_FALSE(imported);
  EXPECT_THAT(imported.error().message, HasSubstr("job team/a has taken over the checkpoints in memory://"));
}

TEST_F(Import, SeesAJobThatTheStoreDoesNotListYet) {
  fakes::LateObjects late{100};
  TestPrefix theirs{std::make_unique<fakes::LateListingStore>(late)};
  theirs.claim(1);
  const auto refused = import_tensors(theirs.store(), tensors, "m.pt", test_time);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::invalid);
  EXPECT_THAT(refused.error().message, HasSubstr("is in use by job team/a"));
}

}  // namespace
}  // namespace trainyard::checkpoint
