#include "cli/local_job.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

#include "api/validation/validate.hpp"
#include "tests/fakes/temporary_folder.hpp"

namespace trainyard::cli {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json a_job(const std::string& spec) {
  json job{{"apiVersion", "trainyard.dev/v1alpha1"},
           {"kind", "TrainingJob"},
           {"metadata", {{"name", "job"}}},
           {"spec", json::parse(spec)}};
  return api::with_defaults(job);
}

const std::string training =
    R"({"replicas": 2, "training": {"model": {"name": "fashion_cnn"}, "data": {"format": "synthetic"}}})";

TEST(AdaptToMachine, WithoutGpusTrainsOnTheCpuAndSaysSo) {
  const auto job = adapt_to_machine(a_job(training), {}, {}, "/run/checkpoints");
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->object["spec"]["gpusPerPod"], 0);
  EXPECT_THAT(job->notes, testing::ElementsAre(
                              "This machine has no GPU: gpusPerPod is 0 instead of 1, and training runs on the CPU."));
}

TEST(AdaptToMachine, WithoutGpusGlooCarriesTheExchanges) {
  for (const auto& [asked, expected] : {std::pair{"nccl", "auto"}, {"gloo", "gloo"}}) {
    json job = a_job(training);
    job["spec"]["training"]["strategy"] = {{"processGroupBackend", asked}};
    const auto adapted = adapt_to_machine(job, {}, {}, "/run/checkpoints");
    ASSERT_TRUE(adapted) << adapted.error().message;
    EXPECT_EQ(adapted->object["spec"]["training"]["strategy"], (json{{"processGroupBackend", expected}}));
    EXPECT_TRUE(api::validate_training_job(adapted->object).empty());
  }
}

TEST(AdaptToMachine, WithoutGpusNoRankHasNumbersOfDevices) {
  json job = a_job(training);
  job["spec"]["gpusPerPod"] = 4;
  job["spec"]["training"]["devices"] = 4;
  const auto adapted = adapt_to_machine(job, {}, {}, "/run/checkpoints");
  ASSERT_TRUE(adapted) << adapted.error().message;
  EXPECT_FALSE(adapted->object["spec"]["training"].contains("devices"));
  EXPECT_TRUE(api::validate_training_job(adapted->object).empty());
}

TEST(AdaptToMachine, WithoutGpusAJobThatAsksForThemIsRefused) {
  for (const char* name : {"gpu", "cuda"}) {
    json job = a_job(training);
    job["spec"]["training"]["accelerator"] = name;
    const std::string sentence = "the job asks for GPUs (spec.training.accelerator is gpu), but this machine has none";
    EXPECT_THAT(adapt_to_machine(job, {}, {}, "/run/checkpoints").error().message, HasSubstr(sentence));
    EXPECT_THAT(with_devices(job, 2, false).error().message, HasSubstr(sentence));
    EXPECT_TRUE(adapt_to_machine(job, {}, {"0", "1"}, "/run/checkpoints"));
  }
}

TEST(WithDevices, AreProcessesOnTheCpuWhereTheJobTrainsThere) {
  json job = a_job(training);
  job["spec"]["gpusPerPod"] = 0;
  job["spec"]["training"].update({{"accelerator", "cpu"}, {"devices", 1}});
  const auto changed = with_devices(job, 3, true);
  ASSERT_TRUE(changed) << changed.error().message;
  EXPECT_EQ(changed->object["spec"]["replicas"], 3);
  EXPECT_EQ(changed->object["spec"]["gpusPerPod"], 0);
  EXPECT_FALSE(changed->object["spec"]["training"].contains("devices"));
}

TEST(WithOneRankPerPod, LeavesGpusToTheRanksOfTheHosts) {
  json job = a_job(training);
  job["spec"]["gpusPerPod"] = 4;
  job["spec"]["training"].update({{"accelerator", "gpu"}, {"devices", 4}});
  EXPECT_TRUE(check_rank_count(with_one_rank_per_pod(job, 8), 8));
}

