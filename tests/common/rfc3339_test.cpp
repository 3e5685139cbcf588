#include "common/time_text.hpp"

#include <gtest/gtest.h>

namespace trainyard {
namespace {

using namespace std::chrono_literals;

const Time ten_o_clock{std::chrono::sys_days{std::chrono::year{2026} / 11 / 21} + 10h};

TEST(FormatRfc3339, WritesKubernetesTwoForms) {
  EXPECT_EQ(format_rfc3339(ten_o_clock + 123ms), "2026-11-21T10:00:00Z");
  EXPECT_EQ(format_rfc3339_micro(ten_o_clock + 123ms), "2026-11-21T10:00:00.123000Z");
}

TEST(FormatRfc3339, PadsEveryPart) {
  const Time early{std::chrono::sys_days{std::chrono::year{999} / 1 / 2} + 3h + 4min + 5s + 6ms};
  EXPECT_EQ(format_rfc3339_micro(early), "0999-01-02T03:04:05.006000Z");
  EXPECT_EQ(parse_rfc3339("0999-01-02T03:04:05.006000Z"), early);
}

TEST(ParseRfc3339, KnowsLeapYears) {
  EXPECT_TRUE(parse_rfc3339("2028-02-29T00:00:00Z"));
  EXPECT_FALSE(parse_rfc3339("2027-02-29T00:00:00Z"));
}

TEST(ParseRfc3339, ReadsFractionsAndOffsets) {
  const std::vector<std::pair<std::string, Time>> cases{{"2026-11-21T10:00:00Z", ten_o_clock},
                                                        {"2026-11-21T10:00:00.1Z", ten_o_clock + 100ms},
                                                        {"2026-11-21T10:00:00.123456Z", ten_o_clock + 123ms},
                                                        {"2026-11-21T12:30:00+02:30", ten_o_clock},
                                                        {"2026-11-21T08:00:00-02:00", ten_o_clock},
                                                        {"2026-11-21T06:30:00-03:30", ten_o_clock},
                                                        {"2026-11-21T10:00:00+00:00", ten_o_clock},
                                                        {"2026-11-22T09:59:00+23:59", ten_o_clock}};
  for (const auto& [text, time] : cases) EXPECT_EQ(parse_rfc3339(text), time) << text;
}

TEST(ParseRfc3339, TakesTheLastHourMinuteAndSecondOfADay) {
  EXPECT_EQ(parse_rfc3339("2026-11-20T23:59:59Z"), ten_o_clock - 10h - 1s);
  EXPECT_EQ(parse_rfc3339("2026-11-20T23:59:60z"), ten_o_clock - 10h) << "a leap second";
}

TEST(ParseRfc3339, RefusesEverythingElse) {
  for (const std::string text : {"",
                                 "2026-11-21",
                                 "2026-11-21T10:00:00",
                                 "2026-13-21T10:00:00Z",
                                 "2026-02-30T10:00:00Z",
                                 "2026-11-21T24:00:00Z",
                                 "2026-11-21T10:60:00Z",
                                 "2026-11-21T10:00:61Z",
                                 "2026-11-21T10:00:00.Z",
                                 "2026-11-21T10:00:00Zjunk",
                                 "2026-11-21T10:00:00+24:00",
                                 "2026-11-21T10:00:00-00:60",
                                 "2026-00-21T10:00:00Z",
                                 "2026-11-00T10:00:00Z",
                                 "2026-11-31T10:00:00Z",
                                 "2026-11-21T10:00:00.1x",
                                 "+026-11-21T10:00:00Z",
                                 "2026x11-21T10:00:00Z",
                                 "2026-11x21T10:00:00Z",
                                 "2026-11-21x10:00:00Z",
                                 "2026-11-21T10x00:00Z",
                                 "2026-11-21T10:00x00Z",
                                 "2026-11-21T10:00:00x02:30",
                                 "2026-11-21T10:00:00+02x30",
                                 "2026-11-21T10:00:00+0230",
                                 "2026-11-21T10:00:00+02:3",
                                 "2026-11-21T10:00:00+02:",
                                 "2026-11-21T10:00:00+02",
                                 "2026-11-21T10:00:00+",
                                 "2026-1"}) {
    EXPECT_FALSE(parse_rfc3339(text)) << text;
  }
}

}  // namespace
}  // namespace trainyard
