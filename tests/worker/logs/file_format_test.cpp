#include "worker/logs/file_format.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "tests/worker/logs/a_record.hpp"

namespace trainyard::logs {
namespace {

using api::LogFile;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

TEST(KeyOf, SortsByTheRunThenTheAttemptThenThePart) {
  const PartName name{.run_began = midnight, .attempt = 2, .part = 13};
  EXPECT_EQ(key_of(LogFile::tensorboard, name), "events.out.tfevents.1767225600000000.0002-000013");
  EXPECT_EQ(key_of(LogFile::jsonl, name), "metrics.1767225600000000.0002-000013.jsonl");
  EXPECT_EQ(key_of(LogFile::csv, name), "metrics.1767225600000000.0002-000013.csv");
}

TEST(Encode, WritesValuesAsLinesOfJsonAndOfCsv) {
  struct Row {
    Record record;
    std::string json;
    std::string csv;
  };
  const std::string head =
      R"({"attempt":1,"step":1,"epoch":1,"time":"2026-01-01T00:00:01.000000Z","kind":"steps","metrics":)";
  const std::string time = ",2026-01-01T00:00:01.000000Z\n";
  const std::vector<Row> rows{
      {a_record(1, {{"loss", 0.1}, {"lr", 1e-5}}), R"({"loss":0.1,"lr":1e-05}})",
       "1,1,1,steps,loss,0.1" + time + "1,1,1,steps,lr,1e-05" + time},
      {a_record(1, {{"loss", 1.0 / 3.0}}), R"({"loss":0.3333333333333333}})",
       "1,1,1,steps,loss,0.3333333333333333" + time},
      {a_record(1, {{"a", not_a_number}, {"b", infinity}, {"c", -infinity}}), R"({"a":"nan","b":"inf","c":"-inf"}})",
       "1,1,1,steps,a,nan" + time + "1,1,1,steps,b,inf" + time + "1,1,1,steps,c,-inf" + time},
      {a_record(1, {{"a,\"b\"", 1.0}}), R"({"a,\"b\"":1.0}})", "1,1,1,steps,\"a,\"\"b\"\"\",1" + time},
      {a_record(1, {{"a\rb", 1.0}}), R"({"a\rb":1.0}})", "1,1,1,steps,\"a\rb\",1" + time},
      {a_record(1, {{"\xff", 1.0}}), "{\"\xef\xbf\xbd\":1.0}}", "1,1,1,steps,\xef\xbf\xbd,1" + time},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(encode(LogFile::jsonl, row.record), head + row.json + "\n");
    EXPECT_EQ(encode(LogFile::csv, row.record), row.csv);
  }
}

TEST(Encode, SaysWhatTheValuesAreOver) {
  Record record = a_record(1, {{"loss", 1.0}});
  record.over = snapshot::Over::epoch;
  EXPECT_EQ(encode(LogFile::csv, record), "1,1,1,epoch,loss,1,2026-01-01T00:00:01.000000Z\n");
  record.over = snapshot::Over::validation;
  EXPECT_EQ(encode(LogFile::csv, record), "1,1,1,validation,loss,1,2026-01-01T00:00:01.000000Z\n");
}

TEST(Encode, SaysWhereAnAttemptBegins) {
  const Start start{.attempt = 2, .step = 10, .epoch = 3, .time = midnight};
  EXPECT_EQ(encode(LogFile::jsonl, start),
            R"({"attempt":2,"step":10,"epoch":3,"time":"2026-01-01T00:00:00.000000Z","kind":"start","metrics":{}})"
            "\n");
  EXPECT_EQ(encode(LogFile::csv, start), "2,10,3,start,,,2026-01-01T00:00:00.000000Z\n");
}

TEST(Encode, WritesNoLineForImagesAlone) {
  Record record = a_record(1, {});
  record.images = {an_image("samples", 1)};
  EXPECT_EQ(encode(LogFile::jsonl, record), "");
  EXPECT_EQ(encode(LogFile::csv, record), "");
  EXPECT_NE(encode(LogFile::tensorboard, record), "");
}

TEST(Encode, WritesNumbersOfTensorBoardInGroupsOfSevenBits) {
  struct Row {
    std::int64_t step;
    std::string bytes;  // after the key of the field of the step
  };
  const std::vector<Row> rows{{127, "\x7f"},     {128, "\x80\x01"},    {255, "\xff\x01"},
                              {256, "\x80\x02"}, {16'383, "\xff\x7f"}, {16'384, "\x80\x80\x01"}};
  // A record's length and its checksum, then the event's time with its key.
  constexpr std::size_t bytes_before = 8 + 4 + 1 + 8;
  for (const Row& row : rows) {
    const std::string event = encode(LogFile::tensorboard, a_record(row.step, {{"loss", 1.0}}));
    EXPECT_EQ(event.substr(bytes_before, 1 + row.bytes.size()), "\x10" + row.bytes) << row.step;
  }
}

TEST(Encode, LeavesOutAnImageThatCannotBeEncoded) {
  Record record = a_record(1, {{"loss", 1.0}});
  const std::string without = encode(LogFile::tensorboard, record);
  record.images = {an_image("empty", 1)};
  record.images[0].planes = {.images = 1, .channels = 3, .height = 0, .width = 0, .bytes = {}};
  EXPECT_EQ(encode(LogFile::tensorboard, record), without);
}

TEST(HeaderOf, NamesTheColumnsOfCsvInEachPart) {
  EXPECT_EQ(header_of(LogFile::csv, midnight), "attempt,step,epoch,kind,name,value,time\n");
  EXPECT_EQ(header_of(LogFile::jsonl, midnight), "");
}

}  // namespace
}  // namespace trainyard::logs
