#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
  for (int value = 0; value <= static_cast<int>(Phase::deleting); ++value) {
    const auto phase = static_cast<Phase>(value);
    EXPECT_EQ(parse_status({{"phase", to_string(phase)}})->phase, phase);
  }
  for (int value = 0; value <= static_cast<int>(Cause::spec_changed); ++value) {
    const auto cause = static_cast<Cause>(value);
    EXPECT_EQ(parse_status({{"attempts", {{{"cause", to_string(cause)}}}}})->attempts.at(0).cause, cause);
  }
}

TEST(ToString, HasTheWordsOfTheApi) {
  const std::vector<std::pair<Phase, std::string_view>> phases{{Phase::none, ""},
                                                               {Phase::pending, "Pending"},
                                                               {Phase::starting, "Starting"},
                                                               {Phase::running, "Running"},
                                                               {Phase::restarting, "Restarting"},
                                                               {Phase::suspending, "Suspending"},
                                                               {Phase::failed, "Failed"},
                                                               {Phase::suspended, "Suspended"},
                                                               {Phase::succeeded, "Succeeded"},
                                                               {Phase::deleting, "Deleting"}};
  for (const auto& [phase, word] : phases) EXPECT_EQ(to_string(phase), word);
  const std::vector<std::pair<Cause, std::string_view>> causes{{Cause::application, "Application"},
                                                               {Cause::infrastructure, "Infrastructure"},
                                                               {Cause::deleted, "Deleted"},
                                                               {Cause::suspended, "Suspended"},
                                                               {Cause::spec_changed, "SpecChanged"}};
  for (const auto& [cause, word] : causes) EXPECT_EQ(to_string(cause), word);
}

TEST(ParseStatus, NamesTheFieldThatIsWrong) {
  const std::vector<std::pair<std::string_view, std::string>> cases{
      {R"({"conditions": [{"type": "Training"}, {"status": "True"}]})", "status.conditions[1].type: must be given"},
      {R"({"conditions": {}})", "status.conditions: must be a list, got {}"},
      {R"({"attempts": [{}, 5]})", "status.attempts[1]: must be an object, got 5"},
      {R"({"attempts": [{"exitCode": 2147483648}]})",
       "status.attempts[0].exitCode: must be at most 2147483647, got 2147483648"},
      {R"({"attempts": [{"exitCode": -2147483649}]})",
       "status.attempts[0].exitCode: must be at least -2147483648, got -2147483649"},
      {R"({"attempts": [{"end": "today"}]})", "status.attempts[0].end: 'today' is no RFC 3339 time"},
      {R"({"attempts": [{"cause": "Application "}]})",
       "status.attempts[0].cause: must be one of Application, Infrastructure, Deleted, Suspended, SpecChanged, got "
       "\"Application \""},
      {R"({"succeededRanks": [0, "1"]})", R"(status.succeededRanks[1]: must be an integer, got "1")"},
      {R"({"succeededRanks": 0})", "status.succeededRanks: must be a list, got 0"},
      {R"({"avoidedNodes": ["a", 7]})", "status.avoidedNodes[1]: must be a string, got 7"},
      {R"({"formed": "true"})", R"(status.formed: must be true or false, got "true")"},
      {R"({"progress": {"loss": "0.5"}})", R"(status.progress.loss: must be a number, got "0.5")"},
      {R"({"startTime": 5})", "status.startTime: must be a string, got 5"},
      {R"({"attempt": 9e18})", "status.attempt: must be an integer, got 9e+18"},
      {R"({"checkpoint": {"request": {"state": "Saved"}}})",
       R"(status.checkpoint.request.state: must be one of Pending, Done, Failed, got "Saved")"},
  };
  for (const auto& [text, message] : cases) {
    const auto status = parse_status(json::parse(text));
    ASSERT_FALSE(status) << text;
    EXPECT_EQ(status.error(), (Error{ErrorKind::invalid, message, {}}));
  }
}

TEST(ParseStatus, TakesANegativeLossAndAnExitCodeOfEachSign) {
  const auto status = parse_status(json::parse(
      R"({"progress": {"loss": -1.5}, "attempts": [{"exitCode": -2147483648}, {"exitCode": 2147483647}]})"));
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_EQ(status->progress->loss, -1.5);
  EXPECT_EQ(status->attempts.at(0).exit_code, -2147483648);
  EXPECT_EQ(status->attempts.at(1).exit_code, 2147483647);
}

TEST(ParseStatus, TakesNothingButTrueForATrueCondition) {
  for (const auto& [word, is_true] : {std::pair{"True", true}, {"False", false}, {"Unknown", false}, {"true", false}}) {
    const auto status = parse_status({{"conditions", {{{"type", "Training"}, {"status", word}}}}});
    ASSERT_TRUE(status) << word;
    EXPECT_EQ(status->conditions.at(0).is_true, is_true) << word;
  }
}

TEST(StatusToJson, HasTheNamesOfTheApi) {
  const json status = to_json(a_full_status());
  EXPECT_EQ(status.at("ready"), "2/2");
  EXPECT_EQ(status.at("stepText"), "512/900");
  EXPECT_EQ(status.at("formed"), true);
  EXPECT_EQ(status.at("restarts"), json::parse(R"({"application": 1, "infrastructure": 2})"));
  EXPECT_EQ(status.at("replicas"),
            json::parse(R"({"desired": 15, "ready": 1, "pending": 2, "succeeded": 4, "failed": 8})"));
  EXPECT_EQ(status.at("startTime"), "2026-11-21T10:00:00Z");
  EXPECT_EQ(status.at("completionTime"), "2026-11-21T11:39:00Z");
  EXPECT_EQ(status.at("attemptGeneration"), 4);
  EXPECT_EQ(status.at("observedGeneration"), 5);
  EXPECT_EQ(status.at("restartCount"), 3);
  EXPECT_EQ(status.at("attemptsWithoutProgress"), 7);
  EXPECT_EQ(status.at("/checkpoint/beforeSuspend/id"_json_pointer), "suspend-3");
  EXPECT_EQ(status.at("/checkpoint/request/state"_json_pointer), "Done");
  EXPECT_EQ(status.at("conditions"), json::parse(R"([{"type": "Training", "status": "True", "reason": "FirstStep",
      "message": "the first step is done", "lastTransitionTime": "2026-11-21T10:42:00Z", "observedGeneration": 6}])"));
  EXPECT_EQ(status.at("restartNotBefore"), "2026-11-21T10:40:00.250000Z");
  EXPECT_EQ(status.at("attempts"),
            json::parse(R"([{"number": 1, "start": "2026-11-21T10:01:00Z", "end": "2026-11-21T10:30:00Z",
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
