#include "worker/data/safetensors_dataset.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstddef>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/format/safetensors.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "worker/data/open_data.hpp"

namespace trainyard::data {
namespace {

using testing::HasSubstr;

struct Named {
  std::string name;
  std::string dtype;
  torch::Tensor tensor;
};

std::string file_of(const std::vector<Named>& tensors) {
  std::vector<checkpoint::SafetensorsTensor> described;
  std::string data;
  for (const Named& one : tensors) {
    described.push_back(
        {.name = one.name, .dtype = one.dtype, .shape = one.tensor.sizes().vec(), .bytes = one.tensor.nbytes()});
    data.append(static_cast<const char*>(one.tensor.const_data_ptr()), one.tensor.nbytes());
  }
  return checkpoint::safetensors_header(described, {}) + data;
}

torch::Tensor float_inputs() {
  return torch::arange(12, torch::kFloat).reshape({4, 3});
}

torch::Tensor int_targets() {
  return torch::tensor({5, 6, 7, 8}, torch::kInt);
}

class SafetensorsDatasetTest : public testing::Test {
 protected:
  [[nodiscard]] Result<Datasets> open(const std::string& options = R"({"validation": false})") const {
    DataSource source;
    source.folder = folder.path();
    source.options = Options{options, "training.data.options"};
    return open_data(source, api::DataFormat::safetensors);
  }

  [[nodiscard]] std::string refusal(const std::string& file, const std::string& options = R"({"validation": false})") {
    folder.write("train.safetensors", file);
    const auto datasets = open(options);
    kind = datasets ? ErrorKind{} : datasets.error().kind;
    return datasets ? "" : datasets.error().message;
  }

