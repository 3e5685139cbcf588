#include "checkpoint/format/safetensors.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

namespace trainyard::checkpoint {
namespace {

TEST(SafetensorsHeader, NamesEachTensorsTypeShapeAndPlace) {
  const SafetensorsTensor tensors[] = {{.name = "w", .dtype = "F32", .shape = {2, 3}, .bytes = 24},
                                       {.name = "scalar", .dtype = "I64", .shape = {}, .bytes = 8},
                                       {.name = "empty", .dtype = "BF16", .shape = {0, 3}, .bytes = 0}};
  const std::string header = safetensors_header(tensors, {{"format", "pt"}});
  std::uint64_t length = 0;
  std::memcpy(&length, header.data(), sizeof length);
  EXPECT_EQ(header.size(), 8 + length);
  EXPECT_EQ(header.size() % 8, 0U);
  EXPECT_EQ(nlohmann::json::parse(header.substr(8)), nlohmann::json::parse(R"({
    "__metadata__": {"format": "pt"},
    "w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
    "scalar": {"dtype": "I64", "shape": [], "data_offsets": [24, 32]},
    "empty": {"dtype": "BF16", "shape": [0, 3], "data_offsets": [32, 32]}})"));
}

TEST(SafetensorsElementBytes, KnowsTheFormatsTypesOnly) {
  EXPECT_EQ(safetensors_element_bytes("F64"), 8U);
  EXPECT_EQ(safetensors_element_bytes("F8_E4M3"), 1U);
  EXPECT_EQ(safetensors_element_bytes("ComplexFloat"), std::nullopt);
}

}  // namespace
}  // namespace trainyard::checkpoint
