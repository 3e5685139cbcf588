#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "api/contract.hpp"
#include "tests/fakes/free_port.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/paths/paths.hpp"
#include "tests/worker/fakes/rank_processes.hpp"

/// Runs trainyard-rank as processes without a launcher, for tests of how a rank handles its environment, its group and
/// signals.
namespace trainyard {
namespace {

using fakes::RankProcess;
using testing::HasSubstr;

const std::string synthetic =
    R"("model": {"name": "fashion_cnn"}, "data": {"format": "synthetic", "samples": 240}, "batchSize": 8)";

class RankProgramTest : public testing::Test {
 protected:
  std::vector<RankProcess> start(std::int64_t world_size, const std::string& training,
                                 const std::string& checkpoint = "null", std::int64_t attempt = 1) {
    const std::string port = std::to_string(fakes::free_port());
    std::vector<RankProcess> ranks;
    for (std::int64_t rank = 0; rank < world_size; ++rank)
      ranks.push_back(start_rank(rank, world_size, port, training, checkpoint, attempt));
    return ranks;
  }
  RankProcess start_rank(std::int64_t rank, std::int64_t world_size, const std::string& port,
                         const std::string& training, const std::string& checkpoint = "null",
                         std::int64_t attempt = 1) {
    RankProcess::Variables variables{
        {"RANK", std::to_string(rank)},
        {"LOCAL_RANK", std::to_string(rank)},
        {"WORLD_SIZE", std::to_string(world_size)},
        {"LOCAL_WORLD_SIZE", std::to_string(world_size)},
        {"MASTER_ADDR", "127.0.0.1"},
        {"MASTER_PORT", port},
        {"TRAINYARD_STATUS_PORT", std::to_string(fakes::free_port())},
        {"OMP_NUM_THREADS", "1"},
        {"CUDA_VISIBLE_DEVICES", "-1"},
        {"TRAINYARD_JOB_UID", "uid"},
        {"TRAINYARD_ATTEMPT", std::to_string(attempt)},
        {"TRAINYARD_LOG_FORMAT", "json"},
        {"TRAINYARD_SPEC", "{\"training\": {" + training + "}, \"checkpoint\": " + checkpoint + "}"}};
    for (const auto& [name, value] : variables_) variables[name] = value;
    RankProcess started{paths::program(program_), variables, log_file(rank)};
    EXPECT_TRUE(started.is_started()) << program_ << " cannot be started";
    return started;
  }
  /// Ranks that are started from now on find a driver that shows `gpus` GPUs.
  void fake_driver(int gpus) {
    variables_["LD_LIBRARY_PATH"] = paths::build("tests/worker/fakes/driver");
    variables_["FAKE_DRIVER_GPUS"] = std::to_string(gpus);
  }
  [[nodiscard]] std::string log_file(std::int64_t rank) const {
    return folder_.path() + "/rank" + std::to_string(rank) + ".log";
  }
  [[nodiscard]] std::string checkpoint_in_folder() const {
    return R"({"uri": ")" + folder_.uri() + R"(/checkpoints"})";
  }
  static std::vector<int> wait(std::vector<RankProcess>& ranks) {
    std::vector<int> codes;
    for (RankProcess& rank : ranks) codes.push_back(rank.wait());
    return codes;
  }
  static void wait_for_log(const RankProcess& rank, const std::string& text) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes{3};
    while (rank.log().find(text) == std::string::npos) {
      ASSERT_TRUE(rank.is_started());
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << rank.log();
      std::this_thread::sleep_for(std::chrono::milliseconds{20});
    }
  }
  static std::string checksum_in(const std::string& log) {
    const std::string key = "\"parametersChecksum\":\"";
    const std::size_t begin = log.rfind(key);
    return begin == std::string::npos ? "" : log.substr(begin + key.size(), 16);
  }

