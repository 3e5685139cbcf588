#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "api/training_job.hpp"
#include "tests/api/full_status.hpp"
#include "tests/cluster/control_plane.hpp"

namespace trainyard {
namespace {

using nlohmann::json;
using testing::ContainsRegex;
using testing::HasSubstr;

class TrainingJobOnApiServer : public cluster::ControlPlaneTest {
 protected:
  void SetUp() override {
    ControlPlaneTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    const auto name_space = control_plane().create_namespace("api");
    ASSERT_TRUE(name_space) << name_space.error().message;
    name_space_ = *name_space;
    const auto applied = control_plane().apply(name_space_, R"({
        "apiVersion": "trainyard.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "job"},
        "spec": {"replicas": 2, "training": {"model": {"name": "fashion_cnn"}, "data": {"format": "synthetic"}}}})");
    ASSERT_TRUE(applied) << applied.error().message;
  }

  /// kubectl's output, or its error.
  std::string kubectl(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--namespace", name_space_});
    const auto printed = control_plane().kubectl(arguments);
    return printed ? *printed : printed.error().message;
  }

  void write_full_status() {
    const json patch{{"status", api::to_json(api::a_full_status())}};
    ASSERT_THAT(kubectl({"patch", "tj", "job", "--subresource", "status", "--type", "merge", "--patch", patch.dump()}),
                HasSubstr("patched"));
  }

  std::string name_space_;
};

TEST_F(TrainingJobOnApiServer, KeepsEveryFieldOfAStatus) {
  write_full_status();
  const json stored = json::parse(kubectl({"get", "tj", "job", "--output", "json"}));
  EXPECT_EQ(stored.at("status"), api::to_json(api::a_full_status()));
  const auto job = api::parse_training_job(stored);
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->status, api::a_full_status());
}

TEST_F(TrainingJobOnApiServer, IsPrintedAsALineThatSaysHowFarItIs) {
  write_full_status();
  const std::string table = kubectl({"get", "tj"});
  EXPECT_THAT(table, ContainsRegex("NAME +PHASE +READY +STEP +LOSS +CHECKPOINT +RESTARTS +AGE"));
  EXPECT_THAT(table, ContainsRegex("job +Running +2/2 +512/900 +0.5 +400 +3 "));
}

TEST_F(TrainingJobOnApiServer, IsScaledOnlyWhileItIsSuspended) {
  write_full_status();
  EXPECT_THAT(kubectl({"scale", "tj", "job", "--replicas", "3"}),
              HasSubstr("may only change while the job is suspended"));
  EXPECT_THAT(kubectl({"patch", "tj", "job", "--type", "merge", "--patch", R"({"spec": {"suspend": true}})"}),
              HasSubstr("patched"));
  EXPECT_THAT(kubectl({"scale", "tj", "job", "--replicas", "3"}), HasSubstr("scaled"));
  const json scale = json::parse(kubectl({"get", "--subresource", "scale", "tj", "job", "--output", "json"}));
  EXPECT_EQ(scale.at("spec").at("replicas"), 3);
  EXPECT_EQ(scale.at("status"),
            (json{{"replicas", api::a_full_status().replicas.ready}, {"selector", "trainyard.dev/job=a"}}));
}

TEST_F(TrainingJobOnApiServer, IsExplainedByKubectl) {
  const std::string page = kubectl({"explain", "tj.spec.restart"});
  EXPECT_THAT(page, HasSubstr("The limits and pauses of restarts."));
  EXPECT_THAT(page, HasSubstr("noProgressAttempts"));
}

}  // namespace
}  // namespace trainyard
