#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <utility>
#include <vector>

#include "checkpoint/format/data_file.hpp"
#include "checkpoint/run/copy_entries.hpp"
#include "checkpoint/run/state_reading.hpp"
#include "checkpoint/run/store_options.hpp"
#include "tests/fakes/memory_store.hpp"

// Things that do not fit together: a checkpoint and the model that is to read it, a manifest and its own files, a state
// and the copies on the nodes.

namespace trainyard::checkpoint {
namespace {

using testing::HasSubstr;

EntryInfo matrix(std::string name, std::int64_t row_count, Placement placement = Placement::replicated) {
  return {.name = std::move(name),
          .placement = placement,
          .dtype = "F32",
          .shape = {row_count, 2},
          .bytes = static_cast<std::uint64_t>(row_count) * 8};
}

/// An entry "weight" of four rows, as a single rank has saved it.
class SavedWeight {
 public:
  SavedWeight() {
    manifest.receipts.push_back(*write_share(store_, manifest, 0, 1, std::vector{entry(manifest.entries[0])}));
  }
  HostEntry entry(EntryInfo info) {
    return {.info = std::move(info),
            .bytes = std::span{bytes_}.first(std::min<std::size_t>(info.bytes, bytes_.size()))};
  }
  Result<void> read() { return read_state(store_, manifest, 0, std::vector{entry(matrix("weight", 4))}); }

  Manifest manifest{.id = {.step = 20, .generation = 1}, .entries = {matrix("weight", 4)}};

 private:
  fakes::MemoryObjects objects_;
  fakes::MemoryStore store_{objects_};
  std::vector<std::byte> bytes_ = std::vector<std::byte>(256);
};

TEST(ACheckpoint, OfAnotherModelSaysWhatDiffers) {
  const std::string begin = "the checkpoint of step 20 does not fit this model: ";
  struct Row {
    std::vector<EntryInfo> entries;
    std::string fault;
  };
  EntryInfo half = matrix("weight", 4);
  half.dtype = "F16";
  const std::vector<Row> rows = {
      {{matrix("weight", 4)}, ""},
      {{matrix("weight", 4), matrix("random", 1, Placement::per_rank)}, ""},
      {{matrix("weight", 4), matrix("bias", 1)}, begin + "bias is not in it"},
      {{matrix("weight", 4, Placement::rank0)}, begin + "weight is replicated in it, and rank0 here"},
      {{matrix("weight", 5)}, begin + "weight is F32 [4, 2] in it, and F32 [5, 2] here"},
      {{half}, begin + "weight is F32 [4, 2] in it, and F16 [4, 2] here"},
      {{}, begin + "weight is only in it"},
  };
  for (const Row& row : rows) {
    SavedWeight saved;
    std::vector<HostEntry> entries;
    for (const EntryInfo& info : row.entries) entries.push_back(saved.entry(info));
    const auto checked = check_entries(saved.manifest, entries);
    EXPECT_EQ(checked ? Error{} : checked.error(), row.fault.empty() ? Error{} : (Error{ErrorKind::invalid, row.fault}))
        << row.fault;
  }
}

TEST(ACheckpoint, WhoseManifestContradictsItselfIsDamaged) {
  struct Row {
    std::string fault;
    std::function<void(Manifest&, Chunk&)> change;
  };
  const std::string sizes = "the manifest's sizes contradict each other";
  const std::string part = "the manifest leaves out a part of weight";
  const std::vector<Row> rows = {
      {"the manifest names an unknown entry", [](Manifest&, Chunk& chunk) { chunk.entry = "another"; }},
      {sizes, [](Manifest&, Chunk& chunk) { chunk.row_end = 5; }},
      {sizes, [](Manifest&, Chunk& chunk) { chunk.row_end = 3; }},
      {sizes, [](Manifest&, Chunk& chunk) { chunk.bytes = 31; }},
      {sizes, [](Manifest&, Chunk& chunk) { chunk = {.entry = "weight", .row_begin = 9, .row_end = 9}; }},
      {part, [](Manifest& manifest, Chunk&) { manifest.receipts[0].chunks.clear(); }},
      {part, [](Manifest& manifest, Chunk& chunk) { manifest.receipts[0].chunks.push_back(Chunk{chunk}); }},
      {"the checksum of weight does not match", [](Manifest&, Chunk& chunk) { chunk.crc32c += 1; }},
  };
  EXPECT_TRUE(SavedWeight{}.read());
  for (const Row& row : rows) {
    SavedWeight saved;
    row.change(saved.manifest, saved.manifest.receipts[0].chunks[0]);
    const auto read = saved.read();
    ASSERT_FALSE(read) << row.fault;
    EXPECT_EQ(read.error().kind, ErrorKind::corrupt) << row.fault;
    EXPECT_THAT(read.error().message, HasSubstr(row.fault));
  }
}

TEST(CheckFitsCopies, TakesNoShardedEntryAndNoLargeOneOfEachRank) {
  const auto fault = [](Placement placement, std::uint64_t bytes) -> std::string {
    const HostEntry entry{.info = {.name = "random", .placement = placement, .bytes = bytes}};
    const auto fits = check_fits_copies(std::span{&entry, 1});
    return fits ? "" : fits.error().message;
  };
  EXPECT_EQ(fault(Placement::per_rank, 1 << 20), "");
  EXPECT_EQ(fault(Placement::per_rank, (1 << 20) + 1),
            "checkpoint.local cannot keep random and the like: each rank has 1048577 bytes of state of its own, and up "
            "to 1048576 are kept on every node; leave checkpoint.local out, or the setting that makes each rank keep "
            "such state");
  const HostEntry half{.info = {.name = "error", .placement = Placement::per_rank, .bytes = (1 << 19) + 1}};
  EXPECT_FALSE(check_fits_copies(std::vector{half, half})) << "together they are too large";
  EXPECT_EQ(fault(Placement::replicated, 1 << 30), "");
  EXPECT_EQ(fault(Placement::sharded, 8),
            "checkpoint.local cannot keep random, which the ranks hold in parts: leave checkpoint.local out");
}

TEST(OptionsOf, HasEachFieldOfTheSpec) {
  const storage::S3Options options = options_of({.endpoint = "https://storage.example",
                                                 .region = "eu-central-1",
                                                 .path_style = false,
                                                 .server_side_encryption = "aws:kms",
                                                 .kms_key_id = "key-1"});
  EXPECT_EQ(options.endpoint, "https://storage.example");
  EXPECT_EQ(options.region, "eu-central-1");
  EXPECT_EQ(options.path_style, false);
  EXPECT_EQ(options.sse, "aws:kms");
  EXPECT_EQ(options.sse_kms_key_id, "key-1");
}

}  // namespace
}  // namespace trainyard::checkpoint
