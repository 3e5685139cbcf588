#include "api/training_spec.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string_view>

namespace trainyard::api {
namespace {

using nlohmann::json;

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

TEST(ParseTrainingSpec, ReadsHowATrainingLearnsAndComputesAndGivesBackWhatWasWrittenFromIt) {
  struct Row {
    std::string_view object;
    std::function<void(TrainingSpec&)> expect;
  };
  const Row rows[] = {
      {R"({"optimizer": {"name": "lamb", "lrScaling": "sqrt", "weightDecay": 0.01}})",
       [](TrainingSpec& spec) {
         spec.optimizer = {.name = OptimizerName::lamb, .lr_scaling = LrScaling::sqrt, .weight_decay = 0.01};
       }},
      {R"({"optimizer": {"name": "sgd", "momentum": 0.9, "nesterov": true, "lrScaling": "linear"}})",
       [](TrainingSpec& spec) {
         spec.optimizer = {
             .name = OptimizerName::sgd, .lr_scaling = LrScaling::linear, .momentum = 0.9, .nesterov = true};
       }},
      {R"({"optimizer": {"name": "adamw", "beta1": 0.5, "beta2": 0.6, "eps": 0.001}})",
       [](TrainingSpec& spec) {
         spec.optimizer = {.name = OptimizerName::adamw, .beta1 = 0.5, .beta2 = 0.6, .eps = 0.001};
       }},
      {R"({"optimizer": {"name": "sgd", "momentum": 0.5, "nesterov": true}})",
       [](TrainingSpec& spec) { spec.optimizer = {.name = OptimizerName::sgd, .momentum = 0.5, .nesterov = true}; }},
      {R"({"model": {"name": "torchscript", "kind": "torchscript", "uri": "s3://models/m.pt", "sha256": "00ff"}})",
       [](TrainingSpec& spec) {
         spec.model = {
             .kind = ModelKind::torchscript, .name = "torchscript", .uri = "s3://models/m.pt", .sha256 = "00ff"};
       }},
      {R"({"data": {"format": "images", "volumeClaim": "datasets", "path": "flowers"}})",
       [](TrainingSpec& spec) {
         spec.data = {.format = DataFormat::images, .volume_claim = "datasets", .path = "flowers"};
       }},
      {R"({"accumulateGradBatches": 2})", [](TrainingSpec& spec) { spec.accumulate_grad_batches = 2; }},
      {R"({"accumulateGradBatches": 4})", [](TrainingSpec& spec) { spec.accumulate_grad_batches = 4; }},
      {R"({"strategy": {"name": "ddp"}})", [](TrainingSpec&) {}},
      {R"({"strategy": {"name": "ddp_spawn"}})", [](TrainingSpec&) {}},
      {R"({"strategy": {"join": true}})", [](TrainingSpec& spec) { spec.strategy.join = true; }},
      {R"({"strategy": {"name": "horovod", "gradientCompression": "fp16", "fusionThresholdMiB": 0,
                        "gradientPredivideFactor": 2.5}})",
       [](TrainingSpec& spec) {
         spec.strategy = {.name = StrategyName::horovod,
                          .gradient_compression = GradientCompression::fp16,
                          .fusion_threshold_mib = 0,
                          .gradient_predivide_factor = 2.5};
       }},
      {R"({"strategy": {"processGroupBackend": "gloo"}})",
       [](TrainingSpec& spec) { spec.strategy.process_group_backend = ProcessGroupBackend::gloo; }},
      {R"({"strategy": {"processGroupBackend": "nccl"}})",
       [](TrainingSpec& spec) { spec.strategy.process_group_backend = ProcessGroupBackend::nccl; }},
      {R"({"strategy": {"timeline": true}})", [](TrainingSpec& spec) { spec.strategy.timeline = true; }},
      {R"({"strategy": {"autotune": true}})", [](TrainingSpec& spec) { spec.strategy.autotune = true; }},
      {R"({"strategy": {"name": "horovod", "autotune": true}})",
       [](TrainingSpec& spec) { spec.strategy = {.name = StrategyName::horovod, .autotune = true}; }},
      {R"({"strategy": {"name": "horovod", "op": "adasum"}})",
       [](TrainingSpec& spec) { spec.strategy = {.name = StrategyName::horovod, .op = ReductionOp::adasum}; }},
      {R"({"strategy": {"name": "horovod", "op": "sum", "gradientCompression": "fp16"}})",
       [](TrainingSpec& spec) {
         spec.strategy = {
             .name = StrategyName::horovod, .gradient_compression = GradientCompression::fp16, .op = ReductionOp::sum};
       }},
      {R"({"strategy": {"name": "bagua", "algorithm": "bytegrad"}})",
       [](TrainingSpec& spec) {
         spec.strategy = {.name = StrategyName::bagua, .algorithm = BaguaAlgorithm::bytegrad};
       }},
      {R"({"strategy": {"name": "bagua", "algorithm": "qadam", "qadamWarmupSteps": 7}})",
       [](TrainingSpec& spec) {
         spec.strategy = {.name = StrategyName::bagua, .algorithm = BaguaAlgorithm::qadam, .qadam_warmup_steps = 7};
       }},
      {R"({"strategy": {"name": "bagua", "algorithm": "decentralized", "peerSelection": "shiftOne",
                        "communicationInterval": 3}})",
       [](TrainingSpec& spec) {
         spec.strategy = {.name = StrategyName::bagua,
                          .algorithm = BaguaAlgorithm::decentralized,
                          .peer_selection = PeerSelection::shift_one,
                          .communication_interval = 3};
       }},
      {R"({"strategy": {"name": "bagua", "algorithm": "bytegrad", "hierarchical": true}})",
       [](TrainingSpec& spec) {
         spec.strategy = {.name = StrategyName::bagua, .algorithm = BaguaAlgorithm::bytegrad, .hierarchical = true};
       }},
      {R"({"strategy": {"name": "bagua", "algorithm": "lowPrecisionDecentralized", "communicationInterval": 2}})",
       [](TrainingSpec& spec) {
         spec.strategy = {.name = StrategyName::bagua,
                          .algorithm = BaguaAlgorithm::low_precision_decentralized,
                          .communication_interval = 2};
       }},
      {R"({"strategy": {"name": "bagua", "algorithm": "async", "syncIntervalMs": 20, "asyncWarmupSteps": 3}})",
       [](TrainingSpec& spec) {
         spec.strategy = {.name = StrategyName::bagua,
                          .algorithm = BaguaAlgorithm::async,
                          .sync_interval_ms = 20,
                          .async_warmup_steps = 3};
       }},
      {R"({"strategy": {"name": "sharded", "bucketMiB": 8}})",
       [](TrainingSpec& spec) { spec.strategy = {.name = StrategyName::sharded, .bucket_mib = 8}; }},
      {R"({"strategy": {"name": "sharded", "shardParameters": true}})",
       [](TrainingSpec& spec) { spec.strategy = {.name = StrategyName::sharded, .shard_parameters = true}; }},
      {R"({"strategy": {"name": "dp", "cpuReplicas": 4}})",
       [](TrainingSpec& spec) { spec.strategy = {.name = StrategyName::dp, .cpu_replicas = 4}; }},
      {R"({"strategy": {"name": "ddp2", "bucketMiB": 4}})",
       [](TrainingSpec& spec) { spec.strategy = {.name = StrategyName::ddp2, .bucket_mib = 4}; }},
      {R"({"strategy": {"name": "single"}})",
       [](TrainingSpec& spec) { spec.strategy = {.name = StrategyName::single}; }},
      {R"({"strategy": {"gradientCompression": "bf16"}})",
       [](TrainingSpec& spec) { spec.strategy.gradient_compression = GradientCompression::bf16; }},
      {R"({"strategy": {"gradientCompression": "powersgd", "bucketMiB": 4, "broadcastBuffers": false,
                        "powerSgd": {"rank": 2, "startStep": 0, "errorFeedback": false, "warmStart": false},
                        "syncBatchNorm": true, "checkParametersEvery": {"steps": 10}}})",
       [](TrainingSpec& spec) {
         spec.strategy = {.gradient_compression = GradientCompression::powersgd,
                          .power_sgd = {.rank = 2, .start_step = 0, .error_feedback = false, .warm_start = false},
                          .bucket_mib = 4,
                          .broadcast_buffers = false,
                          .sync_batch_norm = true,
                          .check_parameters_every = 10};
       }},
      {R"({"lrSchedule": {"name": "step", "every": {"epochs": 30}, "factor": 0.5}})",
       [](TrainingSpec& spec) {
         spec.lr_schedule = {
             .name = LrScheduleName::step, .every = {.steps = {}, .epochs = 30, .time = {}}, .factor = 0.5};
       }},
      {R"({"lrSchedule": {"name": "cosine", "warmupSteps": 100, "minLr": 0.00001}})",
       [](TrainingSpec& spec) {
         spec.lr_schedule = {.name = LrScheduleName::cosine, .warmup_steps = 100, .min_lr = 0.00001};
       }},
      {R"({"lrSchedule": {"name": "plateau", "metric": "val_loss", "mode": "max", "factor": 0.3, "patience": 0,
                          "threshold": 0.01, "minLr": 0.001}})",
       [](TrainingSpec& spec) {
         spec.lr_schedule = {.name = LrScheduleName::plateau,
                             .min_lr = 0.001,
                             .factor = 0.3,
                             .metric = "val_loss",
                             .mode = BestMode::max,
                             .patience = 0,
                             .threshold = 0.01};
       }},
      {R"({"lrSchedule": {"warmupSteps": 10}})", [](TrainingSpec& spec) { spec.lr_schedule.warmup_steps = 10; }},
      {R"({"gradientClip": {"norm": 1.5}})",
       [](TrainingSpec& spec) { spec.gradient_clip = GradientClipSpec{.norm = 1.5, .value = {}}; }},
      {R"({"gradientClip": {"value": 0.5}})",
       [](TrainingSpec& spec) { spec.gradient_clip = GradientClipSpec{.norm = {}, .value = 0.5}; }},
      {R"({"ema": {}})", [](TrainingSpec& spec) { spec.ema = EmaSpec{}; }},
      {R"({"ema": {"decay": 0.5}})", [](TrainingSpec& spec) { spec.ema = EmaSpec{.decay = 0.5}; }},
      {R"({"earlyStopping": {"metric": "val_accuracy", "mode": "max", "patience": 5, "minDelta": 0.001}})",
       [](TrainingSpec& spec) {
         spec.early_stopping =
             EarlyStoppingSpec{.metric = "val_accuracy", .mode = BestMode::max, .patience = 5, .min_delta = 0.001};
       }},
      {R"({"task": "fit"})", [](TrainingSpec&) {}},
      {R"({"task": "validate"})", [](TrainingSpec& spec) { spec.task = Task::validate; }},
      {R"({"task": "test"})", [](TrainingSpec& spec) { spec.task = Task::test; }},
      {R"({"task": "predict"})", [](TrainingSpec& spec) { spec.task = Task::predict; }},
      {R"({"onNonFiniteLoss": "continue"})", [](TrainingSpec&) {}},
      {R"({"onNonFiniteLoss": "stop"})", [](TrainingSpec& spec) { spec.on_non_finite_loss = OnNonFiniteLoss::stop; }},
      {R"({"onNonFiniteLoss": "skip"})", [](TrainingSpec& spec) { spec.on_non_finite_loss = OnNonFiniteLoss::skip; }},
      {R"({"onNonFiniteLoss": "rewind"})",
       [](TrainingSpec& spec) { spec.on_non_finite_loss = OnNonFiniteLoss::rewind; }},
      {R"({"precision": 16})", [](TrainingSpec& spec) { spec.precision = Precision::fp16_mixed; }},
      {R"({"precision": "bf16"})", [](TrainingSpec& spec) { spec.precision = Precision::bf16_mixed; }},
      {R"({"precision": 32})", [](TrainingSpec& spec) { spec.precision = Precision::fp32; }},
      {R"({"precision": "64-true"})", [](TrainingSpec& spec) { spec.precision = Precision::fp64; }},
      {R"({"precision": "16-true"})", [](TrainingSpec& spec) { spec.precision = Precision::fp16; }},
      {R"({"precision": "bf16-true"})", [](TrainingSpec& spec) { spec.precision = Precision::bf16; }},
      {R"({"float32MatmulPrecision": "medium"})",
       [](TrainingSpec& spec) { spec.float32_matmul_precision = Float32MatmulPrecision::medium; }},
      {R"({"channelsLast": true, "cudnnBenchmark": true, "deterministic": true})", [](TrainingSpec& spec) {
         spec.channels_last = true;
         spec.cudnn_benchmark = true;
         spec.deterministic = true;
       }}};
  for (const Row& row : rows) {
    json object{{"model", {{"name", "m"}}}};
    object.merge_patch(json::parse(row.object));
    TrainingSpec expected;
    expected.model.name = "m";
    row.expect(expected);
    const auto spec = parse_training_spec(object);
    ASSERT_TRUE(spec) << row.object << ": " << spec.error().message;
    EXPECT_EQ(*spec, expected) << row.object;
    const auto again = parse_training_spec(to_json(*spec));
    ASSERT_TRUE(again) << row.object << ": " << again.error().message;
    EXPECT_EQ(*again, expected) << row.object;
  }
}

