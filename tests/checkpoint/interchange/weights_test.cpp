#include "checkpoint/interchange/weights.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "checkpoint/format/safetensors.hpp"
#include "checkpoint/interchange/entry_names.hpp"
#include "checkpoint/interchange/export.hpp"
#include "tests/checkpoint/interchange/memory_sink.hpp"
#include "tests/checkpoint/interchange/test_prefix.hpp"
#include "tests/fakes/faulty_store.hpp"
#include "tests/fakes/temporary_folder.hpp"

namespace trainyard::checkpoint {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(ParseWeightsPlace, DistinguishesFilesFromCheckpoints) {
  EXPECT_EQ(parse_weights_place("s3://models/a/b.safetensors"),
            (WeightsPlace{.prefix_uri = "s3://models/a", .file = "b.safetensors", .id = {}}));
  EXPECT_EQ(parse_weights_place("https://example.com/b.safetensors"),
            (WeightsPlace{.prefix_uri = "https://example.com", .file = "b.safetensors", .id = {}}));
  EXPECT_EQ(parse_weights_place("command:/opt/fetch?folder=/cache/b.safetensors"),
            (WeightsPlace{.prefix_uri = "command:/opt/fetch?folder=/cache", .file = "b.safetensors", .id = {}}));
  EXPECT_EQ(parse_weights_place("file:///models/a/step-600/g-1/"),
            (WeightsPlace{.prefix_uri = "file:///models/a", .file = "", .id = CheckpointId{600, 1}}));
  EXPECT_EQ(parse_weights_place("s3://models"), (WeightsPlace{.prefix_uri = "s3://models", .file = "", .id = {}}));
}

TEST(EntryNames, ArePutIntoTheModelUnlessTheyAreThereAlready) {
  EXPECT_THAT(entry_names(std::vector<std::string>{"fc.weight", "fc.bias"}),
              ElementsAre("model.fc.weight", "model.fc.bias"));
  EXPECT_THAT(entry_names(std::vector<std::string>{"model.fc.weight", "model.fc.bias"}),
              ElementsAre("model.fc.weight", "model.fc.bias"));
  EXPECT_THAT(entry_names(std::vector<std::string>{"model.fc.weight", "optimizer.step", "rng.cpu"}),
              ElementsAre("model.fc.weight", std::nullopt, std::nullopt));
  // A module with a part of that name.
  EXPECT_THAT(entry_names(std::vector<std::string>{"model.fc.weight", "head.weight"}),
              ElementsAre("model.model.fc.weight", "model.head.weight"));
  EXPECT_THAT(entry_names(std::vector<std::string>{"optimizer.weight"}), ElementsAre("model.optimizer.weight"));
  EXPECT_THAT(entry_names(std::vector<std::string>{}), ElementsAre());
}

TEST(EntryNames, OfAWholeCheckpointAreTheModelsAlone) {
  for (const std::string_view prefix :
       {optimizer_prefix, random_prefix, ema_prefix, scaler_prefix, strategy_prefix, callback_prefix}) {
    const std::string other = std::string{prefix} + "x";
    EXPECT_THAT(entry_names(std::vector<std::string>{"model.w", other}), ElementsAre("model.w", std::nullopt)) << other;
  }
}

// Another job's checkpoints, of two ranks, of steps 10 and 20; and a model that begins with weights of them.
class Weights : public MemoryPrefix {
 protected:
  TestState state;
  std::vector<HostEntry> model;
  WeightsPlace place;
  std::set<std::string> aliases;

  void SetUp() override {
    prefix.claim(1);
    prefix.save({10, 1}, 2);
    prefix.save({20, 1}, 2);
    for (const HostEntry& entry : state.entries()) {
      if (entry.info.name.starts_with(model_prefix)) model.push_back(entry);
    }
    before_ = objects.objects;
  }

  Result<LoadedWeights> load() { return load_weights(prefix.store(), place, model, aliases); }

