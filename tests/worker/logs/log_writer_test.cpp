#include "worker/logs/log_writer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "tests/fakes/fake_clock.hpp"
#include "tests/fakes/faulty_store.hpp"
#include "tests/fakes/gate.hpp"
#include "tests/fakes/memory_store.hpp"
#include "tests/worker/logs/a_record.hpp"

namespace trainyard::logs {
namespace {

using namespace std::chrono_literals;
using api::LogFile;

constexpr auto patience = 60s;
const Error away{ErrorKind::unavailable, "the store is away", std::nullopt};

class ALogWriter : public testing::Test {
 protected:
  using OnPut = std::function<std::optional<Error>(std::string_view key)>;

  std::unique_ptr<LogWriter> open(WriterSettings settings, OnPut on_put = nullptr) {
    auto store =
        std::make_unique<fakes::FaultyStore>(std::make_unique<fakes::MemoryStore>(objects),
                                             [on_put = std::move(on_put)](std::string_view call, std::string_view key,
                                                                          storage::Pieces) -> std::optional<Error> {
                                               return call == "put" && on_put ? on_put(key) : std::nullopt;
                                             });
    return std::make_unique<LogWriter>(std::move(store), clock, std::move(settings));
  }
  std::string text_of(LogFile file, std::int64_t part = 1, const std::string& folder = "") {
    fakes::MemoryStore store{objects};
    return storage::get_text(store, folder + key_of(file, {.run_began = midnight, .attempt = 1, .part = part}))
        .value_or("absent");
  }

  fakes::MemoryObjects objects;
  fakes::FakeClock clock;
};

std::string lines(std::initializer_list<std::int64_t> steps) {
  std::string text;
  for (const std::int64_t step : steps) text += encode(LogFile::jsonl, a_record(step, {{"loss", 1.0}}));
  return text;
}

TEST_F(ALogWriter, WritesEachKindOfFileIntoItsFolder) {
  const auto writer = open({.files = {LogFile::tensorboard, LogFile::jsonl, LogFile::csv}, .folder = "logs/"});
  const Start start{.time = midnight};
  const Record record = a_record(1, {{"loss", 1.0}});
  writer->add(start);
  writer->add(record);
  ASSERT_TRUE(writer->finish(patience));
  for (const LogFile file : {LogFile::tensorboard, LogFile::jsonl, LogFile::csv}) {
    EXPECT_EQ(text_of(file, 1, "logs/"), header_of(file, midnight) + encode(file, start) + encode(file, record));
  }
  EXPECT_EQ(objects.objects.size(), 3U);
}

TEST_F(ALogWriter, PutsNothingMoreBeforeTheIntervalIsOver) {
  fakes::Gate first, second;
  second.open();
  std::atomic<int> puts = 0;
  const auto writer = open({.files = {LogFile::jsonl}}, [&](std::string_view) -> std::optional<Error> {
    ++puts == 1 ? first.pass() : second.pass();
    return std::nullopt;
  });
  writer->add(a_record(1, {{"loss", 1.0}}));
  first.wait_for_arrival();
  writer->add(a_record(2, {{"loss", 1.0}}));
  first.open();
  clock.advance(9s);
  writer->add(a_record(3, {{"loss", 1.0}}));
  EXPECT_EQ(puts, 1);
  clock.advance(1s);
  writer->add(a_record(4, {{"loss", 1.0}}));
  second.wait_for_arrival();
  ASSERT_TRUE(writer->finish(patience));
  EXPECT_EQ(text_of(LogFile::jsonl), lines({1, 2, 3, 4}));
}

TEST_F(ALogWriter, HoldsUpNoCallerHoweverSlowTheStoreIsAndCountsWhatItDrops) {
  fakes::Gate gate;
  const auto writer =
      open({.files = {LogFile::jsonl}, .queued_values_max = 2}, [&](std::string_view) -> std::optional<Error> {
        gate.pass();
        return std::nullopt;
      });
  writer->add(a_record(1, {{"loss", 1.0}}));
  gate.wait_for_arrival();
  for (const std::int64_t step : {2, 3, 4, 5}) writer->add(a_record(step, {{"loss", 1.0}}));
  gate.open();
  testing::internal::CaptureStderr();
  ASSERT_TRUE(writer->finish(patience));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("lines=2"));
  EXPECT_EQ(text_of(LogFile::jsonl), lines({1, 2, 3}));
}

TEST_F(ALogWriter, DropsARecordWhoseImagesHaveNoRoom) {
  fakes::Gate gate;
  const auto writer =
      open({.files = {LogFile::jsonl}, .queued_image_bytes_max = 30}, [&](std::string_view) -> std::optional<Error> {
        gate.pass();
        return std::nullopt;
      });
  writer->add(a_record(1, {{"loss", 1.0}}));
  gate.wait_for_arrival();
  for (const std::int64_t step : {2, 3}) {
    Record record = a_record(step, {{"loss", 1.0}});
    record.images = {an_image("samples", step)};
    writer->add(record);
  }
  gate.open();
  ASSERT_TRUE(writer->finish(patience));
  EXPECT_EQ(text_of(LogFile::jsonl), lines({1, 2}));
}

TEST_F(ALogWriter, HasRoomForImagesAgainOnceEarlierOnesAreWritten) {
  const auto writer = open({.files = {LogFile::jsonl}, .queued_image_bytes_max = 30});
  for (const std::int64_t step : {1, 2, 3}) {
    Record record = a_record(step, {{"loss", 1.0}});
    record.images = {an_image("samples", step)};
    writer->add(record);
    ASSERT_TRUE(writer->finish(patience));
  }
  EXPECT_EQ(text_of(LogFile::jsonl), lines({1, 2, 3}));
}

TEST_F(ALogWriter, CountsWhatItDroppedAlsoWhenTheStoreNeverAnswers) {
  fakes::Gate gate;
  const auto writer =
      open({.files = {LogFile::jsonl}, .queued_values_max = 1}, [&](std::string_view) -> std::optional<Error> {
        gate.pass();
        return std::nullopt;
      });
  writer->add(a_record(1, {{"loss", 1.0}}));
  gate.wait_for_arrival();
  for (const std::int64_t step : {2, 3, 4}) writer->add(a_record(step, {{"loss", 1.0}}));
  testing::internal::CaptureStderr();
  EXPECT_FALSE(writer->finish(0ms));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("lines=2"));
  gate.open();
}

