#include "worker/train/job.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>

namespace trainyard::train {
namespace {

using testing::HasSubstr;

rank::Environment environment_of(std::map<std::string, std::string, std::less<>> variables) {
  return [variables = std::move(variables)](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional{found->second};
  };
}

TEST(ReadJob, TakesTrainingAndCheckpointFromTheSpec) {
  const auto job =
      read_job(environment_of({{"TRAINYARD_SPEC", R"({"training": {"model": {"name": "fashion_cnn"}, "batchSize": 7},
                                                                  "checkpoint": {"uri": "file:///checkpoints"}})"},
                               {"TRAINYARD_RECORD_SAMPLES", "/tmp/samples"},
                               {"TRAINYARD_DATA_CACHE", "/cache"}}));
  ASSERT_TRUE(job.has_value()) << job.error().message;
  EXPECT_EQ(job->training.model.name, "fashion_cnn");
  EXPECT_EQ(job->training.batch_size, 7);
  EXPECT_EQ(job->checkpoint->uri, "file:///checkpoints");
  EXPECT_EQ(job->sample_record_file, "/tmp/samples");
  EXPECT_EQ(job->cache_folder, "/cache");
}

TEST(ReadJob, TakesATorchScriptFileAsTheWeightsThatAreMeasured) {
  const auto job = read_job(environment_of(
      {{"TRAINYARD_SPEC",
        R"({"training": {"task": "test", "model": {"kind": "torchscript", "uri": "s3://models/net.pt"}}})"}}));
  ASSERT_TRUE(job.has_value()) << job.error().message;
  EXPECT_EQ(job->training.model.uri, "s3://models/net.pt");
  EXPECT_EQ(job->training.model.name, "torchscript");
}

TEST(ReadJob, SavesNothingWithoutACheckpoint) {
  const auto job = read_job(
      environment_of({{"TRAINYARD_SPEC", R"({"training": {"model": {"name": "fashion_cnn"}}, "checkpoint": null})"}}));
  ASSERT_TRUE(job.has_value()) << job.error().message;
  EXPECT_FALSE(job->checkpoint.has_value());
  EXPECT_EQ(job->cache_folder, std::filesystem::temp_directory_path() / "trainyard-data");
  EXPECT_FALSE(job->sample_record_file.has_value());
}

TEST(ReadJob, TakesAJobWhoseFilesHaveAPlace) {
  const std::string checkpoint = R"(, "checkpoint": {"uri": "s3://b/c"})";
  const std::string log = R"("log": {"uri": "s3://b/l", "files": ["csv"]})";
  const std::vector<std::string> specs{
      R"({"training": {"model": {"name": "net"}, "snapshots": {}})" + checkpoint + "}",
      R"({"training": {"model": {"name": "net"}, "log": {"files": ["csv"]}})" + checkpoint + "}",
      R"({"training": {"model": {"name": "net"}, "profile": {}})" + checkpoint + "}",
      R"({"training": {"model": {"name": "net"}, )" + log + "}}",
      R"({"training": {"task": "predict", "model": {"name": "net", "weights": "s3://b/w"}, )" + log + "}}",
      R"({"training": {"task": "test", "model": {"name": "net", "weights": "s3://b/w"}}})"};
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
      {R"({"training": {"model": {"name": "fashion_cnn"}, "batchSize": "many"}})", "batchSize"},
      {R"({"training": {"model": {"name": "fashion_cnn"}, "snapshots": {}}})",
       "training.snapshots are kept under checkpoint.uri"},
      {R"({"training": {"model": {"name": "fashion_cnn"}, "log": {"files": ["csv"]}}})",
       "give training.log.uri, or checkpoint.uri"},
      {R"({"training": {"model": {"name": "fashion_cnn"}, "profile": {}}})",
       "give training.log.uri, or checkpoint.uri"},
      {R"({"training": {"model": {"name": "fashion_cnn"}, "strategy": {"timeline": true}}})",
       "give training.log.uri, or checkpoint.uri"},
      {R"({"training": {"task": "test", "model": {"name": "fashion_cnn"}}})", "need training.model.weights"},
      {R"({"training": {"task": "test", "model": {"name": "fashion_cnn", "weights": "s3://b/w"}},
           "checkpoint": {"uri": "s3://b/c"}})",
       "and no checkpoint"},
      {R"({"training": {"task": "predict", "model": {"name": "fashion_cnn", "weights": "s3://b/w"}}})",
       "predict needs training.log.uri"},
      {R"({"training": {"model": {"name": "fashion_cnn"}}, "checkpoint": {"uri": 3}})", "uri"}};
  for (const auto& [spec, message] : cases) {
    const auto job = read_job(spec.empty() ? environment_of({}) : environment_of({{"TRAINYARD_SPEC", spec}}));
    ASSERT_FALSE(job.has_value()) << spec;
    EXPECT_EQ(job.error().kind, ErrorKind::invalid) << spec;
    EXPECT_THAT(job.error().message, HasSubstr(message)) << spec;
  }
}

TEST(ReadJob, RefusesWhatNeedsEqualParametersWhereRanksHaveTheirOwn) {
  struct Case {
    std::string training, strategy, checkpoint, what;
    bool is_only_of_async = false;
  };
  for (const auto& [training, strategy, checkpoint, what, is_only_of_async] :
       {Case{"", R"(, "syncBatchNorm": true)", "", "strategy.syncBatchNorm is not for"},
        Case{"", R"(, "bucketMiB": 4)", "", "strategy.bucketMiB is not for"},
        Case{"", R"(, "timeline": true)", R"(, "checkpoint": {"uri": "file:///c"})", "strategy.timeline is not for"},
        Case{"", R"(, "checkParametersEvery": {"steps": 5})", "", "strategy.checkParametersEvery is not for"},
        Case{R"(, "ema": {"decay": 0.9})", "", "", "ema is not for"},
        Case{R"(, "precision": "16-mixed")", "", "", "precision 16-mixed is not for"},
        Case{"", "", R"(, "checkpoint": {"uri": "file:///c", "local": {"path": "/l", "every": {"steps": 1}}})",
             "checkpoint.local is not for"},
        Case{"", R"(, "hierarchical": true)", "", "training.strategy.hierarchical is not for", true},
        Case{R"(, "accumulateGradBatches": 2)", "", "", "training.accumulateGradBatches is not for", true}}) {
    for (const std::string algorithm : {"async", "decentralized", "lowPrecisionDecentralized", "gradientAllreduce"}) {
      const auto job =
          read_job(environment_of({{"TRAINYARD_SPEC", R"({"training": {"model": {"name": "fashion_cnn"})" + training +
                                                          R"(, "strategy": {"name": "bagua", "algorithm": ")" +
                                                          algorithm + "\"" + strategy + "}}" + checkpoint + "}"}}));
      const bool is_refused = is_only_of_async ? algorithm == "async" : algorithm != "gradientAllreduce";
      EXPECT_EQ(job.has_value(), !is_refused) << algorithm << ": " << what << (job ? "" : job.error().message);
      if (is_refused) {
        ASSERT_FALSE(job.has_value());
        EXPECT_THAT(job.error().message, HasSubstr(what));
      }
    }
  }
}

TEST(ReadJob, RefusesParametersInPartsWhereTheyCannotBeTrained) {
  for (const auto& [strategy, why] :
       {std::pair<std::string, std::string>{R"("name": "sharded")", ""},
        {R"("name": "ddp")", "is only for name sharded"},
        {R"("name": "sharded", "syncBatchNorm": true)", "is not for syncBatchNorm"},
        {R"("name": "sharded", "checkParametersEvery": {"steps": 5})", "is not for checkParametersEvery"}}) {
    const std::string spec =
        R"({"training": {"model": {"name": "fashion_cnn"}, "strategy": {"shardParameters": true, )" + strategy + "}}}";
    const auto job = read_job(environment_of({{"TRAINYARD_SPEC", spec}}));
    ASSERT_EQ(job.has_value(), why.empty()) << spec;
    if (job) continue;
    EXPECT_THAT(job.error().message, HasSubstr("training.strategy.shardParameters " + why));
  }
}

}  // namespace
}  // namespace trainyard::train