TEST(AdaptToMachine, WithoutGpusDpAndDdp2DivideBatchesAmongAsManyReplicas) {
  for (const char* name : {"dp", "ddp2", "ddp"}) {
    json job = a_job(training);
    job["spec"]["replicas"] = 1;
    job["spec"]["gpusPerPod"] = 4;
    job["spec"]["training"]["strategy"] = {{"name", name}};
    const auto adapted = adapt_to_machine(job, {}, {}, "/run/checkpoints");
    ASSERT_TRUE(adapted) << adapted.error().message;
    json expected{{"name", name}};
    if (name != std::string{"ddp"}) expected["cpuReplicas"] = 4;
    EXPECT_EQ(adapted->object["spec"]["training"]["strategy"], expected);
  }
}

TEST(WithOneRankPerPod, KeepsWhatDdp2DividesABatchAmong) {
  json job = a_job(training);
  job["spec"]["replicas"] = 1;
  job["spec"]["gpusPerPod"] = 4;
  job["spec"]["training"]["strategy"] = {{"name", "ddp2"}};
  const json placed = with_one_rank_per_pod(job, 1);
  EXPECT_EQ(placed["spec"]["training"]["strategy"], (json{{"name", "ddp2"}, {"cpuReplicas", 4}}));
  EXPECT_EQ(placed["spec"]["gpusPerPod"], 0);
  EXPECT_TRUE(check_rank_count(placed, 1)) << "on one host with four GPUs";
}

TEST(AdaptToMachine, WithoutGpusContainersAskForNone) {
  const auto job =
      adapt_to_machine(a_job(R"({"template": {"spec": {"containers": [{"name": "worker", "image": "i", "command": ["x"],
            "resources": {"limits": {"nvidia.com/gpu": 1, "memory": "1Gi"}, "requests": {"nvidia.com/gpu": 1, "cpu": 2}}},
            {"name": "side", "image": "i", "command": ["x"], "resources": {"limits": {"nvidia.com/gpu": 1}}}]}}})"),
                       {}, {}, "/run/checkpoints");
  ASSERT_TRUE(job);
  const json& containers = job->object["spec"]["template"]["spec"]["containers"];
  EXPECT_EQ(containers[0]["resources"], json::parse(R"({"limits": {"memory": "1Gi"}, "requests": {"cpu": 2}})"));
  EXPECT_EQ(containers[1]["resources"], json::parse(R"({"limits": {}})"));
}

TEST(AdaptToMachine, KeepsGpusThatAreThereAndRefusesMore) {
  EXPECT_EQ(adapt_to_machine(a_job(training), {}, {"0", "1"}, "/c")->object["spec"]["gpusPerPod"], 1);
  const auto refused = adapt_to_machine(a_job(training), {}, {"0"}, "/c");
  ASSERT_FALSE(refused);
  EXPECT_EQ(
      refused.error().message,
      "the job asks for 2 GPUs (2 pods with 1 each), but this machine has 1; lower spec.replicas or spec.gpusPerPod");
}

TEST(AdaptToMachine, TrainingWithoutCheckpointsKeepsThemInTheRunsFolder) {
  EXPECT_EQ(adapt_to_machine(a_job(training), {}, {}, "/c")->object["spec"]["checkpoint"]["uri"], "file:///c");
  json own = a_job(training);
  own["spec"]["checkpoint"] = {{"uri", "s3://b/p"}};
  EXPECT_EQ(adapt_to_machine(own, {}, {}, "/c")->object["spec"]["checkpoint"]["uri"], "s3://b/p");
  for (const auto& [task, keeps] : {std::pair{"fit", true}, {"validate", false}, {"test", false}, {"predict", false}}) {
    json job = a_job(training);
    job["spec"]["training"]["task"] = task;
    EXPECT_EQ(adapt_to_machine(job, {}, {}, "/c")->object["spec"].contains("checkpoint"), keeps) << task;
  }
  const json foreign =
      a_job(R"({"template": {"spec": {"containers": [{"name": "worker", "image": "i", "command": ["x"]}]}}})");
  EXPECT_FALSE(adapt_to_machine(foreign, {}, {}, "/c")->object["spec"].contains("checkpoint"));
}

