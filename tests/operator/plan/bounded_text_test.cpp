#include "operator/plan/bounded_text.hpp"

#include <gtest/gtest.h>

namespace trainyard::plan {
namespace {

TEST(BoundedText, KeepsTheEndOfALongText) {
  const std::string text = bounded_text(std::string(5'000, 'a') + "the error");
  EXPECT_EQ(text.size(), message_bytes_max);
  EXPECT_TRUE(text.starts_with("... a"));
  EXPECT_TRUE(text.ends_with("the error"));
}

TEST(BoundedText, TrimsBlanksAndLeavesShortTextsAlone) {
  EXPECT_EQ(bounded_text(" \n an error \n"), "an error");
  EXPECT_EQ(bounded_text(" \n "), "");
}

TEST(BoundedText, CutsNoCharacterInTwo) {
  std::string text;
  for (int i = 0; i < 1'000; ++i) text += "\u00e9";
  for (int shift = 0; shift < 2; ++shift, text += "x") {
    const std::string bounded = bounded_text(text);
    EXPECT_TRUE(bounded.starts_with("... \u00e9")) << shift;
    EXPECT_LE(bounded.size(), message_bytes_max);
  }
}

}  // namespace
}  // namespace trainyard::plan
