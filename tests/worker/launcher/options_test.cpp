#include "worker/launcher/options.hpp"

#include <gtest/gtest.h>

#include "tests/worker/rank/environment_table.hpp"

namespace trainyard::launcher {
namespace {

using namespace std::chrono_literals;

TEST(ParseOptions, FindsTheProgramsBesideTheLauncher) {
  const auto options = parse_options({}, rank::environment_of({}), "/opt/bin");
  ASSERT_TRUE(options) << options.error().message;
  EXPECT_EQ(options->rank_program, "/opt/bin/trainyard-rank");
  EXPECT_EQ(options->rendezvous_store_program, "/opt/bin/trainyard-store");
  EXPECT_EQ(options->folder, "/opt/bin");
  EXPECT_TRUE(options->rank_arguments.empty());
}

TEST(ParseOptions, TakesAProgramOfTheUsersWithItsArguments) {
  const auto options = parse_options({"--rank-program", "/my/trainer", "--", "--epochs", "3"},
                                     rank::environment_of({{"TRAINYARD_RANK_PROGRAM", "/other"}}), "/opt/bin");
  ASSERT_TRUE(options) << options.error().message;
  EXPECT_EQ(options->rank_program, "/my/trainer");
  EXPECT_EQ(options->rank_arguments, (std::vector<std::string>{"--epochs", "3"}));
}

TEST(ParseOptions, TakesTheProgramThatTheEnvironmentNames) {
  const auto options = parse_options({}, rank::environment_of({{"TRAINYARD_RANK_PROGRAM", "/other"}}), "/opt/bin");
  ASSERT_TRUE(options) << options.error().message;
  EXPECT_EQ(options->rank_program, "/other");
}

TEST(ParseOptions, LeavesEverythingAfterTheDashesToTheRankProgram) {
  const auto options = parse_options({"--", "--help", "--", "--store-program"}, rank::environment_of({}), "/opt/bin");
  ASSERT_TRUE(options) << options.error().message;
  EXPECT_FALSE(options->asks_for_help);
  EXPECT_EQ(options->rank_arguments, (std::vector<std::string>{"--help", "--", "--store-program"}));
  EXPECT_EQ(options->rendezvous_store_program, "/opt/bin/trainyard-store");
}

TEST(ParseOptions, TakesAnotherStore) {
  const auto options = parse_options({"--store-program", "/my/store"}, rank::environment_of({}), "/opt/bin");
  ASSERT_TRUE(options) << options.error().message;
  EXPECT_EQ(options->rendezvous_store_program, "/my/store");
  EXPECT_EQ(options->rank_program, "/opt/bin/trainyard-rank");
}

TEST(ParseOptions, HelpsWhateverTheEnvironmentHolds) {
  for (const std::string argument : {"--help", "-h"}) {
    const auto options = parse_options({argument}, rank::environment_of({{"WORLD_SIZE", "two"}}), "/b");
    ASSERT_TRUE(options) << options.error().message;
    EXPECT_TRUE(options->asks_for_help) << argument;
  }
}

TEST(ParseOptions, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(parse_options({"--nproc", "3"}, rank::environment_of({}), "/b").error().message,
            "'--nproc' is not an option of trainyard-worker; put the rank program's arguments after --");
  EXPECT_EQ(parse_options({"--rank-program"}, rank::environment_of({}), "/b").error().message,
            "--rank-program needs the path of a program after it");
  EXPECT_EQ(parse_options({"--store-program"}, rank::environment_of({}), "/b").error().message,
            "--store-program needs the path of a program after it");
  EXPECT_EQ(parse_options({}, rank::environment_of({{"TRAINYARD_HANG_SECONDS", "soon"}}), "/b").error().message,
            "the environment variable TRAINYARD_HANG_SECONDS is 'soon', which is not a whole number");
}

TEST(ParseOptions, ReadsEveryDeadline) {
  const auto options = parse_options({},
                                     rank::environment_of({{"TRAINYARD_RENDEZVOUS_SECONDS", "20"},
                                                           {"TRAINYARD_HEARTBEAT_SECONDS", "2"},
                                                           {"TRAINYARD_COLLECTIVE_SECONDS", "40"},
                                                           {"TRAINYARD_HANG_SECONDS", "30"},
                                                           {"TRAINYARD_FAREWELL_SECONDS", "3"},
                                                           {"TRAINYARD_GRACE_SECONDS", "120"}}),
                                     "/b");
  ASSERT_TRUE(options) << options.error().message;
  EXPECT_EQ(options->peers.rendezvous_deadline, 20s);
  EXPECT_EQ(options->peers.silence_deadline, 2s);
  EXPECT_EQ(options->peers.mismatch_deadline, 10s);
  EXPECT_EQ(options->peers.beat_interval, 500ms);
  EXPECT_EQ(options->peers.farewell_to_late_peers, 3s);
  EXPECT_EQ(options->ranks.alive_deadline, 2s);
  EXPECT_EQ(options->ranks.hang_deadline, 30s);
  EXPECT_EQ(options->ranks.stop_deadline, 115s);
}

TEST(ParseOptions, HasTheDeadlinesOfTheDocumentationWhereNoneIsSet) {
  const auto options = parse_options({}, rank::environment_of({}), "/b");
  ASSERT_TRUE(options) << options.error().message;
  EXPECT_EQ(options->peers.rendezvous_deadline, 600s);
  EXPECT_EQ(options->peers.silence_deadline, 10s);
  EXPECT_EQ(options->peers.mismatch_deadline, 60s);
  EXPECT_EQ(options->peers.beat_interval, 1s);
  EXPECT_EQ(options->peers.farewell_to_late_peers, 1s);
  EXPECT_EQ(options->ranks.alive_deadline, 10s);
  EXPECT_EQ(options->ranks.hang_deadline, 600s);
  EXPECT_EQ(options->ranks.stop_deadline, 25s);
}

TEST(ParseOptions, RefusesADeadlineOutsideItsBounds) {
  for (const std::string name : {"TRAINYARD_RENDEZVOUS_SECONDS", "TRAINYARD_HEARTBEAT_SECONDS",
                                 "TRAINYARD_HANG_SECONDS", "TRAINYARD_GRACE_SECONDS", "TRAINYARD_FAREWELL_SECONDS"}) {
    const std::string longest = name == "TRAINYARD_FAREWELL_SECONDS" ? "60" : "31536000";
    EXPECT_TRUE(parse_options({}, rank::environment_of({{name, longest}}), "/b")) << name;
    for (const std::string& seconds : {std::string{"0"}, std::to_string(std::stoll(longest) + 1)}) {
      const auto options = parse_options({}, rank::environment_of({{name, seconds}}), "/b");
      ASSERT_FALSE(options) << name << " " << seconds;
      EXPECT_EQ(options.error().message,
                "the environment variable " + name + " is " + seconds + ", but must be in 1 to " + longest);
    }
  }
}

TEST(ParseOptions, PlacesALauncherOfOneRankAndOneOfSeveral) {
  const auto one = parse_options(
      {}, rank::environment_of({{"RANK", "3"}, {"WORLD_SIZE", "4"}, {"LOCAL_WORLD_SIZE", "2"}, {"MASTER_ADDR", "m"}}),
      "/b");
  ASSERT_TRUE(one) << one.error().message;
  EXPECT_EQ(one->ranks.first_rank, 3);
  EXPECT_EQ(one->ranks.rank_count, 1);
  const auto several = parse_options(
      {},
      rank::environment_of({{"NODE_RANK", "1"}, {"WORLD_SIZE", "8"}, {"LOCAL_WORLD_SIZE", "4"}, {"MASTER_ADDR", "m"}}),
      "/b");
  ASSERT_TRUE(several) << several.error().message;
  EXPECT_EQ(several->ranks.first_rank, 4);
  EXPECT_EQ(several->peers.self,
            (Hello{.job = "local", .job_uid = "", .attempt = 1, .world_size = 8, .first_rank = 4, .rank_count = 4}));
}

TEST(ParseOptions, SaysWhetherCheckpointsMayBeAskedFor) {
  struct Row {
    std::string spec;
    bool has_checkpoint_uri;
  };
  for (const Row& row : {Row{R"({"training": {}, "checkpoint": {"uri": "s3://m"}})", true},
                         Row{R"({"training": {}, "checkpoint": {"uri": ""}})", false},
                         Row{R"({"training": {}, "checkpoint": {"uri": 7}})", false},
                         Row{R"({"training": {}, "checkpoint": null})", false}, Row{R"({"training": {}})", false},
                         Row{"[]", false}, Row{"{", false}, Row{"", false}}) {
    const auto options = parse_options({}, rank::environment_of({{"TRAINYARD_SPEC", row.spec}}), "/b");
    ASSERT_TRUE(options) << options.error().message;
    EXPECT_EQ(options->checkpoint_requests.has_checkpoint_uri, row.has_checkpoint_uri) << row.spec;
    EXPECT_EQ(options->checkpoint_requests.token, std::nullopt);
    EXPECT_TRUE(options->checkpoint_requests.is_rank0);
  }
  const auto other =
      parse_options({},
                    rank::environment_of(
                        {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "m"}, {"TRAINYARD_REQUEST_TOKEN", "t"}}),
                    "/b");
  ASSERT_TRUE(other) << other.error().message;
  EXPECT_EQ(other->checkpoint_requests.token, "t");
  EXPECT_FALSE(other->checkpoint_requests.is_rank0);
}

TEST(StopDeadline, LeavesTheLauncherTimeToEnd) {
  EXPECT_EQ(stop_deadline(120s), 115s);
  EXPECT_EQ(stop_deadline(30s), 25s);
  EXPECT_EQ(stop_deadline(2s), 1500ms);
}

}  // namespace
}  // namespace trainyard::launcher