  fakes::TemporaryFolder folder_;
  std::string program_ = "trainyard-rank";
  RankProcess::Variables variables_;  // over those that every rank has
};

TEST_F(RankProgramTest, TrainsTwoRanksAndResumesToTheBitAfterSigterm) {
  auto whole = start(2, synthetic + R"(, "maxSteps": 40)");
  EXPECT_EQ(wait(whole), (std::vector<int>{0, 0})) << whole[0].log();
  const std::string expected = checksum_in(whole[0].log());
  EXPECT_EQ(expected.size(), 16U);

  auto first = start(2, synthetic + R"(, "maxSteps": 40, "log": {"every": {"steps": 1}})", checkpoint_in_folder());
  wait_for_log(first[0], "\"step\":3,");
  first[1].send(SIGTERM);
  EXPECT_EQ(wait(first), (std::vector<int>{contract::exit_preempted, contract::exit_preempted})) << first[0].log();

  auto second = start(2, synthetic + R"(, "maxSteps": 40)", checkpoint_in_folder(), 2);
  EXPECT_EQ(wait(second), (std::vector<int>{0, 0})) << second[0].log();
  EXPECT_THAT(second[0].log(), HasSubstr("resumed from a checkpoint"));
  EXPECT_EQ(checksum_in(second[0].log()), expected);

  auto third = start(2, synthetic + R"(, "maxSteps": 40)", checkpoint_in_folder(), 3);
  EXPECT_EQ(wait(third), (std::vector<int>{0, 0}));
  EXPECT_THAT(third[1].log(), HasSubstr("already complete"));
}

TEST_F(RankProgramTest, RecordsTheNamespaceOfItsJobInItsCheckpoints) {
  variables_["TRAINYARD_NAMESPACE"] = "research";
  variables_["TRAINYARD_JOB"] = "smoke";
  auto ranks = start(1, synthetic + R"(, "maxSteps": 1)", checkpoint_in_folder());
  EXPECT_EQ(wait(ranks), std::vector<int>{0}) << ranks[0].log();
  const auto claim = nlohmann::json::parse(fakes::text_of(folder_.path() + "/checkpoints/generations/1.json"));
  EXPECT_EQ(claim.at("job"), "research/smoke");
}

TEST_F(RankProgramTest, StoresTheTimelineOfItsExchangesWhenItIsAskedToStop) {
  auto ranks = start(2,
                     synthetic + R"(, "maxSteps": 100000, "log": {"every": {"steps": 1}},)"
                                 R"( "strategy": {"name": "ddp", "timeline": true})",
                     checkpoint_in_folder());
  wait_for_log(ranks[0], "\"step\":3,");
  ranks[0].send(SIGTERM);
  EXPECT_EQ(wait(ranks), (std::vector<int>{contract::exit_preempted, contract::exit_preempted})) << ranks[0].log();
  for (const RankProcess& rank : ranks) EXPECT_THAT(rank.log(), HasSubstr("timeline stored"));
}

TEST_F(RankProgramTest, RefusesPodsOnWhichItsRanksDoNotAgree) {
  variables_["LOCAL_RANK"] = "1";
  auto ranks = start(2, synthetic + R"(, "strategy": {"name": "bagua", "hierarchical": true})");
  EXPECT_EQ(wait(ranks), (std::vector<int>{contract::exit_do_not_restart, contract::exit_do_not_restart}));
  for (const RankProcess& rank : ranks)
    EXPECT_THAT(rank.log(), HasSubstr("rank 0 of 2 says '-1 2' of the first rank and the size of its pod"));
}

TEST_F(RankProgramTest, TestsAndPredictsWithTheWeightsOfACheckpoint) {
  auto trained = start(2, synthetic + R"(, "maxSteps": 2)", checkpoint_in_folder());
  EXPECT_EQ(wait(trained), (std::vector<int>{0, 0})) << trained[0].log();
  const std::string data =
      R"("data": {"format": "synthetic", "samples": 240}, "batchSize": 8, "model": {"name": "fashion_cnn", "weights": ")" +
      folder_.uri() + R"(/checkpoints"})";
  auto tested = start(2, data + R"(, "task": "test")");
  EXPECT_EQ(wait(tested), (std::vector<int>{0, 0})) << tested[0].log();
  EXPECT_THAT(tested[0].log(), HasSubstr("tested 40 samples, val_accuracy"));
  auto predicted = start(2, data + R"(, "task": "predict", "log": {"uri": ")" + folder_.uri() + R"(/predicted"})");
  EXPECT_EQ(wait(predicted), (std::vector<int>{0, 0})) << predicted[0].log();
  const auto index = nlohmann::json::parse(fakes::text_of(folder_.path() + "/predicted/predictions/index.json"));
  EXPECT_EQ(index.at("samples"), 40);
  EXPECT_EQ(index.at("files").size(), 2U);
}

