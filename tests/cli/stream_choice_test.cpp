#include "cli/stream_choice.hpp"

#include <gtest/gtest.h>

#include <string>

namespace trainyard::cli {
namespace {

TEST(StreamChoice, ReadsTorchrunsForms) {
  const auto both = StreamChoice::parse("3").value();
  EXPECT_TRUE(both.has_output(7));
  EXPECT_TRUE(both.has_error(7));
  const auto by_rank = StreamChoice::parse("0:1,2:2").value();
  EXPECT_TRUE(by_rank.has_output(0));
  EXPECT_FALSE(by_rank.has_error(0));
  EXPECT_FALSE(by_rank.has_output(1));
  EXPECT_TRUE(by_rank.has_error(2));
}

TEST(StreamChoice, RefusesAnythingElseAndSaysWhatIsRight) {
  for (const std::string text : {"", "4", "-1", "x", "0:", "0:4", ":1", "0:1,,1:1", "0:1;1:2"}) {
    const auto choice = StreamChoice::parse(text);
    ASSERT_FALSE(choice) << text;
    EXPECT_EQ(choice.error().kind, ErrorKind::invalid);
  }
  EXPECT_EQ(
      StreamChoice::parse("9").error().message,
      "'9': must be 0 (none), 1 (standard output), 2 (standard error) or 3 (both), or such a number for each rank like "
      "0:1,2:3");
}

}  // namespace
}  // namespace trainyard::cli