TEST(WithDevices, GivesEachRankADeviceAndSaysWhatItReplaces) {
  json job = a_job(training);
  job["spec"]["replicas"] = 2;
  job["spec"]["gpusPerPod"] = 4;
  const auto gpus = with_devices(job, 3, true);
  EXPECT_EQ(gpus->object["spec"]["replicas"], 3);
  EXPECT_EQ(gpus->object["spec"]["gpusPerPod"], 1);
  EXPECT_THAT(
      gpus->notes,
      testing::ElementsAre("--devices: 3 ranks, each with a GPU, in place of spec.replicas 2 and spec.gpusPerPod 4."));
  const auto processes = with_devices(job, 1, false);
  EXPECT_EQ(processes->object["spec"]["replicas"], 1);
  EXPECT_EQ(processes->object["spec"]["gpusPerPod"], 0);
  EXPECT_THAT(
      processes->notes,
      testing::ElementsAre("--devices: 1 rank, on the CPU, in place of spec.replicas 2 and spec.gpusPerPod 4."));
  job["spec"]["gpusPerPod"] = 1;
  EXPECT_THAT(with_devices(job, 2, true)->notes, testing::IsEmpty()) << "that is what the job asks for";
}

TEST(WithDevices, GivesAllDevicesToTheOneRankOfDp) {
  json job = a_job(training);
  job["spec"]["replicas"] = 2;
  job["spec"]["gpusPerPod"] = 4;
  for (const char* name : {"dp", "ddp2"}) {
    job["spec"]["training"]["strategy"] = {{"name", name}, {"cpuReplicas", 2}};
    EXPECT_EQ(rank_count_of(job), 2);
    const auto gpus = with_devices(job, 3, true);
    ASSERT_TRUE(gpus) << gpus.error().message;
    EXPECT_EQ(gpus->object["spec"]["replicas"], 1);
    EXPECT_EQ(gpus->object["spec"]["gpusPerPod"], 3);
    EXPECT_FALSE(gpus->object["spec"]["training"]["strategy"].contains("cpuReplicas"));
    EXPECT_THAT(gpus->notes, testing::ElementsAre("--devices: one rank, which divides its batches among 3 GPUs."));
    const auto processors = with_devices(job, 3, false);
    ASSERT_TRUE(processors) << processors.error().message;
    EXPECT_EQ(processors->object["spec"]["gpusPerPod"], 0);
    EXPECT_EQ(processors->object["spec"]["training"]["strategy"]["cpuReplicas"], 3);
    EXPECT_THAT(processors->notes, testing::ElementsAre(HasSubstr("among 3 replicas on the CPU")));
  }
  EXPECT_THAT(with_devices(job, 65, false).error().message,
              HasSubstr("with 65 devices: spec.training.strategy.cpuReplicas"));
}

TEST(WithDevices, SaysThatNothingIsCombinedWithinPodsOfOneRank) {
  json job = a_job(training);
  job["spec"]["training"]["strategy"] = {{"name", "bagua"}, {"hierarchical", true}};
  EXPECT_THAT(with_devices(job, 2, true)->notes,
              testing::ElementsAre(HasSubstr("strategy.hierarchical combines nothing within pods")));
  EXPECT_THAT(with_devices(job, 1, true)->notes, testing::ElementsAre(HasSubstr("1 rank, each with a GPU")));
}

