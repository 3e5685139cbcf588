#include "checkpoint/interchange/export.hpp"

#include <gmock/gmock.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/try.hpp"
#include "tests/checkpoint/interchange/memory_sink.hpp"
#include "tests/checkpoint/interchange/test_prefix.hpp"
#include "tests/fakes/temporary_folder.hpp"

// python_test.cpp tests that Python can read the files.
namespace trainyard::checkpoint {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr CheckpointId id{.step = 20, .generation = 1};

class Export : public MemoryPrefix {
 protected:
  Manifest manifest = prefix.claim(1).save(id, 3);

  std::vector<std::string> names(const ExportChoice& choice) {
    std::vector<std::string> names;
    const auto plan = plan_export(manifest, choice);
    for (const ExportedTensor& tensor : *plan) names.push_back(tensor.name);
    return names;
  }
};

TEST_F(Export, ChoosesTheModelUnderItsOwnNamesWideElementsFirst) {
  EXPECT_THAT(names({}), ElementsAre("steps", "empty", "weight", "large", "odd"));
  EXPECT_THAT(names({.prefix = "o"}), ElementsAre("odd"));
  EXPECT_THAT(names({.is_all = true}),
              ElementsAre("optimizer.complex", "model.steps", "model.empty", "model.weight", "buffer.mean",
                          "model.large", "model.odd", "rng.cpu.rank-0", "rng.cpu.rank-1", "rng.cpu.rank-2"));
  EXPECT_THAT(names({.is_all = true, .prefix = "rng.cpu.rank-1"}), ElementsAre("rng.cpu.rank-1"));
}

TEST_F(Export, RefusesWhatItCannotChooseOrName) {
  EXPECT_EQ(plan_export(manifest, {.prefix = "layer9"}).error().kind, ErrorKind::not_found);
  Manifest other = manifest;
  other.entries[0].dtype = "QInt8";
  EXPECT_THAT(plan_export(other, {}).error().message, HasSubstr("model.weight is of type QInt8"));
  other = manifest;
  other.entries[0].shape = {64, 8};
  EXPECT_THAT(plan_export(other, {}).error().message, HasSubstr("1792 bytes are not those of F32 [64, 8]"));
  other.entries[0].shape = {-1, -1};
  EXPECT_EQ(plan_export(other, {}).error().kind, ErrorKind::corrupt);
  other = manifest;
  for (EntryInfo& entry : other.entries) entry.name = "other." + entry.name;
  EXPECT_THAT(plan_export(other, {}).error().message,
              HasSubstr("holds no model's tensors, whose names begin with model. (its first is other.model.weight): "
                        "export all with --all"));
  EXPECT_EQ(plan_export(other, {.is_all = true, .prefix = "x"}).error().message,
            "no tensor has a name that begins with 'x': `trainyard checkpoints show` lists them");
  EXPECT_EQ(plan_export(other, {.prefix = "x"}).error().message,
            "no tensor of the model has a name that begins with 'x': `trainyard checkpoints show` lists them (here "
            "without their model. in front)");
  other = manifest;
  for (EntryInfo& entry : other.entries) {
    if (entry.name == "buffer.mean") entry.name = "rng.cpu.rank-0";
  }
  for (Receipt& receipt : other.receipts) {
    for (Chunk& chunk : receipt.chunks) {
      if (chunk.entry == "buffer.mean") chunk.entry = "rng.cpu.rank-0";
    }
  }
  const auto twice = plan_export(other, {.is_all = true});
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().kind, ErrorKind::invalid);
  EXPECT_THAT(twice.error().message, HasSubstr("two tensors would be named rng.cpu.rank-0"));
}

TEST_F(Export, PutsRowsOfAllRanksTogetherThroughAnyWindow) {
  const auto plan = plan_export(manifest, {});
  for (const std::uint64_t window_bytes : {1U << 20, 1000U, 7U}) {
    DataStream data{prefix.store(), manifest, window_bytes};
    std::string large;
    ASSERT_TRUE(data.read((*plan)[3].stored, [&](std::span<const std::byte> bytes) -> Result<void> {
      large.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      return {};
    }));
    const TestState expected = state_after(20);
    const auto bytes = expected.entries()[1].bytes;
    ASSERT_EQ(large.size(), bytes.size());
    EXPECT_EQ(std::memcmp(large.data(), bytes.data(), bytes.size()), 0) << window_bytes;
  }
}

