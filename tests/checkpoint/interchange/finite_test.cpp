#include "checkpoint/interchange/finite.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

namespace trainyard::checkpoint {
namespace {

struct FiniteCase {
  std::string dtype;
  std::size_t part_bytes;
  std::vector<std::uint64_t> finite;      // bits of numbers
  std::vector<std::uint64_t> not_finite;  // bits of infinities and of NaN

  friend std::ostream& operator<<(std::ostream& out, const FiniteCase& row) { return out << row.dtype; }
};

constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();

std::uint64_t bits_of(double value) {
  return std::bit_cast<std::uint64_t>(value);
}
std::uint64_t bits_of_float(double value) {
  return std::bit_cast<std::uint32_t>(static_cast<float>(value));
}

// The 16 and 8 bits are those that torch 2.11 gives for 0, 1, -1, the largest number, infinity, its negative and NaN.
const FiniteCase finite_cases[] = {
    {"F64",
     8,
     {0, bits_of(-1.0), bits_of(std::numeric_limits<double>::max())},
     {bits_of(infinity), bits_of(-infinity), bits_of(nan), bits_of(-nan)}},
    {"F32",
     4,
     {0, bits_of_float(-1.0), bits_of_float(std::numeric_limits<float>::max())},
     {bits_of_float(infinity), bits_of_float(-infinity), bits_of_float(nan)}},
    {"F16", 2, {0x0000, 0x3c00, 0xbc00, 0x7bff}, {0x7c00, 0xfc00, 0x7e00}},
    {"BF16", 2, {0x0000, 0x3f80, 0xbf80, 0x7f7f}, {0x7f80, 0xff80, 0x7fc0}},
    {"ComplexHalf", 2, {0x3c00, 0x7bff}, {0x7c00, 0x7e00}},
    {"ComplexFloat", 4, {bits_of_float(1.0)}, {bits_of_float(-infinity)}},
    {"ComplexDouble", 8, {bits_of(1.0)}, {bits_of(nan)}},
    {"F8_E5M2", 1, {0x00, 0x3c, 0xbc, 0x7b}, {0x7c, 0xfc, 0x7f}},
    {"F8_E4M3", 1, {0x00, 0x38, 0xb8, 0x7e}, {0x7f, 0xff}},
    {"Float8_e5m2fnuz", 1, {0x00, 0x40, 0xc0, 0x7f, 0xff}, {0x80}},
    {"Float8_e4m3fnuz", 1, {0x00, 0x40, 0xc0, 0x7f, 0xff}, {0x80}},
    {"Float8_e8m0fnu", 1, {0x00, 0x7f, 0xfe}, {0xff}},
    {"I64", 8, {bits_of(nan)}, {}},
    {"I16", 2, {0x7fff, 0xffff}, {}},
    {"BOOL", 1, {0x01}, {}},
};

class Finite : public testing::TestWithParam<FiniteCase> {};

std::vector<std::byte> bytes_of(const std::vector<std::uint64_t>& numbers, std::size_t part_bytes) {
  std::vector<std::byte> bytes;
  for (const std::uint64_t number : numbers)
    for (std::size_t i = 0; i < part_bytes; ++i) bytes.push_back(static_cast<std::byte>(number >> (8 * i) & 0xff));
  return bytes;
}

TEST_P(Finite, CountsWhatIsNotInPiecesOfAnySize) {
  std::vector<std::uint64_t> numbers;
  for (const std::uint64_t spoiled : GetParam().not_finite) {
    numbers.push_back(spoiled);
    numbers.insert(numbers.end(), GetParam().finite.begin(), GetParam().finite.end());
  }
  if (numbers.empty()) numbers = GetParam().finite;
  const auto bytes = bytes_of(numbers, GetParam().part_bytes);
  const Dtype dtype = find_dtype(GetParam().dtype).value();
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
    NonFiniteCounter counter{dtype};
    for (std::size_t at = 0; at < bytes.size(); at += piece)
      counter.take(std::span{bytes}.subspan(at, std::min(piece, bytes.size() - at)));
    EXPECT_EQ(counter.count(), GetParam().not_finite.size()) << piece;
  }
}

INSTANTIATE_TEST_SUITE_P(Table, Finite, testing::ValuesIn(finite_cases),
                         [](const auto& info) { return info.param.dtype; });

TEST(Finite, FindsNothingInIntegersAndBooleans) {
  for (const char* name : {"I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8", "BOOL"}) {
    NonFiniteCounter counter{find_dtype(name).value()};
    counter.take(std::vector<std::byte>(64, std::byte{0xff}));
    counter.take(std::vector<std::byte>(64, std::byte{0x80}));
    EXPECT_EQ(counter.count(), 0U) << name;
  }
}

}  // namespace
}  // namespace trainyard::checkpoint
