#include "checkpoint/interchange/verify.hpp"

#include <gmock/gmock.h>

#include "tests/checkpoint/interchange/test_prefix.hpp"
#include "tests/fakes/faulty_store.hpp"

namespace trainyard::checkpoint {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr CheckpointId checked{.step = 20, .generation = 1};

class Verify : public MemoryPrefix {
 protected:
  Manifest manifest = prefix.claim(1).save(checked, 3);

  std::vector<std::string> damages() {
    const auto verification = verify(prefix.store(), prefix.inventory(), checked);
    EXPECT_TRUE(verification);
    return verification ? verification->damages : std::vector<std::string>{"the store failed"};
  }
  // Where rank `rank` has the entry; its offset in the file.
  [[nodiscard]] const Chunk& chunk_of(std::int64_t rank, const std::string& entry) const {
    const auto& chunks = manifest.receipts.at(static_cast<std::size_t>(rank)).chunks;
    return *std::find_if(chunks.begin(), chunks.end(), [&](const Chunk& chunk) { return chunk.entry == entry; });
  }
};

TEST_F(Verify, ReadsEveryByteOfAWholeCheckpointAndFindsNothing) {
  const auto verification = verify(prefix.store(), prefix.inventory(), checked);
  ASSERT_TRUE(verification);
  EXPECT_THAT(verification->damages, IsEmpty());
  EXPECT_EQ(verification->bytes, data_bytes(manifest));
}

TEST_F(Verify, FindsTheSameWhereverTheBorderBetweenTwoPiecesIs) {
  const auto flipped = static_cast<std::int64_t>(chunk_of(1, "model.large").offset);
  for (const std::uint64_t piece_bytes : {1, 7, 64, 100, 1000}) {
    const auto whole = verify(prefix.store(), prefix.inventory(), checked, piece_bytes);
    ASSERT_TRUE(whole);
    EXPECT_THAT(whole->damages, IsEmpty()) << piece_bytes;
    EXPECT_EQ(whole->bytes, data_bytes(manifest)) << piece_bytes;
    prefix.flip(data_key(checked, 1), flipped);
    const auto damaged = verify(prefix.store(), prefix.inventory(), checked, piece_bytes);
    ASSERT_TRUE(damaged);
    EXPECT_THAT(damaged->damages, ElementsAre(HasSubstr("model.large"))) << piece_bytes;
    prefix.flip(data_key(checked, 1), flipped);
  }
}

TEST_F(Verify, NamesTheEntryAndTheFileOfAFlippedByte) {
  for (const auto& [rank, entry] : std::vector<std::pair<std::int64_t, std::string>>{
           {0, "buffer.mean"}, {0, "model.large"}, {1, "model.large"}, {2, "rng.cpu"}}) {
    const auto offset = static_cast<std::int64_t>(chunk_of(rank, entry).offset);
    prefix.flip(data_key(checked, rank), offset);
    EXPECT_THAT(damages(),
                ElementsAre(AllOf(HasSubstr(data_key(checked, rank)), HasSubstr(entry), HasSubstr("checksum"))));
    prefix.flip(data_key(checked, rank), offset);
  }
}

TEST_F(Verify, NamesEveryDamagedEntryOfAFile) {
  for (const char* entry : {"model.large", "buffer.mean"})
    prefix.flip(data_key(checked, 0), static_cast<std::int64_t>(chunk_of(0, entry).offset));
  EXPECT_THAT(damages(), testing::UnorderedElementsAre(HasSubstr("model.large"), HasSubstr("buffer.mean")));
}

TEST_F(Verify, FindsAFlippedByteOutsideOfEveryEntry) {
  prefix.flip(data_key(checked, 1), 3);
  EXPECT_THAT(damages(), ElementsAre(AllOf(HasSubstr(data_key(checked, 1)), HasSubstr("the file's checksum"))));
}

TEST_F(Verify, NamesATornFileWithItsEntriesAndAFileOfAnotherSize) {
  prefix.cut(data_key(checked, 2), 1);
  EXPECT_THAT(damages(), ElementsAre(AllOf(HasSubstr("the file of rank 2 has"), HasSubstr("instead of"),
                                           HasSubstr("model.large, "), HasSubstr("rng.cpu"))));
  prefix.damage(data_key(checked, 2), [](std::vector<std::byte>& content) { content.resize(content.size() + 9); });
  EXPECT_THAT(damages(), ElementsAre(HasSubstr("the file of rank 2 has")));
}

TEST_F(Verify, NamesAMissingFile) {
  ASSERT_TRUE(prefix.store().remove(data_key(checked, 1)));
  EXPECT_THAT(damages(), ElementsAre(HasSubstr("the file of rank 1 is missing; in it: model.large")));
}

TEST_F(Verify, AFileThatVanishesWhileItIsReadIsDamaged) {
  const Inventory before = prefix.inventory();
  ASSERT_TRUE(prefix.store().remove(data_key(checked, 1)));
  EXPECT_THAT(verify(prefix.store(), before, checked)->damages,
              ElementsAre(HasSubstr("rank-1.safetensors is not there")));
}

TEST_F(Verify, NamesAManifestThatIsMissingTornOrAnothers) {
  const auto other = [&](const CheckpointId& of) {
    Manifest wrong = manifest;
    wrong.id = of;
    EXPECT_TRUE(storage::put_text(prefix.store(), manifest_key(checked), to_text(wrong)));
  };
  other({.step = 21, .generation = 1});
  EXPECT_THAT(damages(), ElementsAre("step-20/g-1/manifest.json: it is of another step"));
  other({.step = 20, .generation = 2});
  EXPECT_THAT(damages(), ElementsAre("step-20/g-1/manifest.json: it is of another generation"));
  prefix.cut(manifest_key(checked), 7);
  EXPECT_THAT(damages(), ElementsAre(HasSubstr("step-20/g-1/manifest.json: it is not a JSON object")));
  ASSERT_TRUE(prefix.store().remove(manifest_key(checked)));
  EXPECT_THAT(damages(), ElementsAre(HasSubstr("manifest.json is missing: the checkpoint was never finished")));
}

TEST_F(Verify, NamesEntriesThatTheChunksDoNotHoldExactlyOnce) {
  auto& chunks = manifest.receipts[1].chunks;
  Chunk chunk = chunks.front();
  ASSERT_EQ(chunk.entry, "model.large");
  const auto damages_with = [&](std::vector<Chunk> changed) {
    Manifest wrong = manifest;
    wrong.receipts[1].chunks = std::move(changed);
    prefix.put(wrong);
    return damages();
  };
  std::vector<Chunk> without{chunks.begin() + 1, chunks.end()};
  EXPECT_THAT(damages_with(without), ElementsAre(AllOf(HasSubstr("model.large: rows"), HasSubstr("are in no file"))));
  std::vector<Chunk> twice = chunks;
  twice.push_back(chunk);
  EXPECT_THAT(damages_with(twice), ElementsAre(AllOf(HasSubstr("model.large: rows"), HasSubstr("are there twice"))));
  std::vector<Chunk> unknown = chunks;
  unknown.push_back(chunk);
  unknown.back().entry = "model.strange";
  EXPECT_THAT(damages_with(unknown), ElementsAre(HasSubstr("model.strange is no entry")));
  std::vector<Chunk> outside = chunks;
  outside.back().offset += 1;
  EXPECT_THAT(damages_with(outside), ElementsAre(HasSubstr("would lie beyond the file's end")));
}

TEST_F(Verify, ReadsShardedEntriesAndNamesTheirRows) {
  prefix.extend = [](TestState& state, std::int64_t rank, std::int64_t) {
    state.add_sharded("model.embedding", "F32", {9, 5}, 4, rank == 0 ? Rows{0, 2} : rank == 1 ? Rows{2, 9} : Rows{});
  };
  manifest = prefix.save(checked, 3);
  EXPECT_THAT(damages(), IsEmpty());
  prefix.flip(data_key(checked, 1), static_cast<std::int64_t>(chunk_of(1, "model.embedding").offset) + 100);
  EXPECT_THAT(damages(), ElementsAre(HasSubstr("model.embedding (rows 2 to 9) is damaged")));
  std::erase_if(manifest.receipts[0].chunks, [](const Chunk& chunk) { return chunk.entry == "model.embedding"; });
  prefix.put(manifest);
  EXPECT_THAT(damages(), Contains(HasSubstr("model.embedding: rows 0 to 2 are in no file")));
}

TEST_F(Verify, AStoreThatFailsIsNoDamage) {
  fakes::FaultyStore failing{std::make_unique<fakes::MemoryStore>(objects),
                             [](std::string_view call, std::string_view, storage::Pieces) -> std::optional<Error> {
                               if (call == "get_range") return Error{ErrorKind::unavailable, "no route", std::nullopt};
                               return std::nullopt;
                             }};
  EXPECT_EQ(verify(failing, prefix.inventory(), checked).error().kind, ErrorKind::unavailable);
}

}  // namespace
}  // namespace trainyard::checkpoint
