// TensorBoard reads the event files.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "storage/file_store.hpp"
#include "tests/fakes/fake_clock.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/paths/paths.hpp"
#include "tests/skips.hpp"
#include "tests/worker/logs/a_record.hpp"
#include "worker/logs/log_writer.hpp"

namespace trainyard::logs {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

class TensorBoard : public testing::Test {
 protected:
  void SetUp() override {
    const std::string finds =
        " -c 'import importlib.util as u; exit(u.find_spec(\"tensorboard\") is None)' 2>/dev/null";
    if (std::system((paths::torch_python() + finds).c_str()) != 0)
      tests::cannot_run("Python's tensorboard is missing: scripts/setup test installs it");
  }

  /// Writes the records of one attempt.
  void write(const Start& start, const std::vector<Record>& records, PartLimits limits = {}) {
    LogWriter writer{std::make_unique<storage::FileStore>(folder.path() + "/events"),
                     clock,
                     {.files = {api::LogFile::tensorboard}, .attempt = start.attempt, .parts = limits}};
    writer.add(start);
    for (const Record& record : records) writer.add(record);
    ASSERT_TRUE(writer.finish(60s));
    clock.advance(100s);
  }
  json read() {
    const std::string file = folder.path() + "/found.json";
    const std::string command =
        fmt::format("{} {} {} > {} 2> {}.log", paths::torch_python(),
                    paths::source("tests/worker/logs/tensorboard_oracle.py"), folder.path() + "/events", file, file);
    EXPECT_EQ(std::system(command.c_str()), 0);
    std::ifstream found{file};
    return json::parse(found, nullptr, /*allow_exceptions=*/false);
  }

  fakes::TemporaryFolder folder;
  fakes::FakeClock clock;
};

double seconds(Time time) {
  return std::chrono::duration<double>{time.time_since_epoch()}.count();
}

TEST_F(TensorBoard, ReadsScalarsAndImages) {
  Record second = a_record(2, {{"loss", std::numeric_limits<double>::quiet_NaN()}, {"na\xffme", 0.5}});
  second.images = {an_image("samples", 2)};
  Record epoch = a_record(2, {{"loss", -0.25}});
  epoch.over = snapshot::Over::epoch;
  write({.time = midnight}, {a_record(1, {{"loss", 1.5}}), second, epoch});
  const double t1 = seconds(midnight + 1s), t2 = seconds(midnight + 2s);
  EXPECT_EQ(read(), (json{{"scalars loss", {{1, t1, 1.5}, {2, t2, "nan"}}},
                          {"scalars epoch/loss", {{2, t2, -0.25}}},
                          {"scalars na\xef\xbf\xbdme", {{2, t2, 0.5}}},
                          {"images samples", {{2, t2, {4, 2, "89504e470d0a1a0a"}}}}}));
}

TEST_F(TensorBoard, DropsTheStepsThatALaterAttemptRepeats) {
  write({.time = midnight}, {a_record(1, {{"loss", 1.0}}), a_record(2, {{"loss", 2.0}}), a_record(3, {{"loss", 3.0}})});
  const Time later = clock.now();
  Record again = a_record(3, {{"loss", 30.0}});
  again.time = later;
  write({.attempt = 2, .step = 2, .time = later}, {again});
  EXPECT_EQ(read(),
            (json{{"scalars loss",
                   {{1, seconds(midnight + 1s), 1.0}, {2, seconds(midnight + 2s), 2.0}, {3, seconds(later), 30.0}}}}));
}

TEST_F(TensorBoard, ReadsAllPartsInOrder) {
  std::vector<Record> records;
  json points = json::array();
  for (std::int64_t step = 1; step <= 12; ++step) {
    records.push_back(a_record(step, {{"loss", static_cast<double>(step)}}));
    points.push_back({step, seconds(midnight + std::chrono::seconds{step}), static_cast<double>(step)});
  }
  write({.time = midnight}, records, {.part_bytes = 1, .held_bytes = 100'000});
  EXPECT_EQ(read(), (json{{"scalars loss", points}}));
}

}  // namespace
}  // namespace trainyard::logs
