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
          api::CheckpointStatus{.step = 400, .uri = "s3://b/c", .time = now, .bytes = 7, .duration_seconds = 1.25},
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

TEST(ReadProgress, TakesTheRecordOfARequest) {
  using api::CheckpointRequest;
  using api::RequestState;
  const auto requests = [](const std::string& record) { return read(R"(,"checkpointRequest":)" + record)->requests; };
  using Requests = std::vector<CheckpointRequest>;
  EXPECT_EQ(requests(R"({"id":"a","then":"continue","state":"Pending"})"), Requests{CheckpointRequest{.id = "a"}});
  EXPECT_EQ(
      requests(R"({"id":"a","state":"Done","step":7,"uri":"s3://b/step-7/g-1"})"),
      (Requests{CheckpointRequest{.id = "a", .state = RequestState::done, .step = 7, .uri = "s3://b/step-7/g-1"}}));
  EXPECT_EQ(requests(R"({"id":"a","state":"Failed","message":"no space"})"),
            (Requests{CheckpointRequest{.id = "a", .state = RequestState::failed, .message = "no space"}}));
  for (const char* wrong : {"7", "null", "[]", R"({"state":"Done"})", R"({"id":"a","state":"Soon"})", R"({"id":7})"})
    EXPECT_EQ(requests(wrong), Requests{}) << wrong;
}

TEST(ReadRequestAnswer, DistinguishesTakenFromRefusedFromLater) {
  using api::CheckpointRequest;
  using api::RequestState;
  struct Row {
    RankReply reply;
    std::optional<CheckpointRequest> answer;
  };
  const auto refused = [](std::string message) {
    return CheckpointRequest{.id = "a", .state = RequestState::failed, .message = std::move(message)};
  };
  const std::vector<Row> rows{
      {{202, R"({"id":"a","state":"Pending"})"}, CheckpointRequest{.id = "a"}},
      {{200, R"({"id":"a","then":"exit","state":"Done","step":7,"uri":"u"})"},
       CheckpointRequest{.id = "a", .state = RequestState::done, .step = 7, .uri = "u"}},
      {{200, R"({"id":"b","state":"Done"})"}, {}},
      {{200, "a page of somebody else"}, {}},
      {{409, R"({"error":"b is pending","id":"b"})"}, {}},
      {{409, R"({"error":"training has ended"})"}, refused("rank 0 refused it: training has ended")},
      {{400, R"({"error":"the body is wrong"})"}, refused("rank 0 refused it: the body is wrong")},
      {{401, R"({"error":"wrong token"})"}, refused("rank 0 refused it: wrong token")},
      {{403, ""}, refused("rank 0 refused it: HTTP 403")},
      {{404, "not found"}, refused("the container does not take checkpoint requests")},
      {{405, ""}, refused("the container does not take checkpoint requests")},
      {{501, ""}, refused("the container does not take checkpoint requests")},
      {{500, R"({"error":"oops"})"}, {}},
      {{503, ""}, {}},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(read_request_answer(row.reply, "a"), row.answer) << row.reply.status << " " << row.reply.body;
  }
}

}  // namespace
}  // namespace trainyard::manager