TEST_F(RankProgramTest, DividesItsBatchesAmongReplicas) {
  auto trained =
      start(1, synthetic + R"(, "maxSteps": 2, "strategy": {"name": "dp", "cpuReplicas": 3})", checkpoint_in_folder());
  EXPECT_EQ(wait(trained), std::vector<int>{0}) << trained[0].log();
  EXPECT_THAT(trained[0].log(), HasSubstr(R"("message":"each rank divides its batches among replicas of the model")"));
  EXPECT_THAT(trained[0].log(), HasSubstr(R"("replicas":3)"));
  auto tested = start(2, R"("data": {"format": "synthetic", "samples": 240}, "batchSize": 8, "task": "predict",
      "strategy": {"name": "ddp2", "cpuReplicas": 2}, "model": {"name": "fashion_cnn", "weights": ")" +
                             folder_.uri() + R"(/checkpoints"}, "log": {"uri": ")" + folder_.uri() + R"(/predicted"})");
  EXPECT_EQ(wait(tested), (std::vector<int>{0, 0})) << tested[0].log();
  const auto index = nlohmann::json::parse(fakes::text_of(folder_.path() + "/predicted/predictions/index.json"));
  EXPECT_EQ(index.at("samples"), 40);
}

TEST_F(RankProgramTest, RefusesSeveralRanksOfATestThatIsOneRankAlone) {
  auto ranks = start(2, R"("data": {"format": "synthetic", "samples": 240}, "batchSize": 8, "task": "test",
      "model": {"name": "fashion_cnn", "weights": "file:///none.safetensors"}, "strategy": {"name": "single"})");
  EXPECT_EQ(wait(ranks), (std::vector<int>{contract::exit_do_not_restart, contract::exit_do_not_restart}));
  EXPECT_THAT(ranks[0].log(), HasSubstr("is single, which is one rank, but 2 ranks were started"));
}

TEST_F(RankProgramTest, ShowsItsMetricsAndImagesOfBothAttemptsBesideTheCheckpoints) {
  const std::string training =
      synthetic + R"(, "maxSteps": 20, "log": {"every": {"steps": 1}}, "snapshots": {"every": {"steps": 6}})";
  auto first = start(2, training, checkpoint_in_folder());
  wait_for_log(first[0], "\"step\":3,");
  first[0].send(SIGTERM);
  const std::vector<int> codes = wait(first);
  auto second = start(2, training, checkpoint_in_folder(), 2);
  EXPECT_EQ(wait(second), (std::vector<int>{0, 0})) << second[0].log();

  std::set<std::int64_t> loss_steps;
  std::vector<std::string> images;
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator{folder_.path() + "/checkpoints/snapshots"}) {
    if (entry.is_directory()) continue;
    const auto snapshot = nlohmann::json::parse(fakes::text_of(entry.path()));
    ++count;
    for (const auto& point : snapshot.at("metrics")) {
      if (point.at("name") == "loss" && point.at("over") == "steps") loss_steps.insert(point.at("step").get<int>());
    }
    for (const auto& image : snapshot.at("images")) images.push_back(image.at("name"));
  }
  EXPECT_GE(count, codes[0] == contract::exit_preempted ? 2U : 1U);
  EXPECT_EQ(loss_steps.size(), 20U) << "every step was logged, by the one attempt or the other";
  EXPECT_THAT(images, testing::Contains("validation"));
}

TEST_F(RankProgramTest, TrainsAConvolutionWithEverySettingOfTheArithmetic) {
  const std::string settings =
      R"(, "maxSteps": 4, "channelsLast": true, "cudnnBenchmark": true, "deterministic": true,
         "float32MatmulPrecision": "high", "gradientClip": {"norm": 1.0}, "ema": {}, "onNonFiniteLoss": "skip",
         "lrSchedule": {"name": "cosine", "warmupSteps": 2}, "optimizer": {"lrScaling": "sqrt"})";
  for (const std::string precision : {"16-mixed", "bf16-true"}) {
    auto ranks = start(2, synthetic + settings + R"(, "precision": ")" + precision + "\"");
    EXPECT_EQ(wait(ranks), (std::vector<int>{0, 0})) << ranks[0].log();
    EXPECT_THAT(ranks[0].log(), HasSubstr("\"grad_norm\":"));
    EXPECT_THAT(ranks[0].log(), HasSubstr("\"lr\":"));
  }
}

