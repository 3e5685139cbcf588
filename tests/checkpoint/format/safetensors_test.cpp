#include "checkpoint/format/safetensors.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

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

TEST(SafetensorsHeader, IsPaddedToTheNextMultipleOfEightAndNoFurther) {
  for (std::size_t length = 1; length <= 16; ++length) {
    const SafetensorsTensor tensors[] = {{.name = std::string(length, 'n'), .dtype = "U8", .shape = {1}, .bytes = 1}};
    const std::string header = safetensors_header(tensors, {});
    EXPECT_EQ(header.size() % 8, 0U) << length;
    EXPECT_LT(header.size() - (header.rfind('}') + 1), 8U) << length;
  }
}

TEST(SafetensorsHeader, TakesANameThatIsNoUtf8) {
  const SafetensorsTensor tensors[] = {{.name = "\xff", .dtype = "U8", .shape = {1}, .bytes = 1}};
  EXPECT_TRUE(nlohmann::json::accept(safetensors_header(tensors, {}).substr(8)));
}

TEST(SafetensorsElementBytes, KnowsTheFormatsTypesOnly) {
  const std::map<std::string_view, std::uint64_t> sizes = {
      {"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"F8_E5M2", 1}, {"F8_E4M3", 1}, {"I64", 8}, {"I32", 4},
      {"I16", 2}, {"I8", 1},  {"U64", 8}, {"U32", 4},  {"U16", 2},     {"U8", 1},      {"BOOL", 1}};
  for (const auto& [dtype, bytes] : sizes) EXPECT_EQ(safetensors_element_bytes(dtype), bytes) << dtype;
  for (const char* other : {"ComplexFloat", "", "f32", "F3"}) EXPECT_EQ(safetensors_element_bytes(other), std::nullopt);
}

}  // namespace
}  // namespace trainyard::checkpoint
