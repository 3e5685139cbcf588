#include "checkpoint/interchange/stored_tensor.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace trainyard::checkpoint {
namespace {

// Rows of 8 bytes.
Chunk rows_of(std::string entry, std::uint64_t begin, std::uint64_t end) {
  return {.entry = std::move(entry), .row_begin = begin, .row_end = end, .offset = 0, .bytes = (end - begin) * 8};
}

Manifest holding(EntryInfo info, std::vector<Chunk> chunks) {
  return {.id = {.step = 20, .generation = 1},
          .entries = {std::move(info)},
          .receipts = {{.rank = 0, .bytes = 1'000, .crc32c = 0, .chunks = std::move(chunks)}}};
}

EntryInfo ten_rows() {
  return {.name = "w", .dtype = "F32", .shape = {10, 2}, .bytes = 80};
}

TEST(StoredTensors, SayHowTheManifestContradictsItself) {
  Chunk short_one = rows_of("w", 0, 10);
  short_one.bytes = 72;
  Chunk backwards = rows_of("w", 0, 0);
  backwards.row_begin = 3;
  struct Row {
    std::vector<Chunk> chunks;
    std::string fault;
  };
  const std::vector<Row> rows = {
      {{rows_of("w", 0, 10)}, ""},
      {{rows_of("w", 4, 10), rows_of("w", 0, 4)}, ""},
      {{rows_of("w", 0, 4), rows_of("w", 4, 4), rows_of("w", 4, 10)}, ""},
      {{}, "rows 0 to 10 are in no file"},
      {{rows_of("w", 1, 10)}, "rows 0 to 1 are in no file"},
      {{rows_of("w", 0, 4), rows_of("w", 5, 10)}, "rows 4 to 5 are in no file"},
      {{rows_of("w", 0, 9)}, "rows 9 to 10 are in no file"},
      {{rows_of("w", 0, 5), rows_of("w", 4, 10)}, "rows 4 to 5 are there twice"},
      {{rows_of("w", 0, 11)}, "the sizes of rows 0 to 11 contradict each other"},
      {{short_one}, "the sizes of rows 0 to 10 contradict each other"},
      {{backwards}, "the sizes of rows 3 to 0 contradict each other"},
  };
  for (const Row& row : rows) {
    const auto tensors = stored_tensors(holding(ten_rows(), row.chunks));
    ASSERT_EQ(tensors.size(), 1U);
    EXPECT_EQ(tensors[0].fault, row.fault);
  }
}

TEST(StoredTensors, HaveTheBytesOfTheirShape) {
  struct Row {
    std::string dtype;
    std::vector<std::int64_t> shape;
    std::uint64_t bytes;
    bool is_good;
  };
  const std::vector<Row> rows = {
      {"F32", {10, 2}, 80, true},   {"F32", {10, 2}, 79, false},   {"F32", {0, 2}, 0, true},
      {"F32", {0, 2}, 8, false},    {"F32", {-1, 2}, 0, false},    {"F32", {INT64_MAX, 4}, 0, false},
      {"QInt8", {10, 2}, 60, true}, {"QInt8", {10, 2}, 70, false}, {"QInt8", {0, 2}, 0, true},
      {"QInt8", {0, 2}, 7, false},
  };
  for (const Row& row : rows) {
    const EntryInfo info{.name = "w", .dtype = row.dtype, .shape = row.shape, .bytes = row.bytes};
    const auto tensors = stored_tensors(holding(info, {}));
    ASSERT_EQ(tensors.size(), 1U);
    EXPECT_EQ(tensors[0].fault.find("bytes are not those of") == std::string::npos, row.is_good) << tensors[0].fault;
  }
}

TEST(StoredTensors, OfEachRankHaveItsNumber) {
  Manifest manifest =
      holding({.name = "rng", .placement = Placement::per_rank, .dtype = "U8", .shape = {8}, .bytes = 8},
              {{.entry = "rng", .row_begin = 0, .row_end = 8, .offset = 0, .bytes = 8}});
  manifest.receipts.push_back({.rank = 1, .bytes = 1'000, .crc32c = 0, .chunks = {}});
  const auto tensors = stored_tensors(manifest);
  ASSERT_EQ(tensors.size(), 2U);
  EXPECT_EQ(tensors[0].name(), "rng.rank-0");
  EXPECT_EQ(tensors[0].fault, "");
  EXPECT_EQ(tensors[1].name(), "rng.rank-1");
  EXPECT_EQ(tensors[1].fault, "rows 0 to 8 are in no file") << "it is not rank 0's";
}

TEST(StrayChunks, AreThoseOfNoEntryAndThoseBeyondTheirFile) {
  Chunk last = rows_of("w", 0, 10);
  last.offset = 920;
  EXPECT_TRUE(stray_chunks(holding(ten_rows(), {last})).empty());
  last.offset = 921;
  const std::string file = "step-20/g-1/rank-0.safetensors";
  EXPECT_EQ(stray_chunks(holding(ten_rows(), {last})),
            std::vector<std::string>{file + ": w would lie beyond the file's end"});
  last.offset = UINT64_MAX;
  EXPECT_EQ(stray_chunks(holding(ten_rows(), {last})).size(), 1U) << "the sum overflows";
  last = rows_of("v", 0, 126);
  EXPECT_EQ(stray_chunks(holding(ten_rows(), {last})),
            (std::vector<std::string>{file + ": v is no entry of the manifest",
                                      file + ": v would lie beyond the file's end"}));
}

}  // namespace
}  // namespace trainyard::checkpoint