TEST_F(RankProgramTest, LetsEachRankGoThroughAllSamplesWhereTheSamplerIsNotReplaced) {
  variables_["TRAINYARD_RECORD_SAMPLES"] = folder_.path() + "/samples";
  auto ranks = start(2, R"("model": {"name": "fashion_cnn"}, "batchSize": 8,
      "data": {"format": "synthetic", "samples": 16, "replaceSampler": false})");
  ASSERT_EQ(wait(ranks), (std::vector<int>{0, 0})) << ranks[0].log();
  EXPECT_THAT(ranks[0].log(), HasSubstr(R"("trainingSamples":16,"epochSamples":32)"));
  std::map<int, std::set<int>> ids_by_rank;
  std::ifstream lines{folder_.path() + "/samples"};
  for (std::string line; std::getline(lines, line);) {
    const auto entry = nlohmann::json::parse(line);
    for (const auto& id : entry.at("ids")) ids_by_rank[entry.at("rank").get<int>()].insert(id.get<int>());
  }
  EXPECT_EQ(ids_by_rank[0].size(), 16U);
  EXPECT_EQ(ids_by_rank[1].size(), 16U);
}

TEST_F(RankProgramTest, EndsAsPeerLostWhenAnotherRankIsKilled) {
  auto ranks = start(2, synthetic + R"(, "epochs": 100000, "log": {"every": {"steps": 1}})");
  wait_for_log(ranks[0], "\"step\":2,");
  ranks[0].send(SIGPIPE);  // A write to the killed rank's socket may do the same.
  ranks[1].send(SIGKILL);
  EXPECT_EQ(ranks[0].wait(), contract::exit_peer_lost) << ranks[0].log();
  EXPECT_THAT(ranks[0].log(), HasSubstr("PeerLost"));
}

TEST_F(RankProgramTest, IsPreemptedWhenAskedToStopWhileItWaitsForTheOthers) {
  RankProcess early = start_rank(0, 2, std::to_string(fakes::free_port()), synthetic);
  wait_for_log(early, "rank 1 of 2 has not come");
  early.send(SIGTERM);
  EXPECT_EQ(early.wait(), contract::exit_preempted) << early.log();
  EXPECT_THAT(early.log(), HasSubstr("while the group was forming"));
}

TEST_F(RankProgramTest, RefusesWhatARestartCannotHelpWithOneSentence) {
  struct Case {
    std::string what, training, message;
  };
  const std::vector<Case> cases{
      {"unknown model", R"("model": {"name": "resnet"}, "data": {"format": "synthetic"})",
       "training.model.name: no model 'resnet' here (there is: deepliif, fashion_cnn, gpt2, resnet18, resnet50); for "
       "your own use --worker or an image"},
      {"wrong data path", R"("model": {"name": "fashion_cnn"}, "data": {"format": "idx", "path": "/nowhere"})",
       "the data path /nowhere is not a folder that can be read; expected there: train-images-idx3-ubyte and "
       "train-labels-idx1-ubyte"},
      {"no such data URI", R"("model": {"name": "fashion_cnn"}, "data": {"format": "idx", "uri": "file:///nowhere"})",
       "/nowhere"},
      {"wrong field", R"("model": {"name": "fashion_cnn"}, "batchSize": -1)", "batchSize"},
      {"unknown option of the data",
       R"("model": {"name": "fashion_cnn"}, "data": {"format": "synthetic", "samples": 8, "options": {"horizontlFlip": true}})",
       "training.data.options.horizontlFlip: the format synthetic has no such option; did you mean horizontalFlip?"},
  };
  for (const Case& c : cases) {
    auto ranks = start(1, c.training);
    EXPECT_EQ(ranks[0].wait(), contract::exit_do_not_restart) << c.what << ": " << ranks[0].log();
    EXPECT_THAT(ranks[0].log(), HasSubstr(c.message)) << c.what;
  }
}

TEST_F(RankProgramTest, RefusesOptionsThatTheProgramsOwnDataDoesNotHave) {
  program_ = "line_fit";
  auto ranks = start(1, R"("model": {"name": "line_fit"}, "data": {"format": "synthetic", "options": {"noise": 1}})");
  EXPECT_EQ(ranks[0].wait(), contract::exit_do_not_restart) << ranks[0].log();
  EXPECT_THAT(ranks[0].log(), HasSubstr("training.data.options.noise: the model's open_datasets() has no such option; "
                                        "it has none here"));
}

