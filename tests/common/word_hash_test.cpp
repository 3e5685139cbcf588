#include "common/word_hash.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trainyard {
namespace {

std::uint64_t hash_of(std::string_view text, std::uint64_t hash = word_hash_start) {
  return word_hash(hash, std::as_bytes(std::span{text.data(), text.size()}));
}

TEST(WordHash, IsOfWordsAndThenOfTheBytesThatAreLeft) {
  const std::vector<std::pair<std::string, std::uint64_t>> cases{
      {"", word_hash_start},
      {"a", 0xaf63dc4c8601ec8cULL},
      {"abcdefg", 0x406e475017aa7737ULL},
      {"abcdefgh", 0x3919eeb037f8083cULL},
      {"abcdefghi", 0xff18ea6f1a76286fULL},
      {"abcdefghabcdefgh\xff", 0xe163466e9a441affULL},
  };
  for (const auto& [text, hash] : cases) EXPECT_EQ(hash_of(text), hash) << text;
}

TEST(WordHash, GoesOnFromTheHashOfTheWordsBefore) {
  EXPECT_EQ(hash_of("ijk", hash_of("abcdefgh")), hash_of("abcdefghijk"));
  EXPECT_NE(hash_of("abcdefgh", hash_of("12345678")), hash_of("12345678", hash_of("abcdefgh")));
}

TEST(WordHash, HasTheLastByteOfAWordInItsLowHalf) {
  EXPECT_NE(hash_of("abcdefgh") & 0xffffffffU, hash_of("abcdefgX") & 0xffffffffU);
}

}  // namespace
}  // namespace trainyard
