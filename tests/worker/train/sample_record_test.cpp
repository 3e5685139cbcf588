#include "worker/train/sample_record.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <fstream>

#include "tests/fakes/temporary_folder.hpp"

namespace trainyard::train {
namespace {

TEST(SampleRecord, AppendsOneLineAStep) {
  const fakes::TemporaryFolder folder;
  const std::string file = folder.path() + "/samples";
  for (const std::int64_t attempt : {1, 2}) {
    auto record = SampleRecord::open(file, attempt, 3);
    ASSERT_TRUE(record.has_value()) << record.error().message;
    ASSERT_TRUE(record->write(7, torch::arange(0, 60, 5).slice(0, 2, 6, 2)).has_value());
  }
  std::ifstream in{file};
  const std::string text{std::istreambuf_iterator<char>{in}, {}};
  EXPECT_EQ(text,
            "{\"attempt\": 1, \"step\": 7, \"rank\": 3, \"ids\": [10, 20]}\n"
            "{\"attempt\": 2, \"step\": 7, \"rank\": 3, \"ids\": [10, 20]}\n");
}

TEST(SampleRecord, NamesAFileThatCannotBeOpened) {
  const auto record = SampleRecord::open("/nowhere/at/all", 1, 0);
  ASSERT_FALSE(record.has_value());
  EXPECT_THAT(record.error().message, testing::HasSubstr("/nowhere/at/all"));
}

TEST(SampleRecord, SaysWhenTheDiskIsFull) {
  auto record = SampleRecord::open("/dev/full", 1, 0);
  ASSERT_TRUE(record.has_value()) << record.error().message;
  const auto written = record->write(1, torch::arange(3));
  ASSERT_FALSE(written.has_value());
  EXPECT_EQ(written.error().kind, ErrorKind::io);
}

}  // namespace
}  // namespace trainyard::train