TEST_F(ALogWriter, TriesAgainWhatCouldNotBePut) {
  testing::internal::CaptureStderr();
  std::atomic<bool> is_away = true;
  const auto writer =
      open({.files = {LogFile::jsonl}}, [&](std::string_view) { return is_away ? std::optional{away} : std::nullopt; });
  writer->add(a_record(1, {{"loss", 1.0}}));
  EXPECT_FALSE(writer->finish(patience));
  EXPECT_FALSE(writer->finish(patience));
  is_away = false;
  EXPECT_TRUE(writer->finish(patience));
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, testing::HasSubstr("the store is away"));
  EXPECT_EQ(log.find("the store is away"), log.rfind("the store is away")) << "logged more than once in a minute";
  EXPECT_THAT(log, testing::HasSubstr("log files are written again"));
  EXPECT_EQ(text_of(LogFile::jsonl), lines({1}));
}

TEST_F(ALogWriter, DropsWhatHasNoRoomInPartsWhileTheStoreFails) {
  std::atomic<bool> is_away = true;
  const std::size_t line_bytes = lines({1}).size();
  const auto writer =
      open({.files = {LogFile::jsonl}, .parts = {.part_bytes = line_bytes, .held_bytes = 2 * line_bytes}},
           [&](std::string_view) { return is_away ? std::optional{away} : std::nullopt; });
  for (const std::int64_t step : {1, 2, 3}) writer->add(a_record(step, {{"loss", 1.0}}));
  EXPECT_FALSE(writer->finish(patience));
  is_away = false;
  EXPECT_TRUE(writer->finish(patience));
  EXPECT_EQ(text_of(LogFile::jsonl, 1) + text_of(LogFile::jsonl, 2), lines({1, 2}));
  EXPECT_EQ(text_of(LogFile::jsonl, 3), "absent");
}

TEST_F(ALogWriter, DropsALineOnlyFromTheFileThatHasNoRoomForIt) {
  const auto csv_of = [](std::int64_t step) { return encode(LogFile::csv, a_record(step, {{"loss", 1.0}})); };
  const std::string csv = header_of(LogFile::csv, midnight) + csv_of(1) + csv_of(2) + csv_of(3);
  const std::size_t room = 2 * lines({1}).size();
  ASSERT_LE(csv.size(), room) << "three lines of the shorter kind have room, and two of the longer";
  std::atomic<bool> is_away = true;
  const auto writer =
      open({.files = {LogFile::jsonl, LogFile::csv}, .parts = {.part_bytes = 2 * room, .held_bytes = room}},
           [&](std::string_view) { return is_away ? std::optional{away} : std::nullopt; });
  for (const std::int64_t step : {1, 2, 3}) writer->add(a_record(step, {{"loss", 1.0}}));
  EXPECT_FALSE(writer->finish(patience));
  is_away = false;
  EXPECT_TRUE(writer->finish(patience));
  EXPECT_EQ(text_of(LogFile::jsonl), lines({1, 2}));
  EXPECT_EQ(text_of(LogFile::csv), csv);
}

TEST_F(ALogWriter, SurvivesAStoreThatThrows) {
  const auto writer = open({.files = {LogFile::jsonl}}, [](std::string_view) -> std::optional<Error> {
    throw std::runtime_error{"a bug of the store's"};
  });
  writer->add(a_record(1, {{"loss", 1.0}}));
  EXPECT_FALSE(writer->finish(patience));
}

TEST_F(ALogWriter, GivesUpWaitingForAStoreThatDoesNotAnswer) {
  fakes::Gate gate;
  const auto writer = open({.files = {LogFile::jsonl}}, [&](std::string_view) -> std::optional<Error> {
    gate.pass();
    return std::nullopt;
  });
  writer->add(a_record(1, {{"loss", 1.0}}));
  gate.wait_for_arrival();
  EXPECT_FALSE(writer->finish(0ms));
  gate.open();
}

TEST_F(ALogWriter, PutsWhatWasAddedWhenItIsDestroyed) {
  auto writer = open({.files = {LogFile::jsonl}});
  writer->add(a_record(1, {{"loss", 1.0}}));
  writer->add(a_record(2, {{"loss", 1.0}}));
  writer.reset();
  EXPECT_EQ(text_of(LogFile::jsonl), lines({1, 2}));
}

}  // namespace
}  // namespace trainyard::logs
