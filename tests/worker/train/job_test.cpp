#include "worker/train/job.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/training_job.hpp"
#include "operator/manifest/pod_environment.hpp"
#include "tests/corpus/corpus.hpp"

namespace trainyard::train {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

rank::Environment environment_of(std::map<std::string, std::string, std::less<>> variables) {
  return [variables = std::move(variables)](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional{found->second};
  };
}

TEST(ReadJob, TakesTrainingAndCheckpointFromTheSpec) {
  const auto job = read_job(environment_of(
      {{"TRAINYARD_SPEC",
        R"({"training": {"data": {"format": "synthetic"}, "model": {"name": "fashion_cnn"}, "batchSize": 7},
                                                                  "checkpoint": {"uri": "file:///checkpoints"}})"},
       {"TRAINYARD_RECORD_SAMPLES", "/tmp/samples"},
       {"TRAINYARD_DATA_CACHE", "/cache"},
       {"TRAINYARD_FILE_MODE", "0660"}}));
  ASSERT_TRUE(job.has_value()) << job.error().message;
  EXPECT_EQ(job->training.model.name, "fashion_cnn");
  EXPECT_EQ(job->training.batch_size, 7);
  EXPECT_EQ(job->checkpoint->uri, "file:///checkpoints");
  EXPECT_EQ(job->sample_record_file, "/tmp/samples");
  EXPECT_EQ(job->cache_folder, "/cache");
  EXPECT_EQ(job->cache_modes.file, 0660U);
}

