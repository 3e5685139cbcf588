#include "api/training_spec.hpp"

#include <gtest/gtest.h>

#include <string_view>

namespace trainyard::api {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

TEST(ParseCheckpointSpec, FillsInTheDefaultsOfTheHeader) {
  const auto spec = parse_checkpoint_spec(json::parse(R"({"uri": "s3://models/a"})"));
  ASSERT_TRUE(spec) << spec.error().message;
  CheckpointSpec expected;
  expected.uri = "s3://models/a";
  EXPECT_EQ(*spec, expected);
}

TEST(ParseCheckpointSpec, ReadsEveryFieldAndGivesBackWhatWasWrittenFromIt) {
  const auto spec = parse_checkpoint_spec(json::parse(R"({
      "uri": "s3://models/a", "every": {"time": "5m", "steps": 100, "epochs": 1, "best": true}, "whenBusy": "wait",
      "keep": {"last": 5, "every": {"steps": 1000, "epochs": 10}, "best": {"metric": "val_loss", "mode": "min", "count": 2}},
      "resume": "none", "onSuspend": "signal", "onDelete": "Delete",
      "credentialsSecret": "s3", "s3": {"endpoint": "https://s3.example.com", "region": "eu-west-1", "pathStyle": true,
        "serverSideEncryption": "aws:kms", "kmsKeyId": "alias/models"},
      "local": {"path": "/local", "every": {"time": "30s", "steps": 10}, "keep": 2}})"));
  ASSERT_TRUE(spec) << spec.error().message;
  CheckpointSpec expected;
  expected.uri = "s3://models/a";
  expected.every = {.steps = 100, .epochs = 1, .time = milliseconds{300'000}, .best = true};
  expected.when_busy = WhenBusy::wait;
  expected.keep = {.last = 5,
                   .every = {.steps = 1000, .epochs = 10, .time = {}},
                   .best = KeepBestSpec{.metric = "val_loss", .mode = BestMode::min, .count = 2}};
  expected.resume = ResumeMode::none;
  expected.on_suspend = OnSuspend::signal;
  expected.on_delete = OnDelete::remove;
  expected.credentials_secret = "s3";
  expected.s3 = {.endpoint = "https://s3.example.com",
                 .region = "eu-west-1",
                 .path_style = true,
                 .server_side_encryption = "aws:kms",
                 .kms_key_id = "alias/models"};
  expected.local =
      LocalSpec{.path = "/local", .every = {.steps = 10, .epochs = {}, .time = milliseconds{30'000}}, .keep = 2};
  EXPECT_EQ(*spec, expected);
  const auto parsed = parse_checkpoint_spec(to_json(*spec));
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(*parsed, *spec);
}

TEST(ParseCheckpointSpec, TakesAUriToBeginFrom) {
  const auto spec =
      parse_checkpoint_spec(json::parse(R"({"uri": "s3://models/a", "resume": "s3://models/b/step-5/g-1"})"));
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->resume, ResumeMode::automatic);
  EXPECT_EQ(spec->resume_uri, "s3://models/b/step-5/g-1");
  EXPECT_EQ(parse_checkpoint_spec(to_json(*spec)), *spec);
}

struct WrongCheckpointSpec {
  std::string_view object;
  std::string_view message;
};

class ParseCheckpointSpecRefuses : public testing::TestWithParam<WrongCheckpointSpec> {};

TEST_P(ParseCheckpointSpecRefuses, AndNamesTheFieldByItsPath) {
  const auto spec = parse_checkpoint_spec(json::parse(GetParam().object));
  ASSERT_FALSE(spec);
  EXPECT_EQ(spec.error(), (Error{ErrorKind::invalid, std::string{GetParam().message}, {}}));
}

INSTANTIATE_TEST_SUITE_P(
    Table, ParseCheckpointSpecRefuses,
    testing::Values(
        WrongCheckpointSpec{"{}", "spec.checkpoint.uri: must be given"},
        WrongCheckpointSpec{R"({"uri": "s3://a", "local": {"every": {"steps": 1}}})",
                            "spec.checkpoint.local.path: must be given"},
        WrongCheckpointSpec{
            R"({"uri": "s3://a", "local": {"path": "x", "every": {"steps": 1}}})",
            R"(spec.checkpoint.local.path: must be an absolute path, such as /local/checkpoints, got "x")"},
        WrongCheckpointSpec{R"({"uri": "s3://a", "local": {"path": "/x", "every": {}}})",
                            "spec.checkpoint.local.every: is empty; give steps or time, such as {time: 30s}"},
        WrongCheckpointSpec{R"({"uri": "s3://a", "local": {"path": "/x"}})",
                            "spec.checkpoint.local.every: must be given"},
        WrongCheckpointSpec{"7", "spec.checkpoint: must be an object, got 7"},
        WrongCheckpointSpec{R"({"uri": "s3://a", "keep": {"last": 1}})",
                            "spec.checkpoint.keep.last: must be at least 2, got 1"},
        WrongCheckpointSpec{R"({"uri": "s3://a", "whenBusy": "hope"})",
                            R"(spec.checkpoint.whenBusy: must be one of skip, wait, got "hope")"},
        WrongCheckpointSpec{R"({"uri": "s3://a", "onSuspend": "wait"})",
                            R"(spec.checkpoint.onSuspend: must be one of request, signal, got "wait")"},
        WrongCheckpointSpec{
            R"({"uri": "s3://a", "every": {"best": true}})",
            "spec.checkpoint.every.best: needs keep.best, which says by which metric a checkpoint is the best"},
        WrongCheckpointSpec{R"({"uri": "s3://a", "keep": {"best": {}}})",
                            "spec.checkpoint.keep.best.metric: must be given"},
        WrongCheckpointSpec{R"({"uri": "s3://a", "resume": "never"})",
                            R"(spec.checkpoint.resume: must be auto, none or the URI of checkpoints, got "never")"},
        WrongCheckpointSpec{R"({"uri": "s3://a", "s3": {"pathStyle": "yes"}})",
                            R"(spec.checkpoint.s3.pathStyle: must be true or false, got "yes")"}));

}  // namespace
}  // namespace trainyard::api
