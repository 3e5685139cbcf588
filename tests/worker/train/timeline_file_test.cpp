#include "worker/train/timeline_file.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "tests/fakes/fake_clock.hpp"
#include "tests/fakes/faulty_store.hpp"
#include "tests/fakes/gate.hpp"
#include "tests/fakes/memory_store.hpp"

namespace trainyard::train {
namespace {

using namespace std::chrono_literals;

constexpr auto timeline_patience = 60s;

std::unique_ptr<TimelineFile> open_in(fakes::MemoryObjects& objects, const fakes::FakeClock& clock,
                                      std::function<std::optional<Error>()> on_put = {}) {
  auto store = std::make_unique<fakes::FaultyStore>(
      std::make_unique<fakes::MemoryStore>(objects),
      [on_put = std::move(on_put)](std::string_view call, std::string_view, storage::Pieces) -> std::optional<Error> {
        return call == "put" && on_put ? on_put() : std::nullopt;
      });
  return std::make_unique<TimelineFile>(LogPlace{.store = std::move(store), .folder = "logs/"}, "timeline.json", 1,
                                        clock);
}

TEST(TimelineFile, HasWhatWasRecorded) {
  fakes::MemoryObjects objects;
  const fakes::FakeClock clock;
  const auto file = open_in(objects, clock);
  const std::size_t track = file->timeline().add_track("bucket", 8);
  file->timeline().note_filled(track);
  file->timeline().note_sent(track);
  file->timeline().note_finished(track);
  ASSERT_TRUE(file->finish(timeline_patience));
  fakes::MemoryStore store{objects};
  const auto text = storage::get_text(store, "logs/timeline.json");
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(nlohmann::json::parse(*text), file->timeline().chrome_trace(1));
}

TEST(TimelineFile, IsNotThereWhereTheStoreFailsAndEndsNothing) {
  fakes::MemoryObjects objects;
  const fakes::FakeClock clock;
  const auto file = open_in(objects, clock, [] {
    return Error{.kind = ErrorKind::unavailable, .message = "no such bucket", .retry_after = {}};
  });
  EXPECT_TRUE(file->finish(timeline_patience));
  fakes::MemoryStore store{objects};
  EXPECT_FALSE(storage::get_text(store, "logs/timeline.json"));
}

TEST(TimelineFile, IsNotWaitedForWithoutEnd) {
  fakes::MemoryObjects objects;
  const fakes::FakeClock clock;
  fakes::Gate gate;
  const auto file = open_in(objects, clock, [&gate]() -> std::optional<Error> {
    gate.pass();
    return std::nullopt;
  });
  EXPECT_FALSE(file->finish(0ms));
  gate.open();
}

TEST(OpenTimeline, OpensTheOneOfAJobThatAsksForIt) {
  const fakes::FakeClock clock;
  Job job;
  job.training.log_uri = "file:///tmp/trainyard-no-such-folder";
  EXPECT_EQ(*open_timeline(job, clock, 1, 0), nullptr);
  job.training.strategy.timeline = true;
  EXPECT_NE(*open_timeline(job, clock, 1, 0), nullptr);
  job.training.log_uri = "ftp://nowhere";
  EXPECT_FALSE(open_timeline(job, clock, 1, 0));
  EXPECT_EQ(timeline_key(Time{1234ms}, 7, 2), "timeline.0000000001234000.0007.rank-2.json");
}

}  // namespace
}  // namespace trainyard::train