TEST_F(RankProgramTest, RefusesDataWithMoreClassesThanTheModel) {
  auto ranks = start(1, R"("model": {"name": "resnet18", "options": {"classes": 9, "channels": 1}},
      "data": {"format": "synthetic", "samples": 240})");
  EXPECT_EQ(ranks[0].wait(), contract::exit_do_not_restart) << ranks[0].log();
  EXPECT_THAT(ranks[0].log(),
              HasSubstr("the training set has labels up to 9, but the model tells only 9 classes apart"));
}

TEST_F(RankProgramTest, TrainsALanguageModelOnTokensAndResumesToTheBit) {
  std::string tokens;
  for (int number = 0; number < 400; ++number) tokens += {static_cast<char>(number * number % 31), '\0'};
  folder_.write("train.bin", tokens);
  folder_.write("val.bin", tokens.substr(0, 100));
  const std::string training = R"("model": {"name": "gpt2", "options": {"layers": 2, "heads": 2, "width": 16,
      "vocabulary": 31, "sequenceLength": 8}}, "data": {"format": "tokens", "path": ")" +
                               folder_.path() +
                               R"(", "options": {"sequenceLength": 8, "vocabulary": 31}}, "batchSize": 4)";
  auto whole = start(2, training + R"(, "maxSteps": 20)");
  ASSERT_EQ(wait(whole), (std::vector<int>{0, 0})) << whole[0].log();
  EXPECT_THAT(whole[0].log(), HasSubstr("val_loss"));
  auto first = start(2, training + R"(, "maxSteps": 9)", checkpoint_in_folder());
  ASSERT_EQ(wait(first), (std::vector<int>{0, 0})) << first[0].log();
  auto second = start(2, training + R"(, "maxSteps": 20)", checkpoint_in_folder(), 2);
  ASSERT_EQ(wait(second), (std::vector<int>{0, 0})) << second[0].log();
  EXPECT_EQ(checksum_in(second[0].log()), checksum_in(whole[0].log()));
}

TEST_F(RankProgramTest, EndsBothRanksWhereOneHasMoreDataThanTheOther) {
  const std::string port = std::to_string(fakes::free_port());
  std::vector<RankProcess> ranks;
  for (std::int64_t rank = 0; rank < 2; ++rank) {
    const std::string training = fmt::format(
        R"("model": {{"name": "gpt2", "options": {{"layers": 1, "heads": 1, "width": 4, "vocabulary": 256}}}},
           "data": {{"format": "tokens", "path": "{0}",
                     "options": {{"sequenceLength": 8, "vocabulary": 256, "validation": false}}}},
           "batchSize": 1, "maxSteps": 2)",
        folder_.file(fmt::format("node{}", rank)).string());
    std::filesystem::create_directory(folder_.file(fmt::format("node{}", rank)));
    folder_.write(fmt::format("node{}/train.bin", rank), std::string(static_cast<std::size_t>(18 + 16 * rank), '\0'));
    ranks.push_back(start_rank(rank, 2, port, training));
  }
  EXPECT_EQ(wait(ranks), (std::vector<int>{contract::exit_failure, contract::exit_failure}));
  for (const RankProcess& rank : ranks) {
    EXPECT_THAT(rank.log(), HasSubstr("\"DataFailed\""));
    EXPECT_THAT(rank.log(), HasSubstr("the training set of rank 1 is not that of rank 0: rank 0 has 1 samples, 256 "
                                      "classes, the id "));
  }
}

