#include "worker/data/token_dataset.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "tests/fakes/temporary_folder.hpp"
#include "worker/data/open_data.hpp"

namespace trainyard::data {
namespace {

using testing::HasSubstr;

/// The bytes of the tokens `first`, `first` + 1, ...
std::string token_file(std::uint16_t first, std::size_t count) {
  std::string bytes;
  for (std::size_t index = 0; index < count; ++index) {
    const auto token = static_cast<std::uint16_t>(first + index);
    bytes += static_cast<char>(token & 0xff);
    bytes += static_cast<char>(token >> 8);
  }
  return bytes;
}

Result<Datasets> open_tokens_in(const fakes::TemporaryFolder& folder, const std::string& options) {
  DataSource source;
  source.folder = folder.path();
  source.options = Options{options, "training.data.options"};
  return open_data(source, api::DataFormat::tokens);
}

torch::Tensor id_list(std::vector<std::int64_t> ids) {
  return torch::tensor(ids, torch::kInt64);
}

std::string gather_refusal(const Dataset& dataset, std::int64_t id) {
  try {
    (void)dataset.gather(id_list({id}));
  } catch (const InvalidJob& error) {
    return error.what();
  }
  return "";
}

TEST(TokenDataset, GivesSequencesAndTheirNextTokens) {
  const fakes::TemporaryFolder folder;
  folder.write("train.bin", token_file(65'500, 13));
  folder.write("val.bin", token_file(7, 5));
  const auto datasets = open_tokens_in(folder, R"({"sequenceLength": 4})");
  ASSERT_TRUE(datasets.has_value()) << datasets.error().message;
  EXPECT_EQ(datasets->train->size(), 3) << "the last token is only a target";
  EXPECT_EQ(datasets->validation->size(), 1);
  const Batch batch = datasets->train->gather(id_list({2, 0}));
  EXPECT_TRUE(batch.inputs.equal(
      torch::tensor({65'508, 65'509, 65'510, 65'511, 65'500, 65'501, 65'502, 65'503}, torch::kInt64).view({2, 4})));
  EXPECT_TRUE(batch.targets.equal(batch.inputs + 1));
  EXPECT_TRUE(batch.ids.equal(id_list({2, 0})));
  EXPECT_TRUE(datasets->validation->gather(id_list({0})).inputs.equal(id_list({7, 8, 9, 10}).view({1, 4})));
}

TEST(TokenDataset, HasASampleOnlyWhereItsLastTargetIsThere) {
  const fakes::TemporaryFolder folder;
  for (const auto& [tokens, samples] : {std::pair{12U, 2}, std::pair{13U, 3}, std::pair{16U, 3}, std::pair{17U, 4}}) {
    folder.write("train.bin", token_file(0, tokens));
    const auto datasets = open_tokens_in(folder, R"({"sequenceLength": 4, "validation": false, "vocabulary": 50})");
    ASSERT_TRUE(datasets.has_value()) << datasets.error().message;
    EXPECT_EQ(datasets->train->size(), samples) << tokens;
    EXPECT_EQ(datasets->train->classes(), 50);
  }
  EXPECT_EQ(open_tokens_in(folder, R"({"sequenceLength": 4, "validation": false})")->train->classes(), 0);
}

TEST(TokenDataset, RefusesOptionsOutsideTheirBounds) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {R"({"sequenceLength": 0})", "sequenceLength: must be a whole number from 1 to 1048576, got 0"},
      {R"({"sequenceLength": 1048577})", "sequenceLength: must be a whole number from 1 to 1048576, got 1048577"},
      {R"({"vocabulary": 0})", "vocabulary: must be a whole number from 1 to 65536, got 0"},
      {R"({"vocabulary": 65537})", "vocabulary: must be a whole number from 1 to 65536, got 65537"},
  };
  for (const auto& [json, message] : cases) {
    try {
      (void)read_token_options(Options{json, "training.data.options"});
      ADD_FAILURE() << json;
    } catch (const InvalidJob& error) {
      EXPECT_EQ(error.what(), "training.data.options." + message);
    }
  }
  const TokenOptions usual = read_token_options(Options{});
  EXPECT_EQ(usual.sequence_length, 1024);
  EXPECT_EQ(usual.vocabulary, std::nullopt);
}

TEST(TokenDataset, RefusesFilesThatCannotBeTokens) {
  struct Case {
    std::string what, bytes, message;
  };
  const std::vector<Case> cases{
      {"an odd number of bytes", token_file(0, 9) + "x", "train.bin has 19 bytes, an odd number"},
      {"too few tokens", token_file(0, 4),
       "train.bin has 4 tokens; a sample of "
       "training.data.options.sequenceLength 4 needs 5"},
      {"llm.c's header", std::string("\x88\xd8\x34\x01\x01\0\0\0", 8) + token_file(0, 9),
       "train.bin begins with the header of llm.c's files"},
      {"nothing", "", "train.bin has 0 tokens"},
  };
  const fakes::TemporaryFolder folder;
  folder.write("val.bin", token_file(0, 5));
  const auto missing = open_tokens_in(folder, R"({"sequenceLength": 4})");
  EXPECT_EQ(missing.error().kind, ErrorKind::not_found);
  EXPECT_EQ(missing.error().message,
            "there is no file " + folder.file("train.bin").string() +
                "; set training.data.path to the folder with train.bin and val.bin, or training.data.options: "
                "{validation: false} to train without val.bin");
  for (const Case& c : cases) {
    folder.write("train.bin", c.bytes);
    const auto datasets = open_tokens_in(folder, R"({"sequenceLength": 4})");
    ASSERT_FALSE(datasets.has_value()) << c.what;
    EXPECT_EQ(datasets.error().kind, ErrorKind::invalid) << c.what;
    EXPECT_THAT(datasets.error().message, HasSubstr(c.message)) << c.what;
  }
  std::filesystem::remove(folder.file("train.bin"));
  std::filesystem::create_directory(folder.file("train.bin"));
  EXPECT_THAT(open_tokens_in(folder, "{}").error().message, HasSubstr("val.bin has 5 tokens"));
  EXPECT_THAT(open_tokens_in(folder, R"({"validation": false})").error().message, HasSubstr("train.bin is not a file"));
}

TEST(TokenDataset, RefusesATokenThatIsNotInTheVocabulary) {
  const fakes::TemporaryFolder folder;
  folder.write("train.bin", token_file(90, 12));
  const auto open = [&](const std::string& vocabulary) {
    auto datasets =
        open_tokens_in(folder, R"({"sequenceLength": 4, "validation": false, "vocabulary": )" + vocabulary + "}");
    EXPECT_TRUE(datasets.has_value());
    EXPECT_EQ(datasets->validation, nullptr);
    return std::move(datasets->train);
  };
  EXPECT_EQ(gather_refusal(*open("99"), 1), "") << "the tokens 94 to 98";
  EXPECT_EQ(gather_refusal(*open("98"), 1),
            folder.file("train.bin").string() + ": token number 8 is 98, but training.data.options.vocabulary is 98")
      << "the target of the last one";
  EXPECT_EQ(gather_refusal(*open("98"), 0), "");
}

TEST(TokenDataset, SaysThatTheFileBecameShorter) {
  const fakes::TemporaryFolder folder;
  folder.write("train.bin", token_file(0, 13));
  const auto datasets = open_tokens_in(folder, R"({"sequenceLength": 4, "validation": false})");
  std::filesystem::resize_file(folder.file("train.bin"), 16);
  EXPECT_NO_THROW((void)datasets->train->gather(id_list({0})));
  try {
    (void)datasets->train->gather(id_list({1}));
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("train.bin ends at byte 16; it had 26 bytes when it was opened"));
  }
}

TEST(TokenDataset, HasAnIdOfItsTokensAndItsLength) {
  const fakes::TemporaryFolder folder;
  const auto id = [&](std::uint16_t first, std::size_t count, const std::string& length) {
    folder.write("train.bin", token_file(first, count));
    return open_tokens_in(folder, R"({"validation": false, "sequenceLength": )" + length + "}")->train->id();
  };
  EXPECT_EQ(id(0, 100, "4"), "4568022110e0d3c1") << "checkpoints of earlier versions have this id";
  EXPECT_NE(id(0, 100, "4"), id(0, 100, "5"));
  EXPECT_NE(id(0, 100, "4"), id(0, 101, "4"));
  EXPECT_NE(id(0, 100, "4"), id(1, 100, "4"));
}

}  // namespace
}  // namespace trainyard::data
