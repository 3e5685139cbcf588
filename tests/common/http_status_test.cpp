#include "common/http_status.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace trainyard {
namespace {

using std::chrono::seconds;

TEST(KindOfHttpStatus, SaysWhatTheCallerCanDo) {
  const std::vector<std::pair<long, ErrorKind>> cases{
      {301, ErrorKind::invalid},     {400, ErrorKind::invalid},     {401, ErrorKind::unauthorized},
      {403, ErrorKind::forbidden},   {404, ErrorKind::not_found},   {408, ErrorKind::timeout},
      {409, ErrorKind::conflict},    {410, ErrorKind::gone},        {422, ErrorKind::invalid},
      {429, ErrorKind::throttled},   {499, ErrorKind::invalid},     {500, ErrorKind::unavailable},
      {502, ErrorKind::unavailable}, {503, ErrorKind::unavailable}, {504, ErrorKind::timeout},
      {599, ErrorKind::unavailable}};
  for (const auto& [status, kind] : cases) EXPECT_EQ(kind_of_http_status(status), kind) << status;
}

TEST(ParseRetryAfter, ReadsSecondsAndBoundsThem) {
  EXPECT_EQ(parse_retry_after("0", seconds{60}), seconds{0});
  EXPECT_EQ(parse_retry_after("1", seconds{60}), seconds{1});
  EXPECT_EQ(parse_retry_after("60", seconds{60}), seconds{60});
  EXPECT_EQ(parse_retry_after("86400", seconds{60}), seconds{60});
  EXPECT_EQ(parse_retry_after("9223372036854775807", seconds{300}), seconds{300});
}

TEST(ParseRetryAfter, IsEmptyForAnythingElse) {
  for (const char* value :
       {"", "-1", "+1", " 1", "1 ", "1s", "soon", "1.5", "9223372036854775808", "Fri, 31 Dec 1999 23:59:59 GMT"})
    EXPECT_EQ(parse_retry_after(value, seconds{60}), std::nullopt) << value;
}

}  // namespace
}  // namespace trainyard
