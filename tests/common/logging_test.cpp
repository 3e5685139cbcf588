#include "common/logging.hpp"

#include <gtest/gtest.h>

namespace trainyard::logging {
namespace {

constexpr std::string_view time = "2026-11-21T10:00:00.123000Z";

TEST(FormatLine, IsOneJsonObjectWithTheFieldsInOrder) {
  EXPECT_EQ(format_line(Format::json, Level::warn, time, "watch ended", {{"job", "a/b"}, {"attempt", 2}}),
            R"({"time":"2026-11-21T10:00:00.123000Z","level":"warn","message":"watch ended","job":"a/b","attempt":2})");
}

TEST(FormatLine, IsReadableTextForPeople) {
  EXPECT_EQ(format_line(Format::text, Level::info, time, "watch ended", {{"job", "a/b"}, {"attempt", 2}}),
            "10:00:00.123 info  watch ended  job=a/b  attempt=2");
}

TEST(FormatLine, KeepsGoingOnBytesThatAreNoUtf8) {
  EXPECT_EQ(
      format_line(Format::json, Level::info, time, "output", {{"line", "\xff"}}),
      "{\"time\":\"2026-11-21T10:00:00.123000Z\",\"level\":\"info\",\"message\":\"output\",\"line\":\"\xef\xbf\xbd\"}");
}

}  // namespace
}  // namespace trainyard::logging