  fakes::TemporaryFolder folder;
  ErrorKind kind{};
};

TEST_F(SafetensorsDatasetTest, GivesTheRowsOfEachTensor) {
  const torch::Tensor mask = torch::tensor({true, false, true, false});
  folder.write("train.safetensors",
               file_of({{"inputs", "F32", float_inputs()}, {"targets", "I32", int_targets()}, {"mask", "BOOL", mask}}));
  folder.write("val.safetensors", file_of({{"inputs", "F32", float_inputs()}, {"targets", "I32", int_targets()}}));
  const auto datasets = open("{}");
  ASSERT_TRUE(datasets) << datasets.error().message;
  EXPECT_EQ(datasets->train->size(), 4);
  EXPECT_EQ(datasets->validation->size(), 4);
  const Batch batch = datasets->train->gather(torch::tensor({2, 0, 2}, torch::kLong));
  EXPECT_TRUE(torch::equal(batch.inputs, float_inputs().index_select(0, torch::tensor({2, 0, 2}))));
  EXPECT_TRUE(torch::equal(batch.targets, torch::tensor({7, 5, 7}, torch::kLong)));
  EXPECT_EQ(batch.targets.scalar_type(), torch::kLong) << "as losses take classes";
  EXPECT_TRUE(torch::equal(batch.named.at("mask").tensor(), torch::tensor({true, true, true})));
  EXPECT_TRUE(torch::equal(batch.ids, torch::tensor({2, 0, 2}, torch::kLong)));
}

TEST_F(SafetensorsDatasetTest, ReadsEveryTypeOfNumber) {
  const std::vector<std::pair<std::string, torch::ScalarType>> types{
      {"F64", torch::kDouble}, {"F32", torch::kFloat}, {"F16", torch::kHalf},  {"BF16", torch::kBFloat16},
      {"I64", torch::kLong},   {"I32", torch::kInt},   {"I16", torch::kShort}, {"I8", torch::kChar},
      {"U8", torch::kByte},    {"BOOL", torch::kBool}};
  for (const auto& [name, type] : types) {
    const torch::Tensor values = torch::tensor({0, 1, 100, 3}, torch::kInt).to(type);
    folder.write("train.safetensors", file_of({{"inputs", name, values}, {"targets", name, values}}));
    const auto datasets = open();
    ASSERT_TRUE(datasets) << name << ": " << datasets.error().message;
    const Batch batch = datasets->train->gather(torch::arange(4));
    EXPECT_EQ(batch.inputs.scalar_type(), type) << name;
    EXPECT_TRUE(torch::equal(batch.inputs, values)) << name;
    const bool is_whole = torch::isIntegralType(type, /*includeBool=*/false);
    EXPECT_TRUE(torch::equal(batch.targets, is_whole ? values.to(torch::kLong) : values)) << name;
  }
}

TEST_F(SafetensorsDatasetTest, TakesTheTensorsThatTheJobNames) {
  const torch::Tensor bytes = torch::tensor({1, 2, 3, 250}, torch::kByte);
  folder.write("train.safetensors", file_of({{"x", "U8", bytes}, {"y", "F32", float_inputs()}}));
  const auto named = open(R"({"validation": false, "inputs": "x", "targets": "y"})");
  ASSERT_TRUE(named) << named.error().message;
  const Batch batch = named->train->gather(torch::tensor({3}, torch::kLong));
  EXPECT_TRUE(torch::equal(batch.inputs, torch::tensor({250}, torch::kByte)));
  EXPECT_TRUE(torch::equal(batch.targets, torch::tensor({{9.F, 10.F, 11.F}})));
  EXPECT_EQ(batch.targets.scalar_type(), torch::kFloat);
  const auto without = open(R"({"validation": false, "inputs": "x", "targets": ""})");
  ASSERT_TRUE(without) << without.error().message;
  EXPECT_FALSE(without->train->gather(torch::tensor({0}, torch::kLong)).targets.defined());
}

TEST_F(SafetensorsDatasetTest, SaysWhatIsWrongWithAFile) {
  const std::string good = file_of({{"inputs", "F32", float_inputs()}, {"targets", "I32", int_targets()}});
  EXPECT_EQ(refusal(good), "");
  EXPECT_THAT(refusal("short"), HasSubstr("has 5 bytes, which are no safetensors file"));
  EXPECT_THAT(refusal(good.substr(0, 40)), HasSubstr("train.safetensors: has 40 bytes, and a header of"));
  EXPECT_EQ(kind, ErrorKind::corrupt);
  EXPECT_THAT(refusal(good.substr(0, good.size() - 1)), HasSubstr("ends within the tensor targets: it was cut off"));
  EXPECT_THAT(refusal(std::string(8, '\x7f') + good), HasSubstr("train.safetensors"));
  EXPECT_EQ(kind, ErrorKind::corrupt);
  EXPECT_THAT(refusal(file_of({{"inputs", "F32", float_inputs()}, {"labels", "I32", int_targets()}})),
              HasSubstr("has no tensor targets, but inputs, labels: name the one for the targets in "
                        "training.data.options.targets"));
  EXPECT_EQ(kind, ErrorKind::invalid);
  for (const auto& targets : {int_targets().slice(0, 1).clone(), torch::zeros({5}, torch::kInt)}) {
    EXPECT_THAT(refusal(file_of({{"inputs", "F32", float_inputs()}, {"targets", "I32", targets}})),
                HasSubstr("rows, and inputs has 4: each tensor has one for each sample"));
  }
  EXPECT_THAT(refusal(file_of({{"inputs", "F32", torch::zeros({})}})), HasSubstr("its first dimension has to be them"));
  EXPECT_THAT(refusal(file_of({{"inputs", "F32", torch::zeros({0, 3})}})),
              HasSubstr("the tensor inputs has no samples"));
  EXPECT_THAT(refusal(file_of({{"inputs", "U64", torch::zeros({2}, torch::kLong)}})), HasSubstr("the type U64"));
  EXPECT_THAT(refusal(file_of({})), HasSubstr("has no tensors"));
  EXPECT_THROW(std::ignore = refusal(good, R"({"inputs": "x", "targets": "x"})"), InvalidJob);
  EXPECT_THROW(std::ignore = refusal(good, R"({"inputs": ""})"), InvalidJob);
  EXPECT_THAT(refusal(good, R"({"validation": false, "inputs": "x"})"),
              HasSubstr("has no tensor x, but inputs, targets: name the one for the inputs in "
                        "training.data.options.inputs"));
  std::filesystem::remove(folder.file("train.safetensors"));
  EXPECT_THAT(open().error().message, HasSubstr("set training.data.path to the folder with train.safetensors"));
}

TEST_F(SafetensorsDatasetTest, FailsWhereTheFileBecameShorter) {
  const std::string good = file_of({{"inputs", "F32", float_inputs()}, {"targets", "I32", int_targets()}});
  folder.write("train.safetensors", good);
  const auto datasets = open();
  std::filesystem::resize_file(folder.file("train.safetensors"), good.size() - 4);
  EXPECT_NO_THROW(std::ignore = datasets->train->gather(torch::tensor({2}, torch::kLong)));
  try {
    std::ignore = datasets->train->gather(torch::tensor({3}, torch::kLong));
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("sample 3"));
  }
}

TEST_F(SafetensorsDatasetTest, HasAnIdOfItsContents) {
  const auto id = [&](const torch::Tensor& inputs) {
    folder.write("train.safetensors", file_of({{"inputs", "F32", inputs}, {"targets", "I32", int_targets()}}));
    return open()->train->id();
  };
  const std::string first = id(float_inputs());
  EXPECT_EQ(id(float_inputs()), first);
  EXPECT_NE(id(float_inputs() + 1), first);
  EXPECT_NE(id(float_inputs().reshape({4, 3, 1})), first);
  folder.write("train.safetensors",
               file_of({{"inputs", "F32", float_inputs()}, {"targets", "I32", int_targets() + 1}}));
  EXPECT_NE(open()->train->id(), first) << "each tensor counts";
  const torch::Tensor large = torch::zeros({4, 5'000});
  const std::string of_zeros = id(large);
  large[0][0] = 1;
  EXPECT_NE(id(large), of_zeros) << "its beginning";
  large[0][0] = 0;
  large[3][4'999] = 1;
  EXPECT_NE(id(large), of_zeros) << "its end";
}

}  // namespace
}  // namespace trainyard::data
