#include "api/training_job.hpp"

#include <gtest/gtest.h>

namespace trainyard::api {
namespace {

using nlohmann::json;

json a_job_with_spec(std::string_view spec) {
  return {{"metadata", {{"name", "a"}, {"namespace", "ns"}, {"uid", "u"}, {"generation", 2}}},
          {"spec", json::parse(spec)}};
}

TEST(ParseTrainingJob, FillsInTheDefaultsOfTheHeader) {
  const auto job =
      parse_training_job({{"metadata", {{"name", "a"}, {"namespace", "ns"}, {"uid", "u"}, {"generation", 2}}}});
  ASSERT_TRUE(job) << job.error().message;
  TrainingJob expected;
  expected.metadata = {.name = "a", .name_space = "ns", .uid = "u", .generation = 2};
  EXPECT_EQ(*job, expected);
}

TEST(ParseTrainingJob, ReadsEveryFieldOfTheSpec) {
  const auto job = parse_training_job(a_job_with_spec(R"({
      "replicas": 4, "gpusPerPod": 8, "suspend": true, "activeDeadlineSeconds": 60, "ttlSecondsAfterFinished": 0, "cleanPods": "All",
      "template": {"spec": {"containers": [{"name": "worker", "tty": true, "env": null, "args": ["a", null, ["b", null]]}], "affinity": null}},
      "training": {"model": {"name": "m"}}, "checkpoint": {"uri": "s3://models/a"},
      "restart": {"application": {"max": 1}, "infrastructure": {"max": 2}, "backoff": {"initial": "1s", "max": "10s"}, "noProgressAttempts": 5}})"));
  ASSERT_TRUE(job) << job.error().message;
  TrainingJobSpec expected;
  expected.replicas = 4;
  expected.gpus_per_pod = 8;
  expected.is_suspended = true;
  expected.active_deadline = std::chrono::seconds{60};
  expected.ttl_after_finished = std::chrono::seconds{0};
  expected.clean_pods = CleanPods::all;
  expected.pod_template =
      json::parse(R"({"spec": {"containers": [{"name": "worker", "tty": true, "args": ["a", ["b"]]}]}})");
  expected.training.emplace().model.name = "m";
  expected.checkpoint.emplace().uri = "s3://models/a";
  expected.restart = {.application = {1},
                      .infrastructure = {2},
                      .backoff = {std::chrono::milliseconds{1000}, std::chrono::milliseconds{10'000}},
                      .no_progress_attempts = 5};
  EXPECT_EQ(job->spec, expected);
}

struct WrongJob {
  std::string_view spec;
  std::string_view message;
};
class ParseTrainingJobRefuses : public testing::TestWithParam<WrongJob> {};

TEST_P(ParseTrainingJobRefuses, AndNamesTheFieldByItsPath) {
  const auto job = parse_training_job(a_job_with_spec(GetParam().spec));
  ASSERT_FALSE(job);
  EXPECT_EQ(job.error(), (Error{ErrorKind::invalid, std::string{GetParam().message}, {}}));
}

INSTANTIATE_TEST_SUITE_P(
    Table, ParseTrainingJobRefuses,
    testing::Values(
        WrongJob{"[]", "spec: must be an object, got []"},
        WrongJob{R"({"replicas": 0})", "spec.replicas: must be at least 1, got 0"},
        WrongJob{R"({"gpusPerPod": -1})", "spec.gpusPerPod: must be at least 0, got -1"},
        WrongJob{R"({"template": []})", "spec.template: must be an object, got []"},
        WrongJob{R"({"suspend": "true"})", R"(spec.suspend: must be true or false, got "true")"},
        WrongJob{R"({"cleanPods": "Some"})", R"(spec.cleanPods: must be one of None, Running, All, got "Some")"},
        WrongJob{R"({"restart": {"backoff": {"initial": 5}}})",
                 "spec.restart.backoff.initial: must be a string, got 5"},
        WrongJob{R"({"restart": {"application": {"max": -1}}})",
                 "spec.restart.application.max: must be at least 0, got -1"},
        WrongJob{R"({"restart": {"infrastructure": {"max": "1"}}})",
                 R"(spec.restart.infrastructure.max: must be an integer, got "1")"},
        WrongJob{R"({"restart": {"backoff": {"max": "soon"}}})",
                 "spec.restart.backoff.max: 'soon' is no duration; write it like 90s, 5m or 1h30m"},
        WrongJob{R"({"restart": {"noProgressAttempts": 0}})",
                 "spec.restart.noProgressAttempts: must be at least 1, got 0"},
        WrongJob{R"({"activeDeadlineSeconds": -1})", "spec.activeDeadlineSeconds: must be at least 0, got -1"},
        WrongJob{R"({"ttlSecondsAfterFinished": "1h"})",
                 R"(spec.ttlSecondsAfterFinished: must be an integer, got "1h")"},
        WrongJob{R"({"training": {}})", "spec.training.model: must be given"},
        WrongJob{R"({"checkpoint": {}})", "spec.checkpoint.uri: must be given"}));

}  // namespace
}  // namespace trainyard::api