TEST(ReadJob, TakesATorchScriptFileAsTheWeightsThatAreMeasured) {
  const auto job = read_job(environment_of(
      {{"TRAINYARD_SPEC",
        R"({"training": {"data": {"format": "synthetic"}, "task": "test", "model": {"kind": "torchscript", "uri": "s3://models/net.pt"}}})"}}));
  ASSERT_TRUE(job.has_value()) << job.error().message;
  EXPECT_EQ(job->training.model.uri, "s3://models/net.pt");
  EXPECT_EQ(job->training.model.name, "torchscript");
}

TEST(ReadJob, KeepsFetchedDataInAnAbsoluteFolder) {
  const auto folder_of = [](const std::string& cache) {
    const auto job = read_job(environment_of(
        {{"TRAINYARD_SPEC", R"({"training": {"data": {"format": "synthetic"}, "model": {"name": "fashion_cnn"}}})"},
         {"TRAINYARD_DATA_CACHE", cache}}));
    return job ? job->cache_folder : job.error().message;
  };
  EXPECT_EQ(folder_of("cache"), std::filesystem::current_path() / "cache");
  EXPECT_EQ(folder_of(""), std::filesystem::temp_directory_path() / "trainyard-data");
}

TEST(ReadJob, RefusesPermissionsThatAreNone) {
  const auto job = read_job(environment_of(
      {{"TRAINYARD_SPEC", R"({"training": {"data": {"format": "synthetic"}, "model": {"name": "fashion_cnn"}}})"},
       {"TRAINYARD_FILE_MODE", "rw"}}));
  ASSERT_FALSE(job.has_value());
  EXPECT_EQ(job.error().kind, ErrorKind::invalid);
  EXPECT_THAT(job.error().message, HasSubstr("TRAINYARD_FILE_MODE is 'rw'"));
}

TEST(ReadJob, SavesNothingWithoutACheckpoint) {
  const auto job = read_job(environment_of(
      {{"TRAINYARD_SPEC",
        R"({"training": {"data": {"format": "synthetic"}, "model": {"name": "fashion_cnn"}}, "checkpoint": null})"}}));
  ASSERT_TRUE(job.has_value()) << job.error().message;
  EXPECT_FALSE(job->checkpoint.has_value());
  EXPECT_EQ(job->cache_folder, std::filesystem::temp_directory_path() / "trainyard-data");
  EXPECT_EQ(job->cache_modes.file, 0600U);
  EXPECT_FALSE(job->sample_record_file.has_value());
}

TEST(ReadJob, TakesAJobWhoseFilesHaveAPlace) {
  const std::string checkpoint = R"(, "checkpoint": {"uri": "s3://models/c"})";
  const std::string log = R"("log": {"uri": "s3://models/l", "files": ["csv"]})";
  const std::vector<std::string> specs{
      R"({"training": {"data": {"format": "synthetic"}, "model": {"name": "net"}, "snapshots": {}})" + checkpoint + "}",
      R"({"training": {"data": {"format": "synthetic"}, "model": {"name": "net"}, "log": {"files": ["csv"]}})" +
          checkpoint + "}",
      R"({"training": {"data": {"format": "synthetic"}, "model": {"name": "net"}, "profile": {}})" + checkpoint + "}",
      R"({"training": {"data": {"format": "synthetic"}, "model": {"name": "net"}, )" + log + "}}",
      R"({"training": {"data": {"format": "synthetic"}, "task": "predict", "model": {"name": "net", "weights": "s3://models/w"}, )" +
          log + "}}",
      R"({"training": {"data": {"format": "synthetic"}, "task": "test", "model": {"name": "net", "weights": "s3://models/w"}}})"};
  for (const std::string& spec : specs) {
    const auto job = read_job(environment_of({{"TRAINYARD_SPEC", spec}}));
    EXPECT_TRUE(job.has_value()) << spec << ": " << (job ? "" : job.error().message);
  }
}

TEST(ReadJob, SaysWhatIsWrongWithTheSpec) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "TRAINYARD_SPEC is not set"},
      {"{", "not a JSON object"},
      {"[]", "not a JSON object"},
      {R"({"checkpoint": {}})", "with the field `training`"},
      {R"({"training": {"data": {"format": "synthetic"}, "model": {"name": "fashion_cnn"}, "batchSize": "many"}})",
       "batchSize"},
      {R"({"training": {"data": {"format": "synthetic"}, "model": {"name": "fashion_cnn"}, "snapshots": {}}})",
       "spec.training.snapshots: are kept under checkpoint.uri: give checkpoint"},
      {R"({"training": {"data": {"format": "synthetic"}, "model": {"name": "fashion_cnn"}, "log": {"files": ["csv"]}}})",
       "give log.uri, or checkpoint, under whose uri"},
      {R"({"training": {"data": {"format": "synthetic"}, "model": {"name": "fashion_cnn"}, "profile": {}}})",
       "give log.uri, or checkpoint, under whose uri"},
      {R"({"training": {"data": {"format": "synthetic"}, "model": {"name": "fashion_cnn"}, "strategy": {"timeline": true}}})",
       "give log.uri, or checkpoint, under whose uri"},
      {R"({"training": {"data": {"format": "synthetic"}, "task": "test", "model": {"name": "fashion_cnn"}}})",
       "spec.training.task: needs model.weights"},
      {R"({"training": {"data": {"format": "synthetic"}, "task": "test", "model": {"name": "fashion_cnn", "weights": "s3://models/w"}},
           "checkpoint": {"uri": "s3://models/c"}})",
       "spec.training.task: saves no checkpoints unless it is fit: leave checkpoint out"},
      {R"({"training": {"data": {"format": "synthetic"}, "task": "predict", "model": {"name": "fashion_cnn", "weights": "s3://models/w"}}})",
       "spec.training.task: predict needs log.uri"},
      {R"({"training": {"data": {"format": "synthetic"}, "model": {"name": "fashion_cnn"}}, "checkpoint": {"uri": 3}})",
       "uri"}};
  for (const auto& [spec, message] : cases) {
    const auto job = read_job(spec.empty() ? environment_of({}) : environment_of({{"TRAINYARD_SPEC", spec}}));
    ASSERT_FALSE(job.has_value()) << spec;
    EXPECT_EQ(job.error().kind, ErrorKind::invalid) << spec;
    EXPECT_THAT(job.error().message, HasSubstr(message)) << spec;
  }
}

/// The fields that the worker is given of a job.
json parts_of(const json& job) {
  json parts = json::object();
  for (const std::string name : {"training", "checkpoint"}) {
    if (job.at("spec").contains(name)) parts[name] = job.at("spec").at(name);
  }
  return parts;
}

TEST(ReadJob, TakesWhatEarlierOperatorsWrote) {
  for (const std::string strategy :
       {R"({"name": "single")", R"({"name": "bagua", "algorithm": "async")", R"({"name": "horovod", "op": "adasum")"}) {
    const json spec = json::parse(
        R"({"training": {"data": {"format": "synthetic"}, "model": {"name": "net"}, "strategy": )" + strategy +
        R"(, "gradientCompression": "none", "broadcastBuffers": true, "syncBatchNorm": false}},
            "checkpoint": {"uri": "s3://models/c", "every": {}, "s3": {"pathStyle": false}}})");
    const auto job = read_job(environment_of({{"TRAINYARD_SPEC", spec.dump()}}));
    EXPECT_TRUE(job.has_value()) << job.error().message;
  }
}

