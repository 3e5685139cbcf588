#include "common/http_status.hpp"

#include <gtest/gtest.h>

namespace trainyard {
namespace {

using std::chrono::seconds;

TEST(ParseRetryAfter, ReadsSecondsAndBoundsThem) {
  EXPECT_EQ(parse_retry_after("0", seconds{60}), seconds{0});
  EXPECT_EQ(parse_retry_after("1", seconds{60}), seconds{1});
  EXPECT_EQ(parse_retry_after("86400", seconds{60}), seconds{60});
  EXPECT_EQ(parse_retry_after("9223372036854775807", seconds{300}), seconds{300});
}

TEST(ParseRetryAfter, IsEmptyForAnythingElse) {
  for (const char* value : {"", "-1", "soon", "1.5", "9223372036854775808", "Fri, 31 Dec 1999 23:59:59 GMT"})
    EXPECT_EQ(parse_retry_after(value, seconds{60}), std::nullopt) << value;
}

}  // namespace
}  // namespace trainyard
