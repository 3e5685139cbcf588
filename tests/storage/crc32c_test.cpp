#include "storage/crc32c.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string_view>
#include <vector>

namespace trainyard::storage {
namespace {

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span{text});
  return {bytes.begin(), bytes.end()};
}

TEST(Crc32c, GivesThePublishedValues) {
  struct Row {
    std::vector<std::byte> bytes;
    std::uint32_t crc;
  };
  std::vector<std::byte> ascending(32);
  for (std::size_t i = 0; i < ascending.size(); ++i) ascending[i] = static_cast<std::byte>(i);
  const std::vector<Row> rows = {
      {{}, 0},
      {bytes_of("123456789"), 0xe3069283},                     // the check value of the CRC catalogue
      {std::vector<std::byte>(32, std::byte{0}), 0x8a9136aa},  // this and the next: RFC 3720, B.4
      {std::vector<std::byte>(32, std::byte{0xff}), 0x62a8ab43},
      {ascending, 0x46dd794e},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(crc32c(row.bytes), row.crc);
    EXPECT_EQ(crc32c_portable(row.bytes), row.crc);
  }
}

TEST(Crc32c, ContinuesFromTheCrcOfTheBytesBeforeAnyCut) {
  std::mt19937 random{1};
  std::vector<std::byte> bytes(257);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  const std::uint32_t whole = crc32c_portable(bytes);
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    const auto first = std::span{bytes}.first(cut);
    const auto second = std::span{bytes}.subspan(cut);
    EXPECT_EQ(crc32c(second, crc32c(first)), whole) << "cut at " << cut;
    EXPECT_EQ(crc32c_portable(second, crc32c_portable(first)), whole) << "cut at " << cut;
  }
}

TEST(Crc32c, IsJoinedOfTwoPartsOfAnyLengths) {
  std::mt19937 random{2};
  std::vector<std::byte> bytes(300);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  const std::uint32_t whole = crc32c_portable(bytes);
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    const auto first = std::span{bytes}.first(cut);
    const auto second = std::span{bytes}.subspan(cut);
    EXPECT_EQ(crc32c_joined(crc32c_portable(first), crc32c_portable(second), second.size()), whole) << "cut at " << cut;
  }
}

TEST(Crc32c, IsTheSameByTableAndByInstructionForEverySizeThatIsTakenInLanes) {
  std::mt19937 random{3};
  std::vector<std::byte> bytes(40'000);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  for (std::size_t size : {12'287U, 12'288U, 12'289U, 12'295U, 12'311U, 12'312U, 39'999U, 40'000U}) {
    const auto some = std::span{bytes}.first(size);
    EXPECT_EQ(crc32c(some, 0x1234), crc32c_portable(some, 0x1234)) << size << " bytes";
  }
}

TEST(Crc32c, IsTheSameByTableAndByInstructionForShortSizesFromAnyAddress) {
  std::mt19937 random{4};
  std::vector<std::byte> bytes(100);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  for (std::size_t begin = 0; begin < 9; ++begin) {
    for (std::size_t size = 0; size <= bytes.size() - begin; ++size) {
      const auto some = std::span{bytes}.subspan(begin, size);
      EXPECT_EQ(crc32c(some, 0x1234), crc32c_portable(some, 0x1234)) << size << " bytes from " << begin;
    }
  }
}

TEST(Crc32c, IsWrittenAsEightDigits) {
  EXPECT_EQ(crc32c_text(0x0a), "0000000a");
}

}  // namespace
}  // namespace trainyard::storage
