#include "operator/manager/progress_reading.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace trainyard::manager {
namespace {

using std::chrono::seconds;

const Time now{std::chrono::sys_days{std::chrono::year{2026} / 1 / 1}};

Result<plan::ProgressReport> read(const std::string& fields) {
  return read_progress(R"({"uid":"u","attempt":2)" + fields + "}", "u", 2, now);
}

TEST(ReadProgress, TakesWhatTheContractNames) {
  const auto report = read(
      R"(,"rank":0,"phase":"Training","epoch":1,"step":512,"totalSteps":900,"loss":0.4,"accuracy":0.9,"samplesPerSecond":2400.5,)"
      R"("etaSeconds":90,"checkpoint":{"step":400,"uri":"s3://b/c","time":"2026-01-01T00:00:00Z","bytes":7,)"
      R"("durationSeconds":1.25},"checkpointError":"away","waitingFor":"rank 1")");
  ASSERT_TRUE(report) << report.error().message;
  const plan::ProgressReport expected{
      .attempt = 2,
      .epoch = 1,
      .step = 512,
      .total_steps = 900,
      .loss = 0.4,
      .accuracy = 0.9,
      .samples_per_second = 2400.5,
      .estimated_end = now + seconds{90},
      .checkpoint =
          resource::CheckpointStatus{.step = 400, .uri = "s3://b/c", .time = now, .bytes = 7, .duration_seconds = 1.25},
      .checkpoint_error = "away",
      .waiting_for = "rank 1",
      .unavailable_because = {}};
  EXPECT_EQ(*report, expected);
}

TEST(ReadProgress, LeavesOutWhatDoesNotApplyYet) {
  EXPECT_EQ(read(""), (plan::ProgressReport{.attempt = 2}));
}

TEST(ReadProgress, ReadsALossOfNullAsOneThatIsNotFinite) {
  const auto report = read(R"(,"loss":null)");
  ASSERT_TRUE(report && report->loss);
  EXPECT_TRUE(std::isnan(*report->loss));
}

TEST(ReadProgress, ForgivesFieldsOfAnotherType) {
  EXPECT_EQ(read(R"(,"step":"x","epoch":-1,"loss":"y","etaSeconds":-3,"checkpoint":{"step":[]},"waitingFor":4)"),
            (plan::ProgressReport{.attempt = 2}));
  EXPECT_EQ(read(R"(,"etaSeconds":1e300,"checkpoint":[],"totalSteps":1.5)"), (plan::ProgressReport{.attempt = 2}));
}

TEST(ReadProgress, DoesNotTakeTheAnswerOfAnotherJobOrAttempt) {
  for (const char* answer : {R"({"uid":"other","attempt":2})", R"({"uid":"u","attempt":1})", "{}"}) {
    const auto report = read_progress(answer, "u", 2, now);
    ASSERT_FALSE(report) << answer;
    EXPECT_EQ(report.error().kind, ErrorKind::conflict) << answer;
  }
}

TEST(ReadProgress, RefusesWhatIsNoObject) {
  for (const char* answer : {"", "<html>", "[]", "3"})
    EXPECT_EQ(read_progress(answer, "u", 2, now).error().kind, ErrorKind::corrupt);
}

}  // namespace
}  // namespace trainyard::manager