  void expect_loaded(std::int64_t step) {
    const auto loaded = load();
    ASSERT_TRUE(loaded) << loaded.error().message;
    const TestState expected = state_after(step);
    const TestState untouched;
    for (std::size_t i = 0; i < expected.entries().size(); ++i) {
      const bool is_model = expected.entries()[i].info.name.starts_with(model_prefix);
      const auto bytes = (is_model ? expected : untouched).entries()[i].bytes;
      EXPECT_TRUE(std::ranges::equal(bytes, state.entries()[i].bytes)) << expected.entries()[i].info.name;
    }
  }
  void expect_refused(ErrorKind kind, const testing::Matcher<std::string>& message) {
    const auto loaded = load();
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().kind, kind);
    EXPECT_THAT(loaded.error().message, message);
  }
  /// Puts what `choice` exports of step 20 beside the checkpoints, and makes it the place.
  void export_to_file(const ExportChoice& choice) {
    auto manifest = storage::get_text(prefix.store(), manifest_key({20, 1})).and_then(parse_manifest);
    ASSERT_TRUE(manifest);
    // Complex numbers of this size are not in the format, and no trainer's entries are called like the other.
    std::erase_if(manifest->entries,
                  [](const EntryInfo& info) { return info.name == "optimizer.complex" || info.name == "buffer.mean"; });
    const auto plan = plan_export(*manifest, choice);
    ASSERT_TRUE(plan) << plan.error().message;
    DataStream data{prefix.store(), *manifest};
    MemorySink sink;
    ASSERT_TRUE(write_safetensors(data, *manifest, *plan, sink));
    put_file(sink.content);
  }
  void put_file(const std::string& content) {
    ASSERT_TRUE(storage::put_text(prefix.store(), "w.safetensors", content));
    place.file = "w.safetensors";
    before_ = objects.objects;
  }
  std::string file_content() { return storage::get_text(prefix.store(), "w.safetensors").value(); }

  void TearDown() override { EXPECT_EQ(objects.objects, before_) << "it is only read"; }

  std::map<std::string, std::vector<std::byte>, std::less<>> before_;
};

TEST_F(Weights, AreThoseOfTheNewestCurrentCheckpoint) {
  expect_loaded(20);
  EXPECT_EQ(load()->uri, "memory://step-20/g-1");
}

TEST_F(Weights, AreThoseOfTheCheckpointThatIsNamed) {
  place.id = CheckpointId{10, 1};
  expect_loaded(10);
}

TEST_F(Weights, AreThoseOfTheOneBeforeADamagedOne) {
  prefix.flip(data_key(CheckpointId{20, 1}, 1), -1);
  before_ = objects.objects;
  expect_loaded(20);  // The last bytes are rank 1's random generator: nobody's weights.
  const auto chunks =
      storage::get_text(prefix.store(), manifest_key({20, 1})).and_then(parse_manifest)->receipts.at(1).chunks;
  const auto large = std::ranges::find_if(chunks, [](const Chunk& chunk) { return chunk.entry == "model.large"; });
  ASSERT_NE(large, chunks.end());
  prefix.flip(data_key(CheckpointId{20, 1}, 1), static_cast<std::int64_t>(large->offset));
  before_ = objects.objects;
  expect_loaded(10);
  EXPECT_THAT(load()->skipped, ElementsAre(HasSubstr("memory://step-20/g-1/rank-1.safetensors")));
  place.id = CheckpointId{20, 1};
  expect_refused(ErrorKind::corrupt, HasSubstr("memory://step-20/g-1: no checkpoint there is whole. The newest: "));
}

TEST_F(Weights, MayHaveBeenCutOverTheRanks) {
  prefix.extend = [](TestState& extended, std::int64_t rank, std::int64_t) {
    extended.add_sharded("model.embedding", "F32", {9, 5}, 4, rank == 0 ? Rows{4, 9} : Rows{0, 4});
  };
  prefix.save({30, 1}, 2);
  before_ = objects.objects;
  std::vector<std::byte> bytes(9 * 5 * 4);
  model.push_back(
      {.info = {.name = "model.embedding", .dtype = "F32", .shape = {9, 5}, .bytes = bytes.size()}, .bytes = bytes});
  const auto loaded = load();
  ASSERT_TRUE(loaded) << loaded.error().message;
  TestState expected;
  expected.add_sharded("model.embedding", "F32", {9, 5}, 4, {0, 9});
  expected.set(30);
  EXPECT_TRUE(std::ranges::equal(bytes, expected.entries().back().bytes));
}

TEST_F(Weights, AreReadFromAFileOfAStateDictOrOfAWholeCheckpoint) {
  for (const ExportChoice& choice : {ExportChoice{}, ExportChoice{.is_all = true}}) {
    export_to_file(choice);
    expect_loaded(20);
    EXPECT_EQ(load()->uri, "memory://w.safetensors");
    place.file.clear();
    place.id = CheckpointId{10, 1};
    expect_loaded(10);
    place.id.reset();
  }
}

