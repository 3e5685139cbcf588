#include "api/training_spec.hpp"

#include <gtest/gtest.h>

namespace trainyard::api {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

TEST(ParseTrainingSpec, FillsInTheDefaultsOfTheHeader) {
  const auto spec = parse_training_spec(json::parse(R"({"model": {"name": "fashion_cnn"}})"));
  ASSERT_TRUE(spec) << spec.error().message;
  TrainingSpec expected;
  expected.model.name = "fashion_cnn";
  EXPECT_EQ(*spec, expected);
}

TEST(ParseTrainingSpec, ReadsEveryField) {
  const auto spec = parse_training_spec(json::parse(R"({
      "model": {"name": "m", "options": {"width": 8}, "weights": "s3://models/m.safetensors", "weightsSha256": "00ff"}, "data": {"format": "idx", "volumeClaim": "datasets", "path": "fashion-mnist"},
      "batchSize": 100, "epochs": 3, "maxSteps": 900, "seed": 7, "validateEvery": {"steps": 10}, "log": {"every": {"epochs": 1}},
      "snapshots": {"every": {"steps": 500}}, "optimizer": {"name": "sgd", "lr": 0.1, "momentum": 0.9, "weightDecay": 0.0001}})"));
  ASSERT_TRUE(spec) << spec.error().message;
  TrainingSpec expected;
  expected.model = {
      .name = "m", .options = {{"width", 8}}, .weights = "s3://models/m.safetensors", .weights_sha256 = "00ff"};
  expected.data = {.format = DataFormat::idx, .volume_claim = "datasets", .path = "fashion-mnist", .uri = ""};
  expected.batch_size = 100;
  expected.epochs = 3;
  expected.max_steps = 900;
  expected.seed = 7;
  expected.validate_every = Every{.steps = 10, .epochs = {}, .time = {}};
  expected.log_every = Every{.steps = {}, .epochs = 1, .time = {}};
  expected.snapshots = SnapshotsSpec{.every = {.steps = 500, .epochs = {}, .time = {}}};
  expected.optimizer = {.name = OptimizerName::sgd, .lr = 0.1, .momentum = 0.9, .weight_decay = 0.0001};
  EXPECT_EQ(*spec, expected);
}

TEST(ParseTrainingSpec, RefusesOptionsOfAModelThatAreNoObjectOrTooLargeForTheEnvironment) {
  const auto refusal = [](const json& options) {
    const auto spec = parse_training_spec({{"model", {{"name", "m"}, {"options", options}}}});
    return spec ? "" : spec.error().message;
  };
  EXPECT_EQ(refusal(json::array({1})), "spec.training.model.options: must be an object, got [1]");
  EXPECT_EQ(refusal({{"vocabulary", std::string(65'516, 'x')}}), "") << "65,536 bytes with the name";
  EXPECT_EQ(
      refusal({{"vocabulary", std::string(65'520, 'x')}}),
      "spec.training.model.options: must be at most 65536 bytes of JSON, got 65537; put large values into a file");
}

TEST(ParseTrainingSpec, ReadsLogFilesEachOnceAndTheStepsOfATrace) {
  const auto spec = parse_training_spec(json::parse(
      R"({"model": {"name": "m"}, "log": {"files": ["csv", "tensorboard", "csv", "jsonl"], "uri": "file:///l"}, "profile": {"steps": 2}})"));
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->log_files, (std::vector<LogFile>{LogFile::csv, LogFile::tensorboard, LogFile::jsonl}));
  EXPECT_EQ(spec->log_uri, "file:///l");
  EXPECT_EQ(spec->profile, (ProfileSpec{.first_step = 10, .steps = 2}));
  EXPECT_EQ(parse_training_spec(to_json(*spec)), spec);
}

TEST(ParseTrainingSpec, TakesSnapshotsWithNothingElseAsEvery500Steps) {
  const auto spec = parse_training_spec(json::parse(R"({"model": {"name": "m"}, "snapshots": {}})"));
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->snapshots, SnapshotsSpec{});
  EXPECT_EQ(spec->snapshots->every.steps, 500);
}

TEST(ParseTrainingSpec, TakesAWholeNumberWithAFractionPointAsAnInteger) {
  const auto spec = parse_training_spec(json::parse(R"({"model": {"name": "m"}, "batchSize": 32.0})"));
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->batch_size, 32);
}

TEST(ParseTrainingSpec, GivesBackWhatWasWrittenFromIt) {
  TrainingSpec adam;
  adam.model.name = "m";
  adam.model.options = {{"width", 8}, {"head", {{"classes", 10}}}};
  adam.data.samples = 100;
  adam.optimizer.beta1 = 0.8;
  adam.epochs = 2;
  TrainingSpec sgd = adam;
  sgd.data = {.format = DataFormat::idx, .volume_claim = "", .path = "", .uri = "s3://data/fashion"};
  sgd.optimizer = {.name = OptimizerName::sgd, .lr = 0.5, .momentum = 0.9, .weight_decay = 1e-4};
  sgd.max_steps = 10;
  sgd.model.weights = "file:///shared/earlier.safetensors";
  sgd.model.weights_sha256 = "00ff";
  sgd.validate_every = Every{.steps = {}, .epochs = 2, .time = {}};
  sgd.snapshots = SnapshotsSpec{.every = {.steps = {}, .epochs = 1, .time = {}}};
  for (const TrainingSpec& spec : {adam, sgd}) {
    const auto parsed = parse_training_spec(to_json(spec));
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(*parsed, spec);
  }
}

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

struct WrongSpec {
  std::string_view object;
  std::string_view message;
};

class ParseTrainingSpecRefuses : public testing::TestWithParam<WrongSpec> {};

TEST_P(ParseTrainingSpecRefuses, AndNamesTheFieldByItsPath) {
  json object{{"model", {{"name", "m"}}}};
  object.merge_patch(json::parse(GetParam().object));
  const auto spec = parse_training_spec(object);
  ASSERT_FALSE(spec);
  EXPECT_EQ(spec.error(), (Error{ErrorKind::invalid, std::string{GetParam().message}, {}}));
}

INSTANTIATE_TEST_SUITE_P(
    Table, ParseTrainingSpecRefuses,
    testing::Values(WrongSpec{R"({"model": null})", "spec.training.model: must be given"},
                    WrongSpec{R"({"model": {"name": ""}})", "spec.training.model.name: must be given"},
                    WrongSpec{R"({"batchSize": 0})", "spec.training.batchSize: must be at least 1, got 0"},
                    WrongSpec{R"({"batchSize": "64"})", R"(spec.training.batchSize: must be an integer, got "64")"},
                    WrongSpec{R"({"batchSize": 1.5})", "spec.training.batchSize: must be an integer, got 1.5"},
                    WrongSpec{R"({"seed": 18446744073709551615})",
                              "spec.training.seed: must be an integer, got 18446744073709551615"},
                    WrongSpec{R"({"epochs": -1})", "spec.training.epochs: must be at least 1, got -1"},
                    WrongSpec{R"({"data": {"format": "csv"}})",
                              R"(spec.training.data.format: must be one of synthetic, idx, got "csv")"},
                    WrongSpec{R"({"data": {"uri": "s3://a", "path": "b"}})",
                              "spec.training.data.uri: excludes volumeClaim and path: the data is in one place"},
                    WrongSpec{R"({"optimizer": {"name": "lion"}})",
                              R"(spec.training.optimizer.name: must be one of adam, adamw, sgd, got "lion")"},
                    WrongSpec{R"({"optimizer": {"lr": 0}})", "spec.training.optimizer.lr: must be more than 0, got 0"},
                    WrongSpec{R"({"optimizer": {"momentum": 1}})",
                              "spec.training.optimizer.momentum: must be less than 1, got 1"},
                    WrongSpec{R"({"optimizer": {"weightDecay": -0.5}})",
                              "spec.training.optimizer.weightDecay: must be at least 0, got -0.5"},
                    WrongSpec{R"({"log": {"every": {"time": "soon"}}})",
                              "spec.training.log.every.time: 'soon' is no duration; write it like 90s, 5m or 1h30m"},
                    WrongSpec{R"({"snapshots": {"every": {"steps": 0}}})",
                              "spec.training.snapshots.every.steps: must be at least 1, got 0"},
                    WrongSpec{R"({"log": []})", "spec.training.log: must be an object, got []"}));

INSTANTIATE_TEST_SUITE_P(
    LogFilesAndTraces, ParseTrainingSpecRefuses,
    testing::Values(
        WrongSpec{R"({"log": {"files": ["xml"]}})",
                  "spec.training.log.files: must have only tensorboard, jsonl and csv, got \"xml\""},
        WrongSpec{R"({"log": {"files": "csv"}})", R"(spec.training.log.files: must be a list, got "csv")"},
        WrongSpec{R"({"profile": {"firstStep": 0}})", "spec.training.profile.firstStep: must be at least 1, got 0"},
        WrongSpec{R"({"profile": {"steps": 101}})", "spec.training.profile.steps: must be at most 100, got 101"}));

class ParseCheckpointSpecRefuses : public testing::TestWithParam<WrongSpec> {};

TEST_P(ParseCheckpointSpecRefuses, AndNamesTheFieldByItsPath) {
  const auto spec = parse_checkpoint_spec(json::parse(GetParam().object));
  ASSERT_FALSE(spec);
  EXPECT_EQ(spec.error(), (Error{ErrorKind::invalid, std::string{GetParam().message}, {}}));
}

INSTANTIATE_TEST_SUITE_P(
    Table, ParseCheckpointSpecRefuses,
    testing::Values(
        WrongSpec{"{}", "spec.checkpoint.uri: must be given"},
        WrongSpec{R"({"uri": "s3://a", "local": {"every": {"steps": 1}}})",
                  "spec.checkpoint.local.path: must be given"},
        WrongSpec{R"({"uri": "s3://a", "local": {"path": "x", "every": {"steps": 1}}})",
                  R"(spec.checkpoint.local.path: must be an absolute path, such as /local/checkpoints, got "x")"},
        WrongSpec{R"({"uri": "s3://a", "local": {"path": "/x", "every": {}}})",
                  "spec.checkpoint.local.every: is empty; give steps or time, such as {time: 30s}"},
        WrongSpec{"7", "spec.checkpoint: must be an object, got 7"},
        WrongSpec{R"({"uri": "s3://a", "keep": {"last": 1}})", "spec.checkpoint.keep.last: must be at least 2, got 1"},
        WrongSpec{R"({"uri": "s3://a", "whenBusy": "hope"})",
                  R"(spec.checkpoint.whenBusy: must be one of skip, wait, got "hope")"},
        WrongSpec{R"({"uri": "s3://a", "onSuspend": "wait"})",
                  R"(spec.checkpoint.onSuspend: must be one of request, signal, got "wait")"},
        WrongSpec{R"({"uri": "s3://a", "every": {"best": true}})",
                  "spec.checkpoint.every.best: needs keep.best, which says by which metric a checkpoint is the best"},
        WrongSpec{R"({"uri": "s3://a", "keep": {"best": {}}})", "spec.checkpoint.keep.best.metric: must be given"},
        WrongSpec{R"({"uri": "s3://a", "resume": "never"})",
                  R"(spec.checkpoint.resume: must be auto, none or the URI of checkpoints, got "never")"},
        WrongSpec{R"({"uri": "s3://a", "s3": {"pathStyle": "yes"}})",
                  R"(spec.checkpoint.s3.pathStyle: must be true or false, got "yes")"}));

}  // namespace
}  // namespace trainyard::api
