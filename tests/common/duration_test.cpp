#include "common/time_text.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace trainyard {
namespace {

using namespace std::chrono_literals;

TEST(ParseDuration, ReadsEachUnitAndTheirSums) {
  const std::vector<std::pair<std::string, std::chrono::milliseconds>> cases{
      {"90s", 90s}, {"5m", 5min},       {"1h30m", 90min},      {"250ms", 250ms}, {"1h2m3s4ms", 1h + 2min + 3s + 4ms},
      {"0s", 0s},   {"87600h", 87600h}, {"87599h60m", 87600h}, {"007s", 7s}};
  for (const auto& [text, duration] : cases) EXPECT_EQ(parse_duration(text), duration) << text;
}

TEST(ParseDuration, RefusesWhatIsNoDurationAndSaysHowToWriteOne) {
  for (const std::string text :
       {"",        "5",         "m",        "-5s",    "5 s", "5s3m", "5s5s", "1.5h", "5d",    "99999999999999999999s",
        "200000h", "87600h1ms", "87600h1m", "87601h", "+5s", "5S",   "5s ",  " 5s",  "5ms3s", "1h30",
        "5sm"}) {
    const auto duration = parse_duration(text);
    ASSERT_FALSE(duration) << text;
    EXPECT_EQ(duration.error().kind, ErrorKind::invalid);
    EXPECT_EQ(duration.error().message, "'" + text + "' is no duration; write it like 90s, 5m or 1h30m");
  }
}

TEST(FormatDuration, IsReadBackToTheSameValue) {
  for (const auto duration : {0ms, 1ms, 1500ms, 90'000ms, 3'600'000ms, 5'430'001ms}) {
    EXPECT_EQ(parse_duration(format_duration(duration)), duration) << format_duration(duration);
  }
  const std::vector<std::pair<std::chrono::milliseconds, std::string>> cases{
      {90min, "1h30m"}, {1h, "1h"},       {1min, "1m"}, {1s, "1s"},
      {1ms, "1ms"},     {999ms, "999ms"}, {26h, "26h"}, {0ms, "0s"}};
  for (const auto& [duration, text] : cases) EXPECT_EQ(format_duration(duration), text);
}

}  // namespace
}  // namespace trainyard