TEST_F(RankProgramTest, EndsAtOnceWhereAGpuThatWasPromisedIsMissing) {
  struct Case {
    std::string what;
    RankProcess::Variables variables;
    int exit_code = 0;
    std::string message;
  };
  // The driver is asked first, so that a file that is not a module is noticed only when it is loaded.
  const std::string some_file = "/etc/passwd";
  const std::string driver = paths::build("tests/worker/fakes/driver");
  const std::vector<Case> cases{
      {"an image for the CPU",
       {{"TRAINYARD_GPUS_PER_POD", "1"}, {"TRAINYARD_CUDA_MODULE", "/nowhere/cuda.so"}},
       contract::exit_do_not_restart,
       "spec.gpusPerPod promises this pod 1 GPU, but its program cannot use any: there is no /nowhere/cuda.so"},
      {"no driver",
       {{"TRAINYARD_GPUS_PER_POD", "1"},
        {"CUDA_VISIBLE_DEVICES", "0,1"},
        {"TRAINYARD_CUDA_MODULE", some_file},
        {"TRAINYARD_NODE_NAME", "n1"}},
       contract::exit_device,
       "on node n1 its container has no NVIDIA driver (libcuda.so.1"},
      {"one too few",
       {{"TRAINYARD_GPUS_PER_POD", "2"},
        {"CUDA_VISIBLE_DEVICES", "0,1"},
        {"TRAINYARD_CUDA_MODULE", some_file},
        {"TRAINYARD_NODE_NAME", "n1"},
        {"LD_LIBRARY_PATH", driver},
        {"FAKE_DRIVER_GPUS", "1"}},
       contract::exit_device,
       "promises this pod 2 GPUs, but on node n1 the driver shows 1 GPU"},
      {"the driver fails",
       {{"TRAINYARD_GPUS_PER_POD", "1"},
        {"CUDA_VISIBLE_DEVICES", "0,1"},
        {"TRAINYARD_CUDA_MODULE", some_file},
        {"LD_LIBRARY_PATH", driver},
        {"FAKE_DRIVER_ERROR", "802"}},
       contract::exit_device,
       "cuInit returned error 802 (CUDA_ERROR_OF_A_TEST)"},
      {"an empty variable in the template, which hides the GPUs on any node",
       {{"TRAINYARD_GPUS_PER_POD", "1"},
        {"TRAINYARD_CUDA_MODULE", some_file},
        {"CUDA_VISIBLE_DEVICES", ""},
        {"LD_LIBRARY_PATH", driver},
        {"FAKE_DRIVER_ERROR", "100"}},
       contract::exit_do_not_restart,
       "spec.gpusPerPod promises this pod 1 GPU, but its variable CUDA_VISIBLE_DEVICES is \\\"\\\" and hides GPUs"},
      {"a runtime that hides its GPUs' names from the container, as CDI does",
       {{"NVIDIA_VISIBLE_DEVICES", "void"},
        {"TRAINYARD_CUDA_MODULE", "/nowhere/cuda.so"},
        {"LD_LIBRARY_PATH", driver},
        {"FAKE_DRIVER_GPUS", "1"}},
       contract::exit_do_not_restart,
       "the driver shows 1 GPU, but this program cannot use any"},
  };
  for (const Case& c : cases) {
    variables_ = c.variables;
    std::filesystem::remove(log_file(0));
    auto ranks = start(1, synthetic);
    EXPECT_EQ(ranks[0].wait(), c.exit_code) << c.what << ": " << ranks[0].log();
    EXPECT_THAT(ranks[0].log(), HasSubstr(c.message)) << c.what;
  }
}

TEST_F(RankProgramTest, TrainsOnTheCpuWhereNoGpuWasPromisedWhateverTheDriverShows) {
  fake_driver(8);
  variables_["TRAINYARD_GPUS_PER_POD"] = "0";
  auto ranks = start(1, synthetic + R"(, "maxSteps": 2)");
  EXPECT_EQ(ranks[0].wait(), 0) << ranks[0].log();
  EXPECT_THAT(ranks[0].log(), HasSubstr("\"device\":\"cpu\""));
}

TEST_F(RankProgramTest, EndsTheOthersInSecondsWhereOneRankMissesItsGpu) {
  program_ = "trainyard-worker";
  const std::string port = std::to_string(fakes::free_port());
  variables_ = {{"TRAINYARD_STORE_PORT", std::to_string(fakes::free_port())},
                {"TRAINYARD_PEER_PORT", std::to_string(fakes::free_port())},
                {"TRAINYARD_CUDA_MODULE", "/etc/passwd"},
                {"TRAINYARD_GPUS_PER_POD", "0"},
                {"TRAINYARD_TERMINATION_LOG", folder_.path() + "/zero"}};
  RankProcess zero = start_rank(0, 2, port, synthetic);
  variables_["CUDA_VISIBLE_DEVICES"] = "0";
  variables_["TRAINYARD_GPUS_PER_POD"] = "1";
  variables_["TRAINYARD_NODE_NAME"] = "n1";
  variables_["TRAINYARD_TERMINATION_LOG"] = folder_.path() + "/one";
  RankProcess one = start_rank(1, 2, port, synthetic);
  EXPECT_EQ(one.wait(), contract::exit_device) << one.log();
  EXPECT_EQ(zero.wait(), contract::exit_peer_lost) << zero.log();
  const auto told = nlohmann::json::parse(fakes::text_of(folder_.path() + "/zero"));
  EXPECT_EQ(told.at("culprit"), 1);
  EXPECT_EQ(told.at("culpritExitCode"), contract::exit_device);
  EXPECT_THAT(told.at("message").get<std::string>(),
              HasSubstr("rank 1: spec.gpusPerPod promises this pod 1 GPU, but on node n1"));
}