TEST_F(Weights, AreReadFromAFileWhoseModuleHasAPartNamedModel) {
  export_to_file({});
  std::string content = file_content();
  for (HostEntry& entry : model) {
    const std::string name = "\"" + entry.info.name.substr(model_prefix.size()) + "\":";
    const std::size_t at = content.find(name);
    ASSERT_NE(at, std::string::npos);
    content.insert(at + 1, "model.");
    entry.info.name = "model." + entry.info.name;
  }
  const std::uint64_t length = content.find("}}") + 2 - 8;
  std::memcpy(content.data(), &length, sizeof length);
  // The padding that the header no longer has.
  while (content[8 + length] == ' ') content.erase(8 + length, 1);
  put_file(content);
  expect_loaded(20);
}

TEST_F(Weights, AreReadByFewRequestsEachByteOnce) {
  export_to_file({});
  std::uint64_t bytes = 0;
  int reads = 0;
  fakes::FaultyStore counting{
      std::make_unique<fakes::MemoryStore>(objects),
      [&](std::string_view call, std::string_view, storage::Pieces pieces) -> std::optional<Error> {
        EXPECT_EQ(call, "get_range");
        ++reads;
        bytes += pieces.front().size();
        return std::nullopt;
      }};
  ASSERT_TRUE(load_weights(counting, place, model));
  EXPECT_EQ(reads, 3) << "length, header, tensors";
  EXPECT_EQ(bytes, file_content().size());
}

TEST_F(Weights, ThatDoNotFitAreListed) {
  model[0].info.shape = {7, 64};
  model[1].info.dtype = "F16";
  model[2].info.name = "model.other";
  const auto message =
      AllOf(HasSubstr("memory://step-20/g-1 does not fit this model: model.weight is F32 [64, 7] in it, and F32 [7, "
                      "64] here; model.large is BF16 [1100, 512] in it, and F16 [1100, 512] here; model.other is not "
                      "in it; model.steps is only in it"),
            Not(HasSubstr("more")));
  expect_refused(ErrorKind::invalid, message);
  aliases = {"model.steps"};
  expect_refused(ErrorKind::invalid, Not(HasSubstr("model.steps")));
}

TEST_F(Weights, OfAnotherModelAreListedUpToFive) {
  for (HostEntry& entry : model) entry.info.name += ".x";
  const auto five =
      AllOf(HasSubstr("model.weight.x is not in it; "), HasSubstr("; model.empty.x is not in it; and 5 more"));
  expect_refused(ErrorKind::invalid, five);
  export_to_file({});
  expect_refused(ErrorKind::invalid, AllOf(HasSubstr("memory://w.safetensors does not fit this model: "), five));
}

TEST_F(Weights, ThatAreNotThereAreNamed) {
  place.file = "no.safetensors";
  expect_refused(ErrorKind::not_found, HasSubstr("memory://no.safetensors"));
  place.file.clear();
  objects.objects.clear();
  before_.clear();
  expect_refused(ErrorKind::not_found, HasSubstr("memory://: there is no complete checkpoint"));
}

TEST_F(Weights, OfAFileThatIsCutOffAreRefused) {
  export_to_file({});
  const std::string whole = file_content();
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{7}, std::size_t{20}, whole.size() - 1}) {
    put_file(whole.substr(0, bytes));
    expect_refused(ErrorKind::corrupt, HasSubstr("memory://w.safetensors"));
  }
}

TEST_F(Weights, AreTakenFromAFileOfTheDigestThatIsAskedFor) {
  export_to_file({});
  Sha256 digest;
  const std::string content = file_content();
  digest.add(std::as_bytes(std::span{content}));
  place.sha256 = digest.finish();
  expect_loaded(20);
  for (const std::size_t changed : {std::size_t{20}, file_content().size() / 2, file_content().size() - 1}) {
    const std::string whole = file_content();
    std::string other = whole;
    other[changed] ^= 1;
    put_file(other);
    const auto loaded = load();
    ASSERT_FALSE(loaded) << "byte " << changed;
    put_file(whole);
  }
  std::string other = file_content();
  other.back() ^= 1;
  put_file(other);
  expect_refused(ErrorKind::corrupt, AllOf(HasSubstr("memory://w.safetensors: its SHA-256 is "),
                                           HasSubstr(" and " + place.sha256 + " was asked for")));
}

TEST_F(Weights, OfADigestAreNoCheckpoints) {
  place.sha256 = std::string(64, '0');
  expect_refused(ErrorKind::invalid,
                 HasSubstr("memory:// is not a .safetensors file, and weightsSha256 is the digest of one"));
}

// 17 MiB each: together they are more than is read at a time.
class LargeWeights : public Weights {
 protected:
  static constexpr std::size_t tensor_bytes = std::size_t{17} << 20;

