#include "common/text.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

namespace trainyard {
namespace {

TEST(KeepBeginning, KeepsWhatFitsAndMarksTheCut) {
  EXPECT_EQ(keep_beginning("whole", 5), "whole");
  EXPECT_EQ(keep_beginning("longer than that", 9), "longer...");
  EXPECT_EQ(keep_beginning("longer", 3), "...");
}

TEST(KeepBeginning, CutsNoCharacterInTwo) {
  EXPECT_EQ(keep_beginning("aäöü", 6), "aä...");
  EXPECT_EQ(keep_beginning("äöüß", 6), "ä...");
  EXPECT_EQ(keep_beginning("\u20ac\u20ac\u20ac", 8), "\u20ac...");
  EXPECT_EQ(keep_beginning("\u20ac\u20ac", 4), "...");
}

TEST(KeepBeginning, CutsATextThatIsNoUtf8) {
  EXPECT_EQ(keep_beginning("\x80\x80\x80\x80\x80", 4), "...");
  EXPECT_EQ(keep_end("\x80\x80\x80\x80\x80\x80", 5), "... ");
}

TEST(KeepEnd, KeepsWhatFitsAndMarksTheCut) {
  EXPECT_EQ(keep_end("whole", 5), "whole");
  EXPECT_EQ(keep_end("longer than that", 8), "... that");
  EXPECT_EQ(keep_end("longer", 4), "... ");
}

TEST(KeepEnd, CutsNoCharacterInTwo) {
  EXPECT_EQ(keep_end("xäöü", 6), "... ü");
  EXPECT_EQ(keep_end("äöüß", 7), "... ß");
  EXPECT_EQ(keep_end("\u20ac\u20ac", 5), "... ");
}

TEST(Utf8CharacterBytes, IsZeroForBytesThatAreNoCharacter) {
  struct Row {
    std::string_view text;
    std::size_t bytes;
  };
  const std::vector<Row> rows{
      {"", 0},
      {"ab", 1},
      {"\u00e9x", 2},
      {"\u20acx", 3},
      {"\U0001f600x", 4},
      {"\u00e9", 2},  // The text ends with the character.
      // The first and the last character of each length, and those beside the halves of a UTF-16 pair.
      {"\u0080", 2},
      {"\u07ff", 2},
      {"\u0800", 3},
      {"\ud7ff", 3},
      {"\ue000", 3},
      {"\uffff", 3},
      {"\U00010000", 4},
      {"\U0010ffff", 4},
      {"\x80", 0},              // The middle of a character.
      {"\xc3", 0},              // A character that ends too early.
      {"\xc3x", 0},             // A character that ends too early, before another one.
      {"\xc1\xbf", 0},          // Longer than needed.
      {"\xe0\x9f\xbf", 0},      // Longer than needed.
      {"\xf0\x8f\xbf\xbf", 0},  // Longer than needed.
      {"\xed\xa0\x80", 0},      // Half of a UTF-16 pair.
      {"\xf4\x90\x80\x80", 0},  // Beyond the last character.
      {"\xf5\x80\x80\x80", 0},  // Beyond the last character.
  };
  for (const Row& row : rows) EXPECT_EQ(utf8_character_bytes(row.text), row.bytes) << row.text;
}

TEST(CountCharacters, IsNotTheNumberOfBytes) {
  EXPECT_EQ(count_characters(""), 0U);
  EXPECT_EQ(count_characters("a\u00e9\u20ac\U0001f600"), 4U);
}

TEST(Trim, RemovesBlanksOnBothSides) {
  EXPECT_EQ(trim(" \r\n\t\v\fan  error \n"), "an  error");
  EXPECT_EQ(trim("word"), "word");
  EXPECT_EQ(trim(" \n "), "");
  EXPECT_EQ(trim(""), "");
}

TEST(ToLower, ChangesLettersOfAsciiOnly) {
  EXPECT_EQ(to_lower("AZ az [`{ 09"), "az az [`{ 09");
  EXPECT_EQ(to_lower("\u00c9"), "\u00c9");
}

TEST(ParseNumber, TakesTheSmallestAndTheLargestOfItsType) {
  EXPECT_EQ(parse_number<std::int64_t>("-9223372036854775808"), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(parse_number<std::int64_t>("-9223372036854775809"), std::nullopt);
  EXPECT_EQ(parse_number<std::uint16_t>("65535"), 65535);
  EXPECT_EQ(parse_number<unsigned>("ff", 16), 255U);
  EXPECT_EQ(parse_number<unsigned>("8", 8), std::nullopt);
}

TEST(ParseNumber, ReadsTheWholeTextOrNothing) {
  EXPECT_EQ(parse_number<int>("12"), 12);
  EXPECT_EQ(parse_number<int>("-12"), -12);
  EXPECT_EQ(parse_number<int>("007"), 7);
  EXPECT_EQ(parse_number<unsigned>("0660", 8), 0660U);
  EXPECT_EQ(parse_number<std::int64_t>("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
  for (const char* text : {"", "-", "+1", " 1", "1 ", "1.5", "1x", "x", "9223372036854775808"})
    EXPECT_EQ(parse_number<std::int64_t>(text), std::nullopt) << text;
  EXPECT_EQ(parse_number<std::uint16_t>("65536"), std::nullopt);
  EXPECT_EQ(parse_number<std::uint16_t>("-1"), std::nullopt);
}

TEST(TakeNumber, LeavesWhatFollowsTheDigits) {
  std::string_view text = "0012m30s";
  EXPECT_EQ(take_number<std::int64_t>(text), 12);
  EXPECT_EQ(text, "m30s");
}

TEST(TakeNumber, LeavesTheTextWhereItTakesNothing) {
  for (const std::string_view whole : {"", "-1", "+1", " 1", "x1", "9223372036854775808 bytes"}) {
    std::string_view text = whole;
    EXPECT_EQ(take_number<std::int64_t>(text), std::nullopt) << whole;
    EXPECT_EQ(text, whole);
  }
}

}  // namespace
}  // namespace trainyard
