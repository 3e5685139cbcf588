#include <gtest/gtest.h>

#include <limits>

#include "api/training_job.hpp"
#include "tests/api/full_status.hpp"

namespace trainyard::api {
namespace {

using nlohmann::json;

TEST(ParseStatus, GivesBackWhatWasWrittenFromIt) {
  for (const TrainingJobStatus& status : {TrainingJobStatus{}, a_full_status()}) {
    const auto parsed = parse_status(to_json(status));
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(*parsed, status);
  }
}

TEST(ParseStatus, TakesARequestWithoutACheckpointForNone) {
  TrainingJobStatus status;
  status.checkpoint_request = CheckpointRequest{.id = "a", .message = "not yet"};
  const json object = to_json(status);
  EXPECT_EQ(object.at("checkpoint"),
            json::parse(R"({"request": {"id": "a", "state": "Pending", "message": "not yet"}})"));
  EXPECT_EQ(parse_status(object), status);
}

TEST(ParseStatus, ReadsEveryPhaseAndCauseByItsName) {
  for (int value = 0; value <= static_cast<int>(Phase::failed); ++value) {
    const auto phase = static_cast<Phase>(value);
    EXPECT_EQ(parse_status({{"phase", to_string(phase)}})->phase, phase);
  }
  for (int value = 0; value <= static_cast<int>(Cause::spec_changed); ++value) {
    const auto cause = static_cast<Cause>(value);
    EXPECT_EQ(parse_status({{"attempts", {{{"cause", to_string(cause)}}}}})->attempts.at(0).cause, cause);
  }
}

TEST(ParseStatus, NamesTheFieldThatIsWrong) {
  const auto status = parse_status(json::parse(R"({"conditions": [{"type": "Training"}, {"status": "True"}]})"));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "status.conditions[1].type: must be given");
}

TEST(StatusToJson, HasTheNamesOfTheApi) {
  const json status = to_json(a_full_status());
  EXPECT_EQ(status.at("ready"), "2/2");
  EXPECT_EQ(status.at("stepText"), "512/900");
  EXPECT_EQ(status.at("formed"), true);
  EXPECT_EQ(status.at("restarts"), json::parse(R"({"application": 1, "infrastructure": 2})"));
  EXPECT_EQ(status.at("restartNotBefore"), "2026-11-21T10:00:00.250000Z");
  EXPECT_EQ(status.at("attempts"),
            json::parse(R"([{"number": 1, "start": "2026-11-21T10:00:00Z", "end": "2026-11-21T10:00:00Z",
      "cause": "Infrastructure", "rank": 1, "pod": "a-abcd-1-1", "node": "node1", "exitCode": 137, "message": "node1 became unreachable"}])"));
}

TEST(StatusToJson, LeavesOutWhatIsEmpty) {
  const json status = to_json(TrainingJobStatus{});
  for (const char* name : {"succeededRanks", "checkpoint", "avoidedNodes", "attempts", "conditions", "phase", "reason"})
    EXPECT_FALSE(status.contains(name)) << name;
}

TEST(StatusToJson, LeavesOutALossThatIsNotFinite) {
  TrainingJobStatus status;
  status.progress = Progress{.loss = std::numeric_limits<double>::quiet_NaN(), .samples_per_second = 10};
  EXPECT_EQ(to_json(status).at("progress"), json::parse(R"({"epoch": 0, "step": 0, "samplesPerSecond": 10.0})"));
}

}  // namespace
}  // namespace trainyard::api
