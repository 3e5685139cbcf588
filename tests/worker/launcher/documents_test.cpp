#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "api/contract.hpp"
#include "tests/worker/rank/environment_table.hpp"
#include "worker/launcher/status_document.hpp"
#include "worker/rank/end_report.hpp"

namespace trainyard::launcher {
namespace {

using nlohmann::json;

rank::GroupEnvironment a_group() {
  rank::GroupEnvironment group;
  group.world_size = 2;
  group.job = "mnist";
  group.job_namespace = "default";
  group.job_uid = "1a2b";
  group.attempt = 3;
  return group;
}

rank::RankProgress a_progress() {
  rank::RankProgress progress;
  progress.phase = "Training";
  progress.epoch = 1;
  progress.step = 12;
  progress.total_steps = 900;
  progress.loss = 0.5;
  progress.checkpoint = rank::SavedCheckpoint{.step = 10,
                                              .uri = "file:///c/step-10/g-1",
                                              .time = Time{std::chrono::milliseconds{1'000}},
                                              .bytes = 7,
                                              .duration_seconds = 0.5};
  return progress;
}

TEST(StatusDocument, HoldsWhatIsKnownAndLeavesOutTheRest) {
  EXPECT_EQ(json::parse(make_status_document(
                a_group(), {.rank = 0, .progress = {}, .waiting_for = "rank 1 of 2 has not come (12 s)"})),
            (json{{"uid", "1a2b"},
                  {"attempt", 3},
                  {"rank", 0},
                  {"worldSize", 2},
                  {"phase", "Rendezvous"},
                  {"waitingFor", "rank 1 of 2 has not come (12 s)"}}));
  EXPECT_EQ(json::parse(make_status_document(a_group(), {.rank = 0, .progress = a_progress(), .waiting_for = ""})),
            (json{{"uid", "1a2b"},
                  {"attempt", 3},
                  {"rank", 0},
                  {"worldSize", 2},
                  {"phase", "Training"},
                  {"epoch", 1},
                  {"step", 12},
                  {"totalSteps", 900},
                  {"loss", 0.5},
                  {"checkpoint",
                   {{"step", 10},
                    {"uri", "file:///c/step-10/g-1"},
                    {"time", "1970-01-01T00:00:01.000000Z"},
                    {"bytes", 7},
                    {"durationSeconds", 0.5}}}}));
}

TEST(StatusDocument, SaysInABoundedSentenceWhyTheLastCheckpointFailed) {
  rank::RankProgress progress = a_progress();
  progress.checkpoint_error = "the bucket is away" + std::string(10'000, '!');
  const json status =
      json::parse(make_status_document(a_group(), {.rank = 0, .progress = progress, .waiting_for = ""}));
  const auto said = status.at("checkpointError").get<std::string>();
  EXPECT_TRUE(said.starts_with("the bucket is away!"));
  EXPECT_EQ(said.size(), 512U);
}

TEST(StatusDocument, ShowsTheRequestThatWasTakenLastThoughTheRankKnowsOnlyOfTheOneBefore) {
  rank::RankProgress progress = a_progress();
  progress.checkpoint_request = rank::RequestRecord{
      .request = {.id = "a"}, .state = contract::RequestState::done, .step = 10, .uri = "file:///c/step-10/g-1"};
  const json answered{
      {"id", "a"}, {"then", "continue"}, {"state", "Done"}, {"step", 10}, {"uri", "file:///c/step-10/g-1"}};
  EXPECT_EQ(json::parse(make_status_document(a_group(), {.progress = progress})).at("checkpointRequest"), answered);
  const rank::RequestRecord taken{.request = {.id = "b", .then = rank::Then::exit}};
  const json pending{{"id", "b"}, {"then", "exit"}, {"state", "Pending"}};
  for (const auto& reported : {std::optional{progress}, std::optional<rank::RankProgress>{}}) {
    const Status status{.progress = reported, .checkpoint_request = taken};
    EXPECT_EQ(json::parse(make_status_document(a_group(), status)).at("checkpointRequest"), pending);
  }
}

TEST(StatusDocument, SaysWhomTheLauncherWaitsForBeforeWhomTheRankWaitsFor) {
  rank::RankProgress progress = a_progress();
  progress.waiting_for = "rank 1 of 2 has not come (3 s)";
  for (const std::string of_launcher : {"", "rank 0's launcher at m:1 (4 s)"}) {
    const std::string document = make_status_document(a_group(), {.progress = progress, .waiting_for = of_launcher});
    EXPECT_EQ(json::parse(document).at("waitingFor"), of_launcher.empty() ? progress.waiting_for : of_launcher);
  }
}

TEST(StatusDocument, ShowsAnErrorThatIsNoUtf8WithAMarkForWhatIsNone) {
  rank::RankProgress progress = a_progress();
  progress.checkpoint_error = "no room for \xff";
  EXPECT_EQ(json::parse(make_status_document(a_group(), {.progress = progress})).at("checkpointError"),
            "no room for \xef\xbf\xbd");
}

TEST(StatusDocument, SaysNullForALossThatIsNotFinite) {
  rank::RankProgress progress = a_progress();
  progress.loss = INFINITY;
  const json status =
      json::parse(make_status_document(a_group(), {.rank = 0, .progress = progress, .waiting_for = ""}));
  EXPECT_TRUE(status.at("loss").is_null());
}

TEST(MetricsDocument, IsPrometheusText) {
  rank::RankProgress progress;
  progress.step = 12;
  progress.loss = std::nan("");
  EXPECT_EQ(make_metrics_document(a_group(), {.rank = 1, .progress = progress, .waiting_for = ""}),
            "# HELP trainyard_world_size Ranks of the job.\n# TYPE trainyard_world_size gauge\n"
            "trainyard_world_size{namespace=\"default\",job=\"mnist\",attempt=\"3\",rank=\"1\"} 2\n"
            "# HELP trainyard_step Optimizer steps finished.\n# TYPE trainyard_step gauge\n"
            "trainyard_step{namespace=\"default\",job=\"mnist\",attempt=\"3\",rank=\"1\"} 12\n"
            "# HELP trainyard_loss Mean loss of all ranks since the report before.\n# TYPE trainyard_loss gauge\n"
            "trainyard_loss{namespace=\"default\",job=\"mnist\",attempt=\"3\",rank=\"1\"} NaN\n");
}

TEST(MetricsDocument, HasASeriesForEverythingThatARankReports) {
  rank::RankProgress progress = a_progress();
  progress.samples_per_second = 250.5;
  progress.eta_seconds = 61;
  progress.step_milliseconds = {{"data", 0.5}, {"forward", 20}};
  progress.accuracy = 0.875;
  rank::GroupEnvironment group = a_group();
  group.job = "a \"b\" \\ c\nd";
  const std::string text = make_metrics_document(group, {.rank = 1, .progress = progress});
  const std::string labels = R"(namespace="default",job="a \"b\" \\ c\nd",attempt="3",rank="1")";
  const std::pair<std::string, std::string> rows[] = {
      {"trainyard_epoch{" + labels + "}", "1"},
      {"trainyard_step{" + labels + "}", "12"},
      {"trainyard_steps_planned{" + labels + "}", "900"},
      {"trainyard_loss{" + labels + "}", "0.5"},
      {"trainyard_samples_per_second{" + labels + "}", "250.5"},
      {"trainyard_eta_seconds{" + labels + "}", "61"},
      {"trainyard_step_milliseconds{" + labels + ",part=\"data\"}", "0.5"},
      {"trainyard_step_milliseconds{" + labels + ",part=\"forward\"}", "20"},
      {"trainyard_accuracy{" + labels + "}", "0.875"},
      {"trainyard_checkpoint_step{" + labels + "}", "10"},
      {"trainyard_checkpoint_bytes{" + labels + "}", "7"},
      {"trainyard_checkpoint_timestamp_seconds{" + labels + "}", "1"},
  };
  for (const auto& [series, value] : rows) {
    EXPECT_NE(text.find("\n" + series + " " + value + "\n"), std::string::npos) << series << " in\n" << text;
  }
  EXPECT_NE(text.find("\n# TYPE trainyard_step_milliseconds gauge\n"), std::string::npos);
}

TEST(MetricsDocument, WritesALossThatIsInfiniteAsPrometheusDoes) {
  for (const auto& [loss, written] : {std::pair{INFINITY, " +Inf\n"}, std::pair{-INFINITY, " -Inf\n"}}) {
    rank::RankProgress progress;
    progress.loss = loss;
    EXPECT_TRUE(make_metrics_document(a_group(), {.progress = progress}).ends_with(written)) << written;
  }
}

TEST(TerminationMessage, HoldsTheEndInTheContractsWords) {
  EXPECT_EQ(
      json::parse(rank::make_termination_message(
          {.exit_code = 90, .reason = "PeerLost", .message = "rank 1 is gone", .culprit = 1}, 0, {})),
      (json{{"reason", "PeerLost"}, {"exitCode", 90}, {"rank", 0}, {"message", "rank 1 is gone"}, {"culprit", 1}}));
  EXPECT_EQ(json::parse(rank::make_termination_message(
                {.exit_code = 93, .reason = "InvalidEnvironment", .message = "no", .culprit = {}}, {}, {})),
            (json{{"reason", "InvalidEnvironment"}, {"exitCode", 93}, {"message", "no"}}));
}

TEST(TerminationMessage, HoldsWhatTheRankReportedLastAndStillHolds) {
  rank::RankProgress progress = a_progress();
  progress.phase = "Done";
  progress.eta_seconds = 3;
  progress.waiting_for = "nobody";
  progress.checkpoint_error = "the one before the last failed";
  const rank::RankEnd end{.exit_code = 0, .reason = "Completed", .message = "trained 12 steps", .culprit = {}};
  EXPECT_EQ(json::parse(rank::make_termination_message(end, 0, progress)).at("progress"),
            (json{{"phase", "Done"},
                  {"epoch", 1},
                  {"step", 12},
                  {"totalSteps", 900},
                  {"loss", 0.5},
                  {"checkpoint",
                   {{"step", 10},
                    {"uri", "file:///c/step-10/g-1"},
                    {"time", "1970-01-01T00:00:01.000000Z"},
                    {"bytes", 7},
                    {"durationSeconds", 0.5}}}}));
  progress.checkpoint->uri = std::string(2'000, 'u');
  EXPECT_FALSE(json::parse(rank::make_termination_message(end, 0, progress)).at("progress").contains("checkpoint"));
}

TEST(TerminationMessage, HoldsWhatCameOfARequest) {
  const rank::RankEnd end{.exit_code = 91, .reason = "Preempted", .message = "stopped as asked", .culprit = {}};
  const auto request_in = [&](const rank::RequestRecord& record) {
    rank::RankProgress progress = a_progress();
    progress.checkpoint_request = record;
    return json::parse(rank::make_termination_message(end, 0, progress)).at("progress").at("checkpointRequest");
  };
  rank::RequestRecord done{.request = {.id = "a", .then = rank::Then::exit},
                           .state = contract::RequestState::done,
                           .step = 12,
                           .uri = "s3://m/step-12/g-1"};
  EXPECT_EQ(request_in(done),
            (json{{"id", "a"}, {"then", "exit"}, {"state", "Done"}, {"step", 12}, {"uri", "s3://m/step-12/g-1"}}));
  done.uri = std::string(2'000, 'u');
  EXPECT_EQ(request_in(done), (json{{"id", "a"}, {"then", "exit"}, {"state", "Done"}, {"step", 12}}));
  EXPECT_EQ(
      request_in({.request = {.id = "b"}, .state = contract::RequestState::failed, .message = std::string(2'000, 'x')}),
      (json{{"id", "b"}, {"then", "continue"}, {"state", "Failed"}, {"message", std::string(509, 'x') + "..."}}));
  EXPECT_EQ(request_in({.request = {.id = "c"}}), (json{{"id", "c"}, {"then", "continue"}, {"state", "Pending"}}));
}

TEST(TerminationMessage, StaysWithinItsBoundWhateverTheTextHolds) {
  for (const char c : {'x', '\x01', '\xff', '"'}) {
    const std::string message = rank::make_termination_message(
        {.exit_code = 1, .reason = "Error", .message = std::string(50'000, c), .culprit = {}}, 0, a_progress());
    EXPECT_LE(message.size(), contract::termination_message_bytes_max);
    EXPECT_GT(message.size(), contract::termination_message_bytes_max / 2);
    EXPECT_TRUE(json::accept(message));
  }
}

TEST(TerminationMessage, BoundsTheReasonAndKeepsTheCulpritsExitCode) {
  const json message = json::parse(rank::make_termination_message(
      {.exit_code = 90, .reason = std::string(1'000, 'r'), .message = "m", .culprit = 3, .culprit_exit_code = 137}, 0,
      {}));
  EXPECT_EQ(message, (json{{"reason", std::string(61, 'r') + "..."},
                           {"exitCode", 90},
                           {"rank", 0},
                           {"message", "m"},
                           {"culprit", 3},
                           {"culpritExitCode", 137}}));
}

TEST(TerminationMessage, KeepsAUriOfTheGreatestLength) {
  rank::RankProgress progress = a_progress();
  progress.checkpoint->uri = std::string(1'024, 'u');
  const rank::RankEnd end{.exit_code = 0, .reason = "Completed", .message = "", .culprit = {}};
  const auto kept = [&] { return json::parse(rank::make_termination_message(end, 0, progress)).at("progress"); };
  EXPECT_TRUE(kept().contains("checkpoint"));
  progress.checkpoint->uri += 'u';
  EXPECT_FALSE(kept().contains("checkpoint"));
}

TEST(TerminationMessage, DropsTheProgressWhereItLeavesNoRoom) {
  rank::RankProgress progress = a_progress();
  progress.phase = std::string(10'000, '\x01');
  const rank::RankEnd end{.exit_code = 1, .reason = "Error", .message = std::string(50'000, '\x01'), .culprit = {}};
  const std::string message = rank::make_termination_message(end, 0, progress);
  EXPECT_LE(message.size(), contract::termination_message_bytes_max);
  EXPECT_FALSE(json::parse(message).contains("progress"));
}

TEST(TerminationMessage, IsWrittenWhereTheEnvironmentSaysOrNotAtAll) {
  const std::string path = testing::TempDir() + "/termination-log";
  ASSERT_TRUE(rank::write_termination_message(rank::environment_of({{"TRAINYARD_TERMINATION_LOG", path}}), "{}"));
  std::ifstream file{path};
  EXPECT_EQ((std::string{std::istreambuf_iterator<char>{file}, {}}), "{}");
  const auto refused =
      rank::write_termination_message(rank::environment_of({{"TRAINYARD_TERMINATION_LOG", "/no/such/folder/x"}}), "{}");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::io);
  if (!std::filesystem::exists("/dev/termination-log")) {
    EXPECT_TRUE(rank::write_termination_message(rank::environment_of({}), "{}"));
    EXPECT_FALSE(std::filesystem::exists("/dev/termination-log"));
  }
}

}  // namespace
}  // namespace trainyard::launcher
