#include "common/logging.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "tests/fakes/redirection.hpp"
#include "tests/fakes/temporary_folder.hpp"

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

TEST(FormatLine, OfTextHasTheValuesAsTheyAreAndTheOthersAsJson) {
  EXPECT_EQ(
      format_line(Format::text, Level::debug, time, "read",
                  {{"key", "a b"}, {"is_new", true}, {"parts", {1, "x"}}, {"bytes", {"\xff"}}, {"none", nullptr}}),
      "10:00:00.123 debug read  key=a b  is_new=true  parts=[1,\"x\"]  bytes=[\"\xef\xbf\xbd\"]  none=null");
  EXPECT_EQ(format_line(Format::text, Level::error, time, "gave up", {}), "10:00:00.123 error gave up");
}

TEST(Log, WritesTheLinesOfItsLevelsToStandardErrorAtOnce) {
  const fakes::TemporaryFolder folder;
  const auto written_at = [&](Level level) {
    const std::string file = folder.file(std::to_string(static_cast<int>(level))).string();
    set_up(Format::json, level);
    const fakes::Redirection to_file{STDERR_FILENO, file, O_WRONLY};
    debug("for developers", {});
    info("for readers", {{"step", 1}});
    warn("for attention", {});
    error("for action", {});
    return fakes::text_of(file);
  };
  const std::string from_info = written_at(Level::info);
  const std::string from_error = written_at(Level::error);
  const std::string from_debug = written_at(Level::debug);
  set_up(Format::text, Level::info);
  const std::string time_and_level = R"(\{"time":"[0-9T:.-]+Z","level":")";
  EXPECT_THAT(from_info, testing::ContainsRegex("^" + time_and_level + R"(info","message":"for readers","step":1\})"));
  EXPECT_THAT(from_info, testing::ContainsRegex(time_and_level + R"(warn","message":"for attention"\})"));
  EXPECT_THAT(from_info, testing::ContainsRegex(time_and_level + R"(error","message":"for action"\})"));
  EXPECT_EQ(std::ranges::count(from_info, '\n'), 3);
  EXPECT_EQ(std::ranges::count(from_error, '\n'), 1);
  EXPECT_EQ(std::ranges::count(from_debug, '\n'), 4);
}

}  // namespace
}  // namespace trainyard::logging
