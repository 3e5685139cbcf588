#include "worker/train/prediction_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstring>
#include <string>

#include "checkpoint/interchange/safetensors_file.hpp"
#include "include/trainyard/options.hpp"
#include "tests/fakes/faulty_store.hpp"
#include "tests/fakes/memory_store.hpp"

namespace trainyard::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Batch a_batch_of(const std::vector<std::int64_t>& ids) {
  return {.inputs = {}, .targets = {}, .ids = torch::tensor(ids, torch::kLong)};
}

std::string refused_rows(PredictionFiles& files, const Batch& batch,
                         const std::map<std::string, torch::Tensor>& values) {
  try {
    (void)files.add(batch, values);
  } catch (const InvalidJob& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(PredictionFiles, HoldTheRowsAndTheNumbersOfTheirSamples) {
  fakes::MemoryObjects objects;
  fakes::MemoryStore store{objects};
  PredictionFiles files{store, {.rank = 1, .world_size = 2}};
  ASSERT_TRUE(files.add(a_batch_of({1, 3}), {{"class", torch::tensor({7, 8}, torch::kLong)}}));
  ASSERT_TRUE(files.add(a_batch_of({5}), {{"class", torch::tensor({9}, torch::kLong)}}));
  ASSERT_TRUE(files.finish());
  ASSERT_TRUE(files.finish());  // Nothing is left.
  EXPECT_THAT(files.files(),
              ElementsAre(PredictionFile{.key = "predictions/rank-1-of-2-part-0.safetensors", .samples = 3}));

  const std::string content = storage::get_text(store, files.files()[0].key).value();
  const std::uint64_t length = *checkpoint::read_safetensors_length(content.substr(0, 8));
  const auto entries = checkpoint::parse_safetensors_header(content.substr(8, length)).value();
  std::map<std::string, std::vector<std::int64_t>> numbers;
  for (const auto& entry : entries) {
    EXPECT_EQ(entry.dtype.name, "I64");
    numbers[entry.name].resize(entry.bytes / 8);
    std::memcpy(numbers[entry.name].data(), content.data() + entry.offset, entry.bytes);
  }
  EXPECT_THAT(numbers["ids"], ElementsAre(1, 3, 5));
  EXPECT_THAT(numbers["class"], ElementsAre(7, 8, 9));
}

TEST(PredictionFiles, BeginANewFileAfterTheBatchThatFillsOne) {
  fakes::MemoryObjects objects;
  fakes::MemoryStore store{objects};
  PredictionFiles files{store, {.file_bytes_max = 32}};
  for (const std::int64_t id : {0, 1, 2}) ASSERT_TRUE(files.add(a_batch_of({id}), {{"x", torch::zeros({1, 2})}}));
  ASSERT_TRUE(files.finish());
  EXPECT_THAT(files.files(),
              ElementsAre(PredictionFile{.key = "predictions/rank-0-of-1-part-0.safetensors", .samples = 2},
                          PredictionFile{.key = "predictions/rank-0-of-1-part-1.safetensors", .samples = 1}));
}

TEST(PredictionFiles, RefuseWhatHasNoRowForEachSample) {
  fakes::MemoryObjects objects;
  fakes::MemoryStore store{objects};
  PredictionFiles files{store, {}};
  const Batch batch = a_batch_of({0, 1});
  EXPECT_THAT(refused_rows(files, batch, {}), HasSubstr("no tensor"));
  EXPECT_THAT(refused_rows(files, batch, {{"x", torch::zeros({3, 4})}}),
              HasSubstr("'x' of the shape [3, 4] for 2 samples"));
  EXPECT_THAT(refused_rows(files, batch, {{"x", torch::zeros({})}}), HasSubstr("first dimension"));
  EXPECT_THAT(refused_rows(files, batch, {{"x", torch::Tensor{}}}), HasSubstr("first dimension"));
  EXPECT_THAT(refused_rows(files, batch, {{"ids", torch::zeros({2})}}), HasSubstr("give it another name"));
  EXPECT_THAT(refused_rows(files, batch, {{"__metadata__", torch::zeros({2})}}), HasSubstr("give it another name"));
  EXPECT_THAT(refused_rows(files, batch, {{"", torch::zeros({2})}}), HasSubstr("give it another name"));
  ASSERT_TRUE(files.add(batch, {{"x", torch::zeros({2, 4})}, {"z", torch::zeros({2})}}));
  EXPECT_THAT(refused_rows(files, batch, {{"x", torch::zeros({2, 4})}}), HasSubstr("for the first batch"));
  EXPECT_THAT(refused_rows(files, batch, {{"y", torch::zeros({2, 4})}, {"z", torch::zeros({2})}}),
              HasSubstr("for the first batch"));
  EXPECT_THAT(refused_rows(files, batch, {{"x", torch::zeros({2, 5})}, {"z", torch::zeros({2})}}),
              HasSubstr("for the first batch"));
  EXPECT_THAT(refused_rows(files, batch, {{"x", torch::zeros({2, 4}, torch::kLong)}, {"z", torch::zeros({2})}}),
              HasSubstr("for the first batch"));
}

TEST(PredictionFiles, RefuseTensorsThatTheirFormatDoesNotHave) {
  fakes::MemoryObjects objects;
  fakes::MemoryStore store{objects};
  PredictionFiles files{store, {}};
  const Batch batch = a_batch_of({0, 1});
  EXPECT_THAT(refused_rows(files, batch, {{"x", torch::zeros({2}, torch::kComplexFloat)}}), HasSubstr("complex"));
  EXPECT_THAT(refused_rows(files, batch, {{"x", torch::quantize_per_tensor(torch::ones({2}), 1.0, 0, torch::kQInt8)}}),
              HasSubstr("quantized"));
  EXPECT_THAT(refused_rows(files, batch, {{"x", torch::ones({2, 2}).to_sparse()}}), HasSubstr("sparse"));
}

TEST(PredictionFiles, KeepTheValuesOfATensorThatTheModuleFillsAgain) {
  fakes::MemoryObjects objects;
  fakes::MemoryStore store{objects};
  PredictionFiles files{store, {}};
  const torch::Tensor reused = torch::zeros({1}, torch::kLong);
  for (const std::int64_t id : {1, 2}) {
    reused.fill_(id);
    ASSERT_TRUE(files.add(a_batch_of({id}), {{"class", reused}}));
  }
  ASSERT_TRUE(files.finish());
  const std::string content = storage::get_text(store, files.files()[0].key).value();
  const std::uint64_t length = *checkpoint::read_safetensors_length(content.substr(0, 8));
  const auto entries = checkpoint::parse_safetensors_header(content.substr(8, length)).value();
  for (const auto& entry : entries) {
    std::vector<std::int64_t> values(2);
    ASSERT_EQ(entry.bytes, 16U);
    std::memcpy(values.data(), content.data() + entry.offset, entry.bytes);
    EXPECT_THAT(values, ElementsAre(1, 2)) << entry.name;
  }
}

TEST(PredictionFiles, ReturnTheStoragesError) {
  fakes::MemoryObjects objects;
  fakes::FaultyStore store{std::make_unique<fakes::MemoryStore>(objects),
                           [](std::string_view call, std::string_view, storage::Pieces) -> std::optional<Error> {
                             if (call != "put") return std::nullopt;
                             return Error{
                                 .kind = ErrorKind::unavailable, .message = "the disk is gone", .retry_after = {}};
                           }};
  PredictionFiles files{store, {.file_bytes_max = 1}};
  EXPECT_EQ(files.add(a_batch_of({0}), {{"x", torch::zeros({1})}}).error().message, "the disk is gone");
}

TEST(PredictionFiles, RefuseInALaterFileWhatDoesNotFitTheFirstBatch) {
  fakes::MemoryObjects objects;
  fakes::MemoryStore store{objects};
  PredictionFiles files{store, {.file_bytes_max = 1}};
  ASSERT_TRUE(files.add(a_batch_of({0}), {{"x", torch::zeros({1, 2})}}));
  ASSERT_EQ(files.files().size(), 1U);
  EXPECT_THAT(refused_rows(files, a_batch_of({1}), {{"x", torch::zeros({1, 3})}}), HasSubstr("for the first batch"));
  EXPECT_TRUE(files.add(a_batch_of({2}), {{"x", torch::zeros({1, 2})}}));
  EXPECT_EQ(files.files().size(), 2U);
}

TEST(PredictionFiles, SayThatTheirTensorsArePyTorchs) {
  fakes::MemoryObjects objects;
  fakes::MemoryStore store{objects};
  PredictionFiles files{store, {}};
  ASSERT_TRUE(files.add(a_batch_of({0}), {{"x", torch::zeros({1})}}));
  ASSERT_TRUE(files.finish());
  EXPECT_THAT(storage::get_text(store, files.files()[0].key).value(), HasSubstr(R"({"format":"pt"})"));
}

}  // namespace
}  // namespace trainyard::train