TEST_F(Export, PutsTheRanksRowsOfAShardedTensorTogether) {
  prefix.extend = [](TestState& state, std::int64_t rank, std::int64_t) {
    constexpr std::array<Rows, 3> shards = {Rows{6, 9}, Rows{0, 0}, Rows{0, 6}};
    state.add_sharded("model.embedding", "F32", {9, 5}, 4, shards.at(static_cast<std::size_t>(rank)));
  };
  manifest = prefix.save({.step = 30, .generation = 1}, 3);
  const auto plan = plan_export(manifest, {.prefix = "embedding"});
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_THAT(plan->front().shape(), ElementsAre(9, 5));
  DataStream data{prefix.store(), manifest, 50};
  MemorySink sink;
  ASSERT_TRUE(write_safetensors(data, manifest, *plan, sink));
  TestState expected;
  expected.add_sharded("model.embedding", "F32", {9, 5}, 4, {0, 9});
  // The entry has its place in the state, on which the bytes depend.
  expected.set(30);
  const auto bytes = expected.entries().back().bytes;
  EXPECT_EQ(sink.content.substr(sink.content.size() - bytes.size()),
            (std::string{reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
}

TEST_F(Export, SaysWhichTensorsAreNotFinite) {
  const TestState state = state_after(20);
  std::uint64_t of_large = 0;  // BF16: the upper half of a float
  const auto large = state.entries()[1].bytes;
  for (std::size_t at = 0; at < large.size(); at += 2) {
    std::array<std::byte, 4> bytes{{{}, {}, large[at], large[at + 1]}};
    if (!std::isfinite(std::bit_cast<float>(bytes))) ++of_large;
  }
  ASSERT_GT(of_large, 0U);
  const auto plan = plan_export(manifest, {.prefix = "large"});
  for (const std::uint64_t window_bytes : {1U << 20, 999U}) {
    DataStream data{prefix.store(), manifest, window_bytes};
    MemorySink safetensors, torch;
    const std::vector<NonFiniteTensor> expected{{.name = "large", .count = of_large}};
    EXPECT_EQ(write_safetensors(data, manifest, *plan, safetensors).value(), expected);
    EXPECT_EQ(write_torch(data, *plan, torch).value(), expected);
  }
  DataStream data{prefix.store(), manifest};
  MemorySink sink;
  EXPECT_THAT(write_torch(data, *plan_export(manifest, {.prefix = "steps"}), sink).value(), IsEmpty());
}

TEST_F(Export, SaysThatOneElementIsNotFinite) {
  const auto count_in = [](std::span<const std::byte> weight) {
    int found = 0;
    for (std::size_t at = 0; at < weight.size(); at += sizeof(float)) {
      float number = 0;
      std::memcpy(&number, weight.data() + at, sizeof number);
      found += std::isfinite(number) ? 0 : 1;
    }
    return found;
  };
  std::int64_t step = 30;
  while (count_in(state_after(step).entries()[0].bytes) != 1) ++step;
  manifest = prefix.save({.step = step, .generation = 1});
  DataStream data{prefix.store(), manifest};
  MemorySink sink;
  const std::vector<NonFiniteTensor> expected{{.name = "weight", .count = 1}};
  EXPECT_EQ(write_safetensors(data, manifest, *plan_export(manifest, {.prefix = "weight"}), sink).value(), expected);
}

TEST_F(Export, ToSafetensorsBeginsWithAHeaderAndHoldsNothingBesides) {
  DataStream data{prefix.store(), manifest};
  MemorySink sink;
  ASSERT_TRUE(write_safetensors(data, manifest, *plan_export(manifest, {}), sink));
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, sink.content.data(), 8);
  const auto header = nlohmann::json::parse(sink.content.substr(8, header_bytes));
  EXPECT_EQ(header["__metadata__"]["step"], "20");
  EXPECT_EQ(header["large"]["shape"], (nlohmann::json{1100, 512}));
  EXPECT_EQ(sink.content.size(), 8 + header_bytes + header["odd"]["data_offsets"][1].get<std::uint64_t>());
}

TEST_F(Export, ToSafetensorsRefusesATypeThatTheFormatLacksByName) {
  DataStream data{prefix.store(), manifest};
  MemorySink sink;
  const auto refused = write_safetensors(data, manifest, *plan_export(manifest, {.is_all = true}), sink);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("optimizer.complex is complex128"));
  EXPECT_EQ(sink.content, "");
}

TEST_F(Export, ToSafetensorsRefusesTheNameThatTheFormatKeeps) {
  auto plan = plan_export(manifest, {});
  ASSERT_TRUE(plan);
  plan->front().name = "__metadata__";
  DataStream data{prefix.store(), manifest};
  MemorySink sink;
  const auto refused = write_safetensors(data, manifest, *plan, sink);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::invalid);
  EXPECT_EQ(sink.content, "");
}

