#include "worker/logs/file_format.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/worker/logs/a_record.hpp"

namespace trainyard::logs {
namespace {

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

// The lengths and checksums were computed by the crc32c of PyPI's google-crc32c.
TEST(ToRecord, PutsTheLengthBeforeTheDataAndAMaskedChecksumAfterEach) {
  EXPECT_EQ(hex(to_record("")), "000000000000000029039807d8ea82a2");
  EXPECT_EQ(hex(to_record("abc")),
            "0300000000000000"
            "b099490e"
            "616263"
            "6e57f121");
}

TEST(EventFile, SaysOfAnAttemptThatItBeginsAfterTheStepsThatAreDone) {
  const std::string event = event_of(Start{.attempt = 2, .step = 10, .epoch = 1, .time = midnight});
  // step (field 2): 11; session_log (field 7): status (field 1): START.
  EXPECT_THAT(hex(event), testing::HasSubstr("100b"
                                             "3a020801"));
}

TEST(EventFile, PutsBytesOfANameThatAreNoTextInATagThatIs) {
  EXPECT_THAT(event_of_values(a_record(1, {{"lo\xffss", 1.0}})), testing::HasSubstr("lo\xef\xbf\xbdss"));
}

TEST(EventFile, TellsAnEpochsValueFromAStepsByItsTag) {
  Record record = a_record(1, {{"loss", 1.0}});
  EXPECT_THAT(event_of_values(record), testing::Not(testing::HasSubstr("epoch/loss")));
  record.over = snapshot::Over::epoch;
  EXPECT_THAT(event_of_values(record), testing::HasSubstr("epoch/loss"));
  record.over = snapshot::Over::validation;
  EXPECT_THAT(event_of_values(record), testing::HasSubstr("validation/loss"));
}

}  // namespace
}  // namespace trainyard::logs