TEST(StepLines, SayHowManySamplesAStepSeesAndWhatScalingWouldMakeOfTheLearningRate) {
  json job = a_job(training);
  job["spec"]["gpusPerPod"] = 4;
  json& of_job = job["spec"]["training"];
  of_job["batchSize"] = 100;
  of_job["optimizer"]["lr"] = 0.001;
  const std::string samples = "A step sees 800 samples: batchSize 100 x 8 ranks.";
  EXPECT_THAT(step_lines(job), testing::ElementsAre(samples,
                                                    "optimizer.lr stays 0.001 for 8 ranks: optimizer.lrScaling "
                                                    "linear would make it 0.008, and sqrt 0.00282843."));
  of_job["optimizer"]["lrScaling"] = "linear";
  EXPECT_THAT(step_lines(job), testing::ElementsAre(samples));
  of_job["optimizer"]["lrScaling"] = "none";
  of_job["accumulateGradBatches"] = 2;
  of_job["strategy"] = {{"name", "horovod"}, {"op", "sum"}};
  const std::string more = "A step sees 1600 samples: batchSize 100 x 8 ranks x accumulateGradBatches 2.";
  EXPECT_THAT(step_lines(job), testing::ElementsAre(more));
  of_job["strategy"] = {{"name", "bagua"}, {"algorithm", "decentralized"}};
  EXPECT_THAT(step_lines(job), testing::ElementsAre(more));
  of_job["strategy"] = {{"name", "dp"}};
  job["spec"]["replicas"] = 1;
  EXPECT_THAT(step_lines(job),
              testing::ElementsAre("A step sees 200 samples: batchSize 100 x accumulateGradBatches 2."));
  of_job["accumulateGradBatches"] = 1;
  EXPECT_THAT(step_lines(job), testing::IsEmpty());
  job["spec"]["replicas"] = 4;
  of_job["task"] = "test";
  EXPECT_THAT(step_lines(job), testing::IsEmpty());
  job["spec"].erase("training");
  EXPECT_THAT(step_lines(job), testing::IsEmpty());
}

TEST(WithDevices, LeavesOutTheGpusThatAContainerAsksFor) {
  const json job = a_job(R"({"gpusPerPod": 2, "template": {"spec": {"containers": [{"name": "worker", "image": "i",
      "command": ["x"], "resources": {"limits": {"nvidia.com/gpu": 2, "cpu": 1}}}]}}})");
  const auto changed = with_devices(job, 4, true);
  ASSERT_TRUE(changed) << changed.error().message;
  EXPECT_EQ(changed->object["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"], (json{{"cpu", 1}}));
}

TEST(WithDevices, RefusesANumberOfRanksThatTheStrategyCannotHave) {
  json job = a_job(training);
  job["spec"]["training"]["strategy"] = {{"name", "horovod"}, {"op", "adasum"}};
  ASSERT_TRUE(with_devices(job, 4, false)) << with_devices(job, 4, false).error().message;
  const auto refused = with_devices(job, 3, false);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("with 3 ranks: spec.training.strategy.op: is adasum"));
}

TEST(WithRestartsMax, ReplacesBothBudgetsAndNothingElse) {
  const json job =
      a_job(R"({"restart": {"application": {"max": 2}, "backoff": {"initial": "1s"}, "noProgressAttempts": 7},
                             "training": {"model": {"name": "m"}, "data": {"format": "synthetic"}}})");
  const LocalJob changed = with_restarts_max({.object = job, .notes = {"before"}}, 0);
  EXPECT_EQ(changed.object["spec"]["restart"], json::parse(R"({"application": {"max": 0}, "infrastructure": {"max": 0},
                            "backoff": {"initial": "1s", "max": "5m"}, "noProgressAttempts": 7})"));
  EXPECT_EQ(changed.object["spec"]["training"], job["spec"]["training"]);
  EXPECT_THAT(changed.notes,
              testing::ElementsAre("before",
                                   "--max-restarts: 0 of each cause, in place of spec.restart.application.max 2 and "
                                   "spec.restart.infrastructure.max 10."));
  EXPECT_THAT(with_restarts_max({.object = changed.object, .notes = {}}, 0).notes, testing::IsEmpty())
      << "that is what the job asks for";
  for (const std::int64_t max : {std::int64_t{2}, std::int64_t{10}}) {
    const LocalJob one_differs = with_restarts_max({.object = job, .notes = {}}, max);
    EXPECT_THAT(one_differs.notes, testing::SizeIs(1)) << max;
    EXPECT_EQ(one_differs.object.at("/spec/restart/application/max"_json_pointer), max);
    EXPECT_EQ(one_differs.object.at("/spec/restart/infrastructure/max"_json_pointer), max);
  }
}

TEST(WithRestartsMax, HasTheBoundsOfTheApi) {
  const LocalJob job{.object = a_job(training), .notes = {}};
  for (const std::int64_t max : {std::int64_t{0}, restarts_max_limit})
    EXPECT_THAT(api::validate_training_job(with_restarts_max(job, max).object), testing::IsEmpty()) << max;
  for (const std::int64_t max : {std::int64_t{-1}, restarts_max_limit + 1})
    EXPECT_THAT(api::validate_training_job(with_restarts_max(job, max).object), testing::SizeIs(2)) << max;
}

