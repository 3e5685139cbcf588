#include "operator/reconcile/observe.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/builders/an_observed.hpp"
#include "tests/operator/reconcile/reconciler_fixture.hpp"

namespace trainyard::reconcile {
namespace {

using testing::ElementsAre;
using testing::Pair;

/// Builds what a plan rests on from the caches.
class ObserveTest : public testing::Test {
 protected:
  plan::Observed observe_job() { return observe(job_, caches_, memory_, progress_, ReconcilerOptions{}); }
  resource::Pod& put(resource::Pod& pod) {
    pod.metadata.resource_version = std::to_string(++version_);
    caches_.pods.put(pod);
    return pod;
  }
  void put_node(const std::string& name) {
    resource::Node node;
    node.metadata.name = name;
    node.metadata.resource_version = "1";
    caches_.nodes.put(node);
  }
  void put_mount_failure(const std::string& name_space, const std::string& pod, const std::string& about_uid,
                         const std::string& message) {
    resource::MountFailure failure;
    failure.metadata.name = "event-" + message;
    failure.metadata.name_space = name_space;
    failure.metadata.resource_version = "1";
    failure.metadata.controller =
        api::OwnerReference{.kind = "Pod", .name = pod, .uid = about_uid, .is_controller = true};
    failure.pod = pod;
    failure.message = message;
    caches_.mount_failures.put(failure);
  }
  static std::vector<std::string> names_of(const std::vector<resource::Pod>& pods) {
    std::vector<std::string> names;
    for (const resource::Pod& pod : pods) names.push_back(pod.metadata.name);
    return names;
  }

  plan::Observed running_ = builders::an_observed();
  api::TrainingJob job_ = running_.job;
  Caches caches_;
  JobMemory memory_;
  FakeProgress progress_;
  int version_ = 0;
};

TEST_F(ObserveTest, SeesTheJobsOwnPodsAndTheNodesThatTheyAreOn) {
  for (resource::Pod& pod : running_.pods) put(pod);
  resource::Pod foreign = running_.pods.front();
  foreign.metadata.name_space = "elsewhere";
  put(foreign);
  resource::Pod ignored = running_.pods.front();
  ignored.metadata.uid = "ignored";
  ignored.metadata.name = manifest::pod_name(job_, 2, 0);
  put(ignored);
  memory_.foreign_pods = {"ignored"};
  for (const resource::Pod& pod : running_.pods) put_node(pod.node_name);
  put_node("another");
  const plan::Observed seen = observe_job();
  EXPECT_THAT(names_of(seen.pods), testing::UnorderedElementsAreArray(names_of(running_.pods)));
  std::set<std::string> nodes;
  for (const auto& [name, node] : seen.nodes) nodes.insert(name);
  std::set<std::string> expected;
  for (const resource::Pod& pod : running_.pods) expected.insert(pod.node_name);
  EXPECT_EQ(nodes, expected);
}

TEST_F(ObserveTest, SeesTheNodesThatTheJobAvoidsThoughNoPodOfItIsThere) {
  job_.status.avoided_nodes = {"avoided", "removed from the cluster"};
  put_node("avoided");
  put_node("another");
  const plan::Observed seen = observe_job();
  ASSERT_EQ(seen.nodes.size(), 1U);
  EXPECT_EQ(seen.nodes.begin()->first, "avoided");
}

TEST_F(ObserveTest, SeesTheVolumesThatDoNotMountOfItsOwnPodsOnly) {
  const resource::Pod& pod = put(running_.pods.front());
  put_mount_failure(pod.metadata.name_space, pod.metadata.name, pod.metadata.uid, "ours");
  put_mount_failure("elsewhere", pod.metadata.name, pod.metadata.uid, "of another namespace");
  put_mount_failure(pod.metadata.name_space, "other", pod.metadata.uid, "of another name");
  put_mount_failure(pod.metadata.name_space, pod.metadata.name, "another-uid", "of another pod");
  EXPECT_THAT(observe_job().mount_failures, ElementsAre(Pair(pod.metadata.name, "ours")));
}

TEST_F(ObserveTest, KnowsWhenTheStatusWasWrittenAndWhatHinderedCreates) {
  memory_.written = builders::start;
  memory_.refusal = plan::Refusal{.message = "exceeded quota"};
  memory_.create_failure = plan::CreateFailure{.message = "HTTP 500"};
  const plan::Observed seen = observe_job();
  EXPECT_EQ(seen.status_written, builders::start);
  EXPECT_EQ(seen.refusal, memory_.refusal);
  EXPECT_EQ(seen.create_failure, memory_.create_failure);
}

TEST_F(ObserveTest, KeepsADryRunsResultForTheSpecThatItWasMadeFor) {
  job_.metadata.generation = 3;
  memory_.accepted_spec_generation = 2;
  EXPECT_FALSE(observe_job().is_template_accepted);
  memory_.accepted_spec_generation = 3;
  EXPECT_TRUE(observe_job().is_template_accepted);
}

}  // namespace
}  // namespace trainyard::reconcile