TEST_F(Export, FailsOnADamagedByteAndOnAFullDiskWhereverItIsFull) {
  const auto plan = plan_export(manifest, {});
  MemorySink whole;
  DataStream good{prefix.store(), manifest};
  ASSERT_TRUE(write_torch(good, *plan, whole));
  for (const std::size_t bytes_max : {0UL, 100UL, 5000UL, whole.content.size() / 2, whole.content.size() - 1}) {
    MemorySink full{bytes_max};
    DataStream data{prefix.store(), manifest};
    EXPECT_EQ(write_torch(data, *plan, full).error().kind, ErrorKind::io) << bytes_max;
  }
  const auto& chunks = manifest.receipts[2].chunks;
  const auto large =
      std::find_if(chunks.begin(), chunks.end(), [](const Chunk& c) { return c.entry == "model.large"; });
  prefix.flip(data_key(id, 2), static_cast<std::int64_t>(large->offset));
  MemorySink sink;
  DataStream data{prefix.store(), manifest};
  const auto damaged = write_torch(data, *plan, sink);
  ASSERT_FALSE(damaged);
  EXPECT_EQ(damaged.error().kind, ErrorKind::corrupt);
  EXPECT_THAT(damaged.error().message, HasSubstr("rank-2.safetensors: the checksum of model.large does not match"));
}

TEST_F(Export, EqualTensorsGiveEqualFiles) {
  const auto plan = plan_export(manifest, {.is_all = true});
  MemorySink one;
  MemorySink two;
  DataStream data{prefix.store(), manifest};
  DataStream narrow{prefix.store(), manifest, 999};
  ASSERT_TRUE(write_torch(data, *plan, one));
  ASSERT_TRUE(write_torch(narrow, *plan, two));
  EXPECT_EQ(one.content, two.content);
}

class ANewFile : public testing::Test {
 protected:
  const fakes::TemporaryFolder folder;
  const std::string path = folder.file("model.pt").string();

  Result<void> write(std::string_view text, bool may_replace) {
    auto file = TRY(NewFile::create(path, may_replace));
    return file.write(std::as_bytes(std::span{text})).and_then([&] { return file.commit(); });
  }
  std::size_t file_count() {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator{folder.path()}, {}));
  }
};

TEST_F(ANewFile, IsThereWholeOrNotAtAllAndReplacesOnlyWithForce) {
  {
    auto file = NewFile::create(path, false);
    ASSERT_TRUE(file && file->write(std::as_bytes(std::span{std::string_view{"half"}})));
    EXPECT_FALSE(std::filesystem::exists(path));
  }
  EXPECT_EQ(file_count(), 0U);
  ASSERT_TRUE(write("one", false));
  EXPECT_EQ(write("two", false).error().kind, ErrorKind::already_exists);
  EXPECT_EQ(fakes::text_of(path), "one");
  ASSERT_TRUE(write("two", true));
  EXPECT_EQ(fakes::text_of(path), "two");
  EXPECT_EQ(file_count(), 1U);
}

TEST_F(ANewFile, DoesNotReplaceWhatAppearedMeanwhile) {
  auto file = NewFile::create(path, false);
  ASSERT_TRUE(file);
  folder.write("model.pt", "another's");
  EXPECT_EQ(file->commit().error().kind, ErrorKind::already_exists);
  EXPECT_EQ(fakes::text_of(path), "another's");
}

TEST_F(ANewFile, MayBePatched) {
  auto file = NewFile::create(path, false);
  ASSERT_TRUE(file);
  const auto bytes_of = [](std::string_view text) { return std::as_bytes(std::span{text}); };
  ASSERT_TRUE(file->write(bytes_of("one ??? three")));
  ASSERT_TRUE(file->patch(4, bytes_of("two")));
  ASSERT_TRUE(file->write(bytes_of(" four")));
  ASSERT_TRUE(file->commit());
  EXPECT_EQ(fakes::text_of(path), "one two three four");
}

TEST_F(ANewFile, MayHaveTheLongestNameThatAFileSystemTakes) {
  const std::string longest = folder.file(std::string(255, 'n')).string();
  auto file = NewFile::create(longest, false);
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_TRUE(file->commit());
  EXPECT_TRUE(std::filesystem::exists(longest));
}

TEST(FolderOf, IsTheOneBeforeTheLastSlash) {
  EXPECT_EQ(folder_of("model.pt"), ".");
  EXPECT_EQ(folder_of("/model.pt"), "/");
  EXPECT_EQ(folder_of("a/b/model.pt"), "a/b");
  const std::string hidden = hidden_name_beside("a/model.pt");
  EXPECT_TRUE(hidden.starts_with("a/.model.pt.tmp-")) << hidden;
  EXPECT_NE(hidden, hidden_name_beside("a/model.pt"));
}

TEST_F(ANewFile, SaysWhichFolderIsNotThereOrThatItIsOne) {
  EXPECT_THAT(NewFile::create(folder.path() + "/no/model.pt", false).error().message,
              HasSubstr("there is no folder " + folder.path() + "/no"));
  EXPECT_EQ(NewFile::create(folder.path(), true).error().kind, ErrorKind::invalid);
}

}  // namespace
}  // namespace trainyard::checkpoint