#ifdef TRAINYARD_HAS_ENVIRONMENT_WATCH
TEST_F(RankProgramTest, ChangesItsEnvironmentBeforeAnyThreadMayReadIt) {
  program_ = "trainyard-worker";
  variables_ = {{"LD_PRELOAD", paths::build("tests/worker/fakes/libenvironment_watch.so")},
                {"OMP_NUM_THREADS", ""},
                {"TRAINYARD_TERMINATION_LOG", folder_.path() + "/termination"}};
  auto ranks = start(1, synthetic + R"(, "maxSteps": 2)");
  EXPECT_EQ(ranks[0].wait(), 0) << ranks[0].log();
  EXPECT_THAT(ranks[0].log(), Not(HasSubstr("the environment is changed beside other threads: "))) << ranks[0].log();
}
#endif

TEST_F(RankProgramTest, IsAnyProgramThatGivesItsModelToTrainyardMain) {
  // Started without a launcher, the program executes the launcher, which starts the program again as a rank.
  RankProcess program{
      paths::program("line_fit"),
      {{"TRAINYARD_SPEC",
        R"({"training": {"model": {"name": "line_fit"}, "data": {"format": "synthetic"}, "batchSize": 10, "epochs": 3,
                                              "optimizer": {"name": "sgd", "lr": 0.1}}})"},
       {"PATH", paths::build("bin") + ":/usr/bin:/bin"},
       {"CUDA_VISIBLE_DEVICES", "-1"},
       {"TRAINYARD_STORE_PORT", std::to_string(fakes::free_port())},
       {"TRAINYARD_TERMINATION_LOG", folder_.path() + "/termination"},
       {"TRAINYARD_LOG_FORMAT", "json"}},
      log_file(0)};
  EXPECT_EQ(program.wait(), 0) << program.log();
  EXPECT_THAT(program.log(), HasSubstr("\"slope\":"));
  EXPECT_THAT(program.log(), HasSubstr("trained 600 steps"));
}

TEST_F(RankProgramTest, TrainsOnTheRealFashionMnist) {
  auto ranks =
      start(2, R"("model": {"name": "fashion_cnn"}, "batchSize": 50, "maxSteps": 30, "validateEvery": {"steps": 1000},
                           "data": {"format": "idx", "path": "/usr/share/datasets/fashion-mnist"})");
  EXPECT_EQ(wait(ranks), (std::vector<int>{0, 0})) << ranks[0].log();
  EXPECT_THAT(ranks[0].log(), HasSubstr("val_accuracy"));
}

TEST_F(RankProgramTest, ResumesFromTheCopyOnItsNodeWhenAllRanksAreKilledBetweenRemoteCheckpoints) {
  const std::string training = synthetic + R"(, "maxSteps": 200)";
  auto whole = start(2, training);
  ASSERT_EQ(wait(whole), (std::vector<int>{0, 0})) << whole[0].log();
  const std::string checksum = checksum_in(whole[0].log());

  const std::string checkpoint = R"({"uri": ")" + folder_.uri() + R"(/checkpoints", "every": {"steps": 1000},
      "local": {"path": ")" + folder_.path() +
                                 R"(/local", "every": {"steps": 5}}})";
  auto first = start(2, training, checkpoint);
  wait_for_log(first[0], "local checkpoint saved");
  for (RankProcess& rank : first) rank.send(SIGKILL);
  wait(first);
  auto second = start(2, training, checkpoint, 2);
  ASSERT_EQ(wait(second), (std::vector<int>{0, 0})) << second[0].log();
  EXPECT_THAT(second[0].log(), HasSubstr("file://" + folder_.path() + "/local/uid/step-"));
  EXPECT_EQ(checksum_in(second[0].log()), checksum);
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/local/uid")) << "the job has succeeded";
}

}  // namespace
}  // namespace trainyard