TEST(AdaptToMachine, RunsASuspendedJobAndSaysSo) {
  json job = a_job(training);
  job["spec"]["suspend"] = true;
  job["spec"]["gpusPerPod"] = 0;
  const auto adapted = adapt_to_machine(job, {}, {}, "/c");
  EXPECT_EQ(adapted->object["spec"]["suspend"], false);
  EXPECT_THAT(adapted->notes, testing::ElementsAre("The job has spec.suspend: true, which is ignored here."));
}

TEST(AdaptToMachine, ReachesGooglesStorageWithTheMachinesOwnCredentials) {
  json job = a_job(training);
  job["spec"]["gpusPerPod"] = 0;
  job["spec"]["checkpoint"] = {{"uri", "gs://b/p"}, {"credentialsSecret", "gcs"}};
  const auto adapted = adapt_to_machine(job, {}, {}, "/c");
  EXPECT_EQ(adapted->object["spec"]["checkpoint"], (json{{"uri", "gs://b/p"}}));
  EXPECT_THAT(adapted->notes, testing::ElementsAre(HasSubstr("The Secret gcs")));
  EXPECT_TRUE(check_can_run(adapted->object, {.worker_program = "/bin/true"}));

  job["spec"]["checkpoint"] = {{"uri", "s3://b/p"}, {"resume", "gs://b/p"}, {"credentialsSecret", "both"}};
  EXPECT_THAT(adapt_to_machine(job, {}, {}, "/c")->notes, testing::ElementsAre(HasSubstr("The Secret both")));

  job["spec"]["checkpoint"] = {{"uri", "az://b/p"}, {"credentialsSecret", "gcs"}};
  EXPECT_EQ(adapt_to_machine(job, {}, {}, "/c")->object["spec"]["checkpoint"]["credentialsSecret"], "gcs");
}

TEST(AdaptToMachine, RefusesCheckpointsThatGoWithTheJob) {
  json job = a_job(training);
  job["spec"]["checkpoint"] = {{"uri", "s3://b/p"}, {"onDelete", "Delete"}};
  const auto refused = adapt_to_machine(job, {}, {}, "/c");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::invalid);
  EXPECT_THAT(refused.error().message, HasSubstr("spec.checkpoint.onDelete: Delete works only in a cluster"));
  job["spec"]["checkpoint"]["onDelete"] = "Retain";
  EXPECT_TRUE(adapt_to_machine(job, {}, {}, "/c"));
}

TEST(CheckCanRun, NamesTheSecretAndTheFlagThatGivesIt) {
  json job = a_job(training);
  job["spec"]["checkpoint"] = {{"uri", "s3://b/p"}, {"credentialsSecret", "s3-credentials"}};
  local::ProcessKubeletOptions options{.worker_program = "/bin/true"};
  const auto refused = check_can_run(job, options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "Secret 's3-credentials' has no local file; add --secret s3-credentials=FILE, with lines KEY=VALUE");
  options.secrets["s3-credentials"] = {{"AWS_ACCESS_KEY_ID", "k"}};
  const auto taken = check_can_run(job, options);
  EXPECT_TRUE(taken) << taken.error().message;
}

TEST(CheckCanRun, NamesWhatCannotBeHadHere) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {R"({"template": {"spec": {"containers": [{"name": "worker", "image": "i"}]}}})",
       "container worker has no command"},
      {R"({"template": {"spec": {"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]}}})",
       "none of them is named 'worker'"},
      {R"({"template": {"spec": {"containers": [{"name": "worker", "image": "i", "command": ["x"],
           "envFrom": [{"configMapRef": {"name": "c"}}]}]}}})",
       "envFrom with a ConfigMap is not supported on this machine"},
  };
  for (const auto& [spec, sentence] : cases) {
    const auto refused = check_can_run(a_job(spec), {});
    ASSERT_FALSE(refused) << spec;
    EXPECT_THAT(refused.error().message, HasSubstr(sentence));
  }
}