TEST(TrainingSpecToJson, WritesOnlyTheFieldsThatTheOthersLeaveAPurpose) {
  const auto written = [](std::string_view part, const TrainingSpec& spec) {
    return to_json(spec).value(part, json());
  };
  TrainingSpec spec;
  spec.strategy = {.name = StrategyName::single};
  EXPECT_EQ(written("strategy", spec), json::parse(R"({"name": "single"})"));
  EXPECT_FALSE(has_replicas(spec.strategy));
  spec.strategy = {.name = StrategyName::ddp2};
  EXPECT_EQ(written("strategy", spec), json::parse(R"({"name": "ddp2", "cpuReplicas": 1})"));
  EXPECT_TRUE(has_replicas(spec.strategy));
  spec.strategy = {.name = StrategyName::horovod, .op = ReductionOp::sum};
  EXPECT_EQ(written("strategy", spec), json::parse(R"({"name": "horovod", "fusionThresholdMiB": 128, "op": "sum"})"));
  spec.strategy = {.name = StrategyName::horovod, .autotune = true};
  EXPECT_EQ(written("strategy", spec),
            json::parse(R"({"name": "horovod", "autotune": true, "gradientPredivideFactor": 1.0, "op": "average"})"));
  spec.strategy = {.name = StrategyName::bagua};
  EXPECT_EQ(written("strategy", spec), json::parse(R"({"name": "bagua", "algorithm": "gradientAllreduce"})"));
  spec.strategy = {.name = StrategyName::bagua, .algorithm = BaguaAlgorithm::low_precision_decentralized};
  EXPECT_EQ(written("strategy", spec),
            json::parse(R"({"name": "bagua", "algorithm": "lowPrecisionDecentralized", "communicationInterval": 1})"));
  spec.strategy = {.name = StrategyName::bagua, .algorithm = BaguaAlgorithm::async};
  EXPECT_TRUE(has_own_parameters(spec.strategy));
  EXPECT_EQ(written("strategy", spec),
            json::parse(R"({"name": "bagua", "algorithm": "async", "syncIntervalMs": 500, "asyncWarmupSteps": 0})"));
  // An algorithm of another strategy says nothing.
  spec.strategy = {.bucket_mib = 3, .algorithm = BaguaAlgorithm::decentralized};
  EXPECT_FALSE(has_own_parameters(spec.strategy));
  EXPECT_EQ(written("strategy", spec), json::parse(R"({"name": "ddp", "bucketMiB": 3})"));
  spec.strategy = {.bucket_mib = 3, .algorithm = BaguaAlgorithm::async};
  EXPECT_FALSE(is_async(spec.strategy));

  spec.lr_schedule = {.name = LrScheduleName::cosine};
  EXPECT_EQ(written("lrSchedule", spec), json::parse(R"({"name": "cosine", "warmupSteps": 0})"));
  spec.lr_schedule = {.name = LrScheduleName::step, .every = {.steps = 5, .epochs = {}, .time = {}}, .factor = 0.5};
  EXPECT_EQ(written("lrSchedule", spec),
            json::parse(R"({"name": "step", "warmupSteps": 0, "every": {"steps": 5}, "factor": 0.5})"));
  EXPECT_FALSE(to_json(spec).contains("accumulateGradBatches"));
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

TEST(ParseTrainingSpec, NamesTheModelOfAFileAfterItsKind) {
  const auto spec = parse_training_spec(json::parse(R"({"model": {"kind": "torchscript", "uri": "file:///m.pt"}})"));
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->model.name, "torchscript");
}

TEST(ParseTrainingSpec, ReadsTheFormatOptionsAndLoaderThreadsOfTheData) {
  struct Case {
    std::string name;
    DataFormat format;
  };
  const std::vector<Case> cases{{"synthetic", DataFormat::synthetic}, {"idx", DataFormat::idx},
                                {"cifar10", DataFormat::cifar10},     {"cifar100", DataFormat::cifar100},
                                {"images", DataFormat::images},       {"imagePairs", DataFormat::image_pairs},
                                {"tokens", DataFormat::tokens}};
  for (const Case& c : cases) {
    const json data{{"format", c.name}, {"options", {{"size", 64}}}, {"loaderThreads", 3}};
    const auto spec = parse_training_spec({{"model", {{"name", "m"}}}, {"data", data}});
    ASSERT_TRUE(spec) << spec.error().message;
    EXPECT_EQ(spec->data, (DataSpec{.format = c.format, .options = {{"size", 64}}, .loader_threads = 3})) << c.name;
    EXPECT_EQ(to_json(*spec).at("data").at("format"), c.name);
    EXPECT_EQ(*parse_training_spec(to_json(*spec)), *spec) << c.name;
  }
}

TEST(ParseTrainingSpec, ReadsReplaceSamplerAndWritesItOnlyWhereItIsFalse) {
  for (const bool replaces : {true, false}) {
    const auto spec = parse_training_spec({{"model", {{"name", "m"}}}, {"data", {{"replaceSampler", replaces}}}});
    ASSERT_TRUE(spec) << spec.error().message;
    EXPECT_EQ(spec->data.replace_sampler, replaces);
    EXPECT_EQ(to_json(*spec).at("data").contains("replaceSampler"), !replaces);
    EXPECT_EQ(*parse_training_spec(to_json(*spec)), *spec) << replaces;
  }
  EXPECT_TRUE(DataSpec{}.replace_sampler);
}

TEST(ParseTrainingSpec, RefusesOptionsAndLoaderThreadsOfTheDataOutsideTheirBounds) {
  const auto refusal = [](const json& data) {
    const auto spec = parse_training_spec({{"model", {{"name", "m"}}}, {"data", data}});
    return spec ? "" : spec.error().message;
  };
  EXPECT_EQ(refusal({{"options", "x"}}), "spec.training.data.options: must be an object, got \"x\"");
  EXPECT_EQ(refusal({{"options", {{"name", std::string(4'085, 'x')}}}}), "") << "4,096 bytes with the name";
  EXPECT_EQ(refusal({{"options", {{"name", std::string(4'086, 'x')}}}}),
            "spec.training.data.options: must be at most 4096 bytes of JSON, got 4097; put large values into a file");
  EXPECT_EQ(refusal({{"loaderThreads", 64}}), "");
  EXPECT_EQ(refusal({{"loaderThreads", 65}}), "spec.training.data.loaderThreads: must be at most 64, got 65");
  EXPECT_EQ(refusal({{"loaderThreads", -1}}), "spec.training.data.loaderThreads: must be at least 0, got -1");
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
    testing::Values(
        WrongSpec{R"({"model": null})", "spec.training.model: must be given"},
        WrongSpec{R"({"model": {"name": ""}})", "spec.training.model.name: must be given"},
        WrongSpec{R"({"batchSize": 0})", "spec.training.batchSize: must be at least 1, got 0"},
        WrongSpec{R"({"batchSize": "64"})", R"(spec.training.batchSize: must be an integer, got "64")"},
        WrongSpec{R"({"batchSize": 1.5})", "spec.training.batchSize: must be an integer, got 1.5"},
        WrongSpec{R"({"seed": 18446744073709551615})",
                  "spec.training.seed: must be an integer, got 18446744073709551615"},
        WrongSpec{R"({"seed": 1e19})", "spec.training.seed: must be an integer, got 1e+19"},
        WrongSpec{R"({"optimizer": {"lr": "0.1"}})", R"(spec.training.optimizer.lr: must be a number, got "0.1")"},
        WrongSpec{R"({"optimizer": {"lr": 1e301}})", "spec.training.optimizer.lr: must be at most 1e+300, got 1e+301"},
        WrongSpec{R"({"data": {"uri": "s3://a", "volumeClaim": "b"}})",
                  "spec.training.data.uri: excludes volumeClaim and path: the data is in one place"},
        WrongSpec{R"({"epochs": -1})", "spec.training.epochs: must be at least 1, got -1"},
        WrongSpec{
            R"({"data": {"format": "csv"}})",
            R"(spec.training.data.format: must be one of synthetic, idx, cifar10, cifar100, images, imagePairs, tokens, safetensors, got "csv")"},
        WrongSpec{R"({"data": {"uri": "s3://a", "path": "b"}})",
                  "spec.training.data.uri: excludes volumeClaim and path: the data is in one place"},
        WrongSpec{R"({"optimizer": {"name": "lion"}})",
                  R"(spec.training.optimizer.name: must be one of adam, adamw, lamb, sgd, got "lion")"},
        WrongSpec{R"({"optimizer": {"lr": 0}})", "spec.training.optimizer.lr: must be more than 0, got 0"},
        WrongSpec{R"({"optimizer": {"momentum": 1}})", "spec.training.optimizer.momentum: must be less than 1, got 1"},
        WrongSpec{R"({"optimizer": {"weightDecay": -0.5}})",
                  "spec.training.optimizer.weightDecay: must be at least 0, got -0.5"},
        WrongSpec{R"({"optimizer": {"name": "sgd", "nesterov": true}})",
                  "spec.training.optimizer.nesterov: needs momentum"},
        WrongSpec{R"({"optimizer": {"lrScaling": "log"}})",
                  R"(spec.training.optimizer.lrScaling: must be one of none, linear, sqrt, got "log")"},
        WrongSpec{R"({"accumulateGradBatches": 0})", "spec.training.accumulateGradBatches: must be at least 1, got 0"},
        WrongSpec{R"({"lrSchedule": {"name": "step"}})",
                  "spec.training.lrSchedule.every: is needed by step; give steps or epochs, such as {epochs: "
                  "30}"},
        WrongSpec{R"({"lrSchedule": {"name": "plateau"}})", "spec.training.lrSchedule.metric: must be given"},
        WrongSpec{R"({"lrSchedule": {"warmupSteps": -1}})",
                  "spec.training.lrSchedule.warmupSteps: must be at least 0, got -1"},
        WrongSpec{R"({"lrSchedule": {"factor": 0}})", "spec.training.lrSchedule.factor: must be more than 0, got 0"},
        WrongSpec{R"({"gradientClip": {}})",
                  "spec.training.gradientClip.norm: or value must be given, and only one of them, such as "
                  "{norm: 1.0}"},
        WrongSpec{R"({"gradientClip": {"norm": 1, "value": 1}})",
                  "spec.training.gradientClip.norm: or value must be given, and only one of them, such as "
                  "{norm: 1.0}"},
        WrongSpec{R"({"gradientClip": {"norm": 0}})", "spec.training.gradientClip.norm: must be more than 0, got 0"},
        WrongSpec{R"({"ema": {"decay": 1}})", "spec.training.ema.decay: must be less than 1, got 1"},
        WrongSpec{R"({"earlyStopping": {}})", "spec.training.earlyStopping.metric: must be given"},
        WrongSpec{R"({"earlyStopping": {"metric": "m", "patience": 0}})",
                  "spec.training.earlyStopping.patience: must be at least 1, got 0"},
        WrongSpec{R"({"task": "guess"})",
                  R"(spec.training.task: must be one of fit, validate, test, predict, got "guess")"},
        WrongSpec{R"({"onNonFiniteLoss": "hope"})",
                  R"(spec.training.onNonFiniteLoss: must be one of continue, stop, skip, rewind, got "hope")"},
        WrongSpec{R"({"precision": 8})",
                  "spec.training.precision: must be one of 32-true, 64-true, 16-mixed, bf16-mixed, 16-true, "
                  "bf16-true, 32, 64, 16, bf16, got 8"},
        WrongSpec{R"({"precision": "16-true", "strategy": {"gradientCompression": "bf16"}})",
                  "spec.training.strategy.gradientCompression: is for gradients of 32 or 64 bits, and this precision "
                  "has 16"},
        WrongSpec{R"({"precision": "bf16-true", "strategy": {"gradientCompression": "powersgd"}})",
                  "spec.training.strategy.gradientCompression: is for gradients of 32 or 64 bits, and this precision "
                  "has 16"},
        WrongSpec{R"({"precision": "16-mixed", "strategy": {"gradientCompression": "powersgd"}})",
                  "spec.training.strategy.gradientCompression: is powersgd, which adds the error of one step to the "
                  "next, whose loss 16-mixed may scale otherwise"},
        WrongSpec{R"({"precision": "16-mixed", "strategy": {"name": "horovod", "op": "adasum"}})",
                  "spec.training.strategy.op: is adasum, with which each rank steps by its own gradients, and 16-mixed "
                  "may skip the step of one rank alone"},
        WrongSpec{R"({"strategy": {"checkParametersEvery": {}}})",
                  "spec.training.strategy.checkParametersEvery.steps: must be given"},
        WrongSpec{R"({"ema": {"decay": 1.5}})", "spec.training.ema.decay: must be less than 1, got 1.5"},
        WrongSpec{R"({"lrSchedule": {"factor": 1.5}})", "spec.training.lrSchedule.factor: must be at most 1, got 1.5"},
        WrongSpec{R"({"model": {"name": 5}, "batchSize": 0})", "spec.training.model.name: must be a string, got 5"},
        WrongSpec{R"({"log": {"every": {"time": 5}}})", "spec.training.log.every.time: must be a string, got 5"},
        WrongSpec{R"({"log": {"files": ["csv", 5]}})", "spec.training.log.files[1]: must be a string, got 5"},
        WrongSpec{R"({"float32MatmulPrecision": "low"})",
                  R"(spec.training.float32MatmulPrecision: must be one of highest, high, medium, got "low")"},
        WrongSpec{R"({"channelsLast": 1})", "spec.training.channelsLast: must be true or false, got 1"},
        WrongSpec{R"({"log": {"every": {"time": "soon"}}})",
                  "spec.training.log.every.time: 'soon' is no duration; write it like 90s, 5m or 1h30m"},
        WrongSpec{R"({"snapshots": {"every": {"steps": 0}}})",
                  "spec.training.snapshots.every.steps: must be at least 1, got 0"},
        WrongSpec{R"({"snapshots": {"every": {"epochs": 0}}})",
                  "spec.training.snapshots.every.epochs: must be at least 1, got 0"},
        WrongSpec{R"({"log": []})", "spec.training.log: must be an object, got []"}));

INSTANTIATE_TEST_SUITE_P(
    LogFilesAndTraces, ParseTrainingSpecRefuses,
    testing::Values(
        WrongSpec{R"({"log": {"files": ["xml"]}})",
                  "spec.training.log.files: must have only tensorboard, jsonl and csv, got \"xml\""},
        WrongSpec{R"({"log": {"files": "csv"}})", R"(spec.training.log.files: must be a list, got "csv")"},
        WrongSpec{R"({"profile": {"firstStep": 0}})", "spec.training.profile.firstStep: must be at least 1, got 0"},
        WrongSpec{R"({"profile": {"steps": 101}})", "spec.training.profile.steps: must be at most 100, got 101"}));

}  // namespace
}  // namespace trainyard::api