TEST(ReadJob, JudgesThePathThatTheJobHasAndNotTheOneInTheContainer) {
  for (const auto& [path, is_taken] : {std::pair{std::string{"/data"}, true},
                                       {"/data/" + std::string(1'024, 'a'), true},
                                       {"/data/" + std::string(1'025, 'a'), false},
                                       {"/datasets/fashion", true},
                                       {"/data/../fashion", false}}) {
    const json spec{
        {"training",
         {{"model", {{"name", "net"}}}, {"data", {{"format", "idx"}, {"volumeClaim", "datasets"}, {"path", path}}}}}};
    const auto job = read_job(environment_of({{"TRAINYARD_SPEC", spec.dump()}}));
    ASSERT_EQ(job.has_value(), is_taken) << path << (job ? "" : ": " + job.error().message);
    if (!job) continue;
    EXPECT_EQ(job->training.data.path, path);
  }
}

class CorpusOfJobs : public testing::TestWithParam<corpus::Case> {};

TEST_P(CorpusOfJobs, GetsTheResultThatTheApiServerGives) {
  const corpus::Case& tested = GetParam();
  const auto job = read_job(environment_of({{"TRAINYARD_SPEC", parts_of(tested.object).dump()}}));
  if (tested.says.empty()) {
    EXPECT_TRUE(job.has_value()) << job.error().message;
    return;
  }
  ASSERT_FALSE(job.has_value());
  EXPECT_EQ(job.error().kind, ErrorKind::invalid);
  EXPECT_THAT(job.error().message, AllOf(HasSubstr(tested.field + ": "), HasSubstr(tested.says)));
}

TEST_P(CorpusOfJobs, IsTakenAsTheOperatorGivesItToARank) {
  const corpus::Case& tested = GetParam();
  if (!tested.says.empty()) return;
  json stored = tested.object;
  stored["metadata"] = {{"name", "job"}, {"uid", "u"}};
  const auto job = api::parse_training_job(stored);
  ASSERT_TRUE(job.has_value()) << job.error().message;
  std::map<std::string, std::string, std::less<>> variables;
  for (const auto& [name, value] : manifest::pod_environment(*job, 1, 0, 30, manifest::kubernetes_traits()))
    variables.emplace(name, value);
  const auto read = read_job(environment_of(std::move(variables)));
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(read->training.batch_size, job->spec.training->batch_size);
}

/// Cases that a rank does not judge as the server does: those of rules on volumes; those of rules on the number of
/// ranks or of GPUs, which are judged when the strategies are made and the device is known; and those with defaults
/// that earlier operators wrote.
const std::set<std::string> judged_elsewhere{"a checkpoint at no time",
                                             "buffers of one rank alone",
                                             "sent buffers of async",
                                             "sent buffers of ranks with parameters of their own",
                                             "a file on no volume",
                                             "a file beside a claim",
                                             "a file on an emptyDir",
                                             "a file on a claim that only the sidecar mounts",
                                             "copies on an emptyDir",
                                             "copies on NFS",
                                             "copies on no volume",
                                             "copies beside the volume",
                                             "copies where only a sidecar mounts",
                                             "idx on a claim",
                                             "idx at a claim's root",
                                             "an absolute path on a claim",
                                             "a path with dots in a name",
                                             "NCCL without GPUs",
                                             "GPUs that nothing would use",
                                             "GPUs in pods without any",
                                             "CUDA in pods without any GPU",
                                             "more devices than a pod has",
                                             "fewer devices than a pod has",
                                             "numbers of GPUs that a pod does not have",
                                             "all GPUs of a pod without any",
                                             "several ranks on the CPU of one pod",
                                             "no device",
                                             "dp in two pods",
                                             "ddp2 in one pod with one GPU",
                                             "ddp2 in one pod with one replica on the CPU",
                                             "equal bits of dp on several GPUs",
                                             "pairs of three ranks",
                                             "pairs of three ranks on the CPU",
                                             "one rank alone in two pods",
                                             "one rank alone on two GPUs",
                                             "adasum of three pods",
                                             "adasum of three GPUs"};

/// The cases about training and checkpoint alone.
std::vector<corpus::Case> cases_of_jobs() {
  std::vector<corpus::Case> cases;
  for (corpus::Case& tested : corpus::load()) {
    const bool is_of_job =
        tested.object.contains("spec") && tested.object.at("spec").contains("training") && !tested.before;
    const bool is_refused_for_it =
        tested.field.starts_with("spec.training") || tested.field.starts_with("spec.checkpoint");
    if (is_of_job && (tested.says.empty() || is_refused_for_it) && !judged_elsewhere.contains(tested.name))
      cases.push_back(std::move(tested));
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, CorpusOfJobs, testing::ValuesIn(cases_of_jobs()));

}  // namespace
}  // namespace trainyard::train