  void SetUp() override {
    std::vector<SafetensorsTensor> tensors;
    for (const char* name : {"a", "b"}) {
      tensors.push_back(
          {.name = name, .dtype = "U8", .shape = {static_cast<std::int64_t>(tensor_bytes)}, .bytes = tensor_bytes});
      auto& into = bytes_.emplace_back(tensor_bytes);
      model.push_back({.info = {.name = fmt::format("model.{}", name),
                                .dtype = "U8",
                                .shape = {static_cast<std::int64_t>(tensor_bytes)},
                                .bytes = tensor_bytes},
                       .bytes = into});
    }
    content_ = safetensors_header(tensors, {}) + std::string(2 * tensor_bytes, '\0');
    for (std::size_t i = content_.size() - 2 * tensor_bytes; i < content_.size(); i += 4'093)
      content_[i] = static_cast<char>(i / 4'093);
    put_file(content_);
  }
  [[nodiscard]] std::string loaded() const {
    std::string text;
    for (const auto& bytes : bytes_) text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return text;
  }

  std::vector<std::vector<std::byte>> bytes_;
  std::string content_;
};

TEST_F(LargeWeights, AreReadWithAndWithoutADigest) {
  const std::string expected = content_.substr(content_.size() - 2 * tensor_bytes);
  ASSERT_TRUE(load());
  EXPECT_TRUE(loaded() == expected);
  for (auto& bytes : bytes_) std::ranges::fill(bytes, std::byte{1});
  Sha256 digest;
  digest.add(std::as_bytes(std::span{content_}));
  place.sha256 = digest.finish();
  const auto again = load();
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_TRUE(loaded() == expected);
}

TEST(Sha256Digest, IsThatOfTheStandard) {
  Sha256 digest;
  for (const std::string_view piece : {"a", "bc"}) digest.add(std::as_bytes(std::span{piece}));
  EXPECT_EQ(digest.finish(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_F(Weights, ThatAreAwayAreNoDamage) {
  fakes::FaultyStore away{std::make_unique<fakes::MemoryStore>(objects),
                          [](std::string_view, std::string_view, storage::Pieces) -> std::optional<Error> {
                            return Error{ErrorKind::unavailable, "no route", std::nullopt};
                          }};
  EXPECT_EQ(load_weights(away, place, model).error().kind, ErrorKind::unavailable);
  place.file = "w.safetensors";
  EXPECT_EQ(load_weights(away, place, model).error().kind, ErrorKind::unavailable);
}

TEST_F(Weights, OfTheNewestCheckpointAreNotReplacedByOlderOnesWhileItsDataIsAway) {
  fakes::FaultyStore away{std::make_unique<fakes::MemoryStore>(objects),
                          [](std::string_view call, std::string_view key, storage::Pieces) -> std::optional<Error> {
                            if (call != "get_range" || !key.starts_with("step-20/")) return std::nullopt;
                            return Error{ErrorKind::unavailable, "no route", std::nullopt};
                          }};
  const auto loaded = load_weights(away, place, model);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().kind, ErrorKind::unavailable);
}

TEST_F(Weights, AreFoundByTheirUri) {
  const fakes::TemporaryFolder folder;
  export_to_file({});
  folder.write("w.safetensors", file_content());
  ASSERT_TRUE(load_weights(folder.uri() + "/w.safetensors", {}, model));
  EXPECT_EQ(load_weights(folder.uri() + "/no.safetensors", {}, model).error().kind, ErrorKind::not_found);
  EXPECT_EQ(load_weights("ftp://models/w.safetensors", {}, model).error().kind, ErrorKind::invalid);
  for (const char* name : {"w.pt", "w.pth", "w.bin"}) {
    folder.write(name, "what torch.save() wrote");
    const auto of_python = load_weights(fmt::format("{}/{}", folder.uri(), name), {}, model);
    ASSERT_FALSE(of_python.has_value());
    EXPECT_THAT(of_python.error().message,
                HasSubstr("Weights are a .safetensors file or checkpoints; `trainyard checkpoints import` makes"));
  }
  EXPECT_THAT(load_weights(folder.uri() + "/none", {}, model).error().message, Not(HasSubstr("Weights are a")));
  EXPECT_EQ(load_weights(folder.uri() + "/w.safetensors", {}, model, {}, std::string(64, '0')).error().kind,
            ErrorKind::corrupt)
      << "the digest is passed on";
}

}  // namespace
}  // namespace trainyard::checkpoint