TEST(AddSecret, ReadsKeyValueLines) {
  const fakes::TemporaryFolder folder;
  const auto file = folder.write("env", "# a comment\n\nA=1\r\nB=x=y\n").string();
  std::map<std::string, local::Variables> secrets;
  ASSERT_TRUE(add_secret("s3=" + file, secrets));
  EXPECT_EQ(secrets.at("s3"), (local::Variables{{"A", "1"}, {"B", "x=y"}}));
}

TEST(AddSecret, TakesTheLastOfTwoLinesAndFilesWithOneKey) {
  const fakes::TemporaryFolder folder;
  const auto first = folder.write("first", "A=1\nA=2\nB=\nC=3").string();
  const auto second = folder.write("second", "C=4\n# C=5\n").string();
  std::map<std::string, local::Variables> secrets;
  ASSERT_TRUE(add_secret("s3=" + first, secrets));
  ASSERT_TRUE(add_secret("s3=" + second, secrets));
  EXPECT_EQ(secrets, (std::map<std::string, local::Variables>{{"s3", {{"A", "2"}, {"B", ""}, {"C", "4"}}}}));
}

TEST(InheritedEnvironment, LeavesOutWhatAnOuterLauncherSays) {
  const std::vector<std::pair<std::string, bool>> cases{{"TRAINYARD_HANG_SECONDS", true},
                                                        {"TRAINYARD_RANK_PROGRAM", true},
                                                        {"TRAINYARD_SPEC", false},
                                                        {"TRAINYARD_REQUEST_TOKEN", false},
                                                        {"TORCHELASTIC_RUN_ID", false},
                                                        {"PET_NNODES", false},
                                                        {"RANK", false},
                                                        {"LOCAL_RANK", false},
                                                        {"WORLD_SIZE", false},
                                                        {"LOCAL_WORLD_SIZE", false},
                                                        {"GROUP_RANK", false},
                                                        {"GROUP_WORLD_SIZE", false},
                                                        {"NODE_RANK", false},
                                                        {"ROLE_NAME", false},
                                                        {"ROLE_RANK", false},
                                                        {"ROLE_WORLD_SIZE", false},
                                                        {"TORCH_TEST_OF_TRAINYARD", true},
                                                        {"MY_RANK", true},
                                                        {"PETS", true}};
  for (const auto& [name, stays] : cases) {
    const char* const before = std::getenv(name.c_str());
    const std::optional<std::string> kept = before == nullptr ? std::nullopt : std::optional<std::string>{before};
    ::setenv(name.c_str(), "a=b", 1);
    const auto inherited = inherited_environment();
    kept ? ::setenv(name.c_str(), kept->c_str(), 1) : ::unsetenv(name.c_str());
    EXPECT_EQ(inherited.contains(name), stays) << name;
    if (stays) {
      EXPECT_EQ(inherited.at(name), "a=b");
    }
  }
}

TEST(AddSecret, RefusesOtherFormsWithoutShowingAValue) {
  const fakes::TemporaryFolder folder;
  const auto bad = folder.write("bad", "A=1\nhunter2\n").string();
  std::map<std::string, local::Variables> secrets;
  EXPECT_EQ(add_secret("s3", secrets).error().message,
            "--secret s3: must be NAME=FILE, such as s3-credentials=credentials.env");
  EXPECT_EQ(add_secret("s3=" + bad, secrets).error().message,
            "--secret s3=" + bad + ": line 2 of " + bad + " is not KEY=VALUE");
  for (const std::string& flag : {"=" + bad, std::string{"s3="}, std::string{"="}})
    EXPECT_THAT(add_secret(flag, secrets).error().message, HasSubstr(": must be NAME=FILE")) << flag;
  const auto keyless = folder.write("keyless", "\n=hunter2\n").string();
  EXPECT_EQ(add_secret("s3=" + keyless, secrets).error().message,
            "--secret s3=" + keyless + ": line 2 of " + keyless + " is not KEY=VALUE");
  EXPECT_EQ(add_secret("s3=/no/such", secrets).error().kind, ErrorKind::io);
}

}  // namespace
}  // namespace trainyard::cli
