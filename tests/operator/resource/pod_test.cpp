#include "operator/resource/pod.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "common/rfc3339.hpp"

namespace trainyard::resource {
namespace {

using nlohmann::json;

TEST(ParsePod, KeepsWhatPlanningReads) {
  const auto pod = parse_pod(json::parse(R"({
      "metadata": {"name": "job-abcd-1-0", "namespace": "ns", "uid": "p0",
                   "labels": {"trainyard.dev/rank": "0", "team": "vision", "trainyard.development/x": "y"},
                   "annotations": {"trainyard.dev/spec-hash": "h", "cni.example.com/networks": "[]"}},
      "spec": {"nodeName": "node0", "containers": [{"name": "sidecar", "env": [{"name": "A", "value": "b"}]}, {"name": "worker",
          "env": [{"name": "FROM", "valueFrom": {"fieldRef": {}}}, {"name": "TRAINYARD_REQUEST_TOKEN", "value": "abc"},
                  {"name": "Z", "value": "y"}]}]},
      "status": {
        "phase": "Failed", "podIP": "10.0.0.1", "reason": "Evicted", "message": "low on memory",
        "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet", "message": "m"},
                       {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"},
                       {"type": "Ready", "status": "False"}],
        "initContainerStatuses": [{"name": "init", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}],
        "containerStatuses": [
          {"name": "worker", "ready": false, "restartCount": 0,
           "state": {"terminated": {"exitCode": 137, "signal": 9, "reason": "OOMKilled", "message": "m", "finishedAt": "2026-11-21T10:00:00Z"}}},
          {"name": "sidecar", "ready": true, "restartCount": 2, "state": {"running": {"startedAt": "2026-11-21T10:00:00Z"}}}]}})"));
  ASSERT_TRUE(pod) << pod.error().message;
  Pod expected;
  expected.metadata = {.name = "job-abcd-1-0",
                       .name_space = "ns",
                       .uid = "p0",
                       .labels = {{"trainyard.dev/rank", "0"}},
                       .annotations = {{"trainyard.dev/spec-hash", "h"}}};
  expected.phase = PodPhase::failed;
  expected.node_name = "node0";
  expected.pod_ip = "10.0.0.1";
  expected.request_token = "abc";
  expected.reason = "Evicted";
  expected.message = "low on memory";
  expected.conditions = {{"DisruptionTarget", true, "TerminationByKubelet", "m"},
                         {"PodScheduled", false, "Unschedulable", "no room"}};
  expected.init_containers = {
      {.name = "init", .waiting_reason = "ImagePullBackOff", .waiting_message = "no such image"}};
  expected.containers = {
      {.name = "worker",
       .terminated = ContainerTermination{137, 9, "OOMKilled", "m", *parse_rfc3339("2026-11-21T10:00:00Z")}},
      {.name = "sidecar", .is_running = true, .is_ready = true, .restart_count = 2}};
  EXPECT_EQ(*pod, expected);
}

TEST(ParsePod, ReadsAPodThatTheKubeletHasNotSeenYet) {
  const auto pod = parse_pod(json::parse(R"({"metadata": {"name": "p", "uid": "u"}})"));
  ASSERT_TRUE(pod) << pod.error().message;
  EXPECT_EQ(pod->phase, PodPhase::pending);
  EXPECT_TRUE(pod->containers.empty());
}

TEST(ParsePod, KeepsTheTokenOfRank0Alone) {
  for (const auto& [name, token] : {std::pair{"job-abcd-12-0", "abc"}, {"job-abcd-1-1", ""}, {"job-abcd-1-10", ""}}) {
    const auto pod = parse_pod(
        {{"metadata", {{"name", name}, {"uid", "u"}}},
         {"spec",
          {{"containers",
            json::array({{{"name", "worker"},
                          {"env", json::array({{{"name", "TRAINYARD_REQUEST_TOKEN"}, {"value", "abc"}}})}}})}}}});
    ASSERT_TRUE(pod) << pod.error().message;
    EXPECT_EQ(pod->request_token, token) << name;
  }
}

TEST(PackedPod, UnpacksToAnEqualPod) {
  const Time time = *parse_rfc3339("2026-11-21T10:00:00Z");
  const Pod pod{.metadata = {.name = "job-abcd-1-0",
                             .name_space = "ns",
                             .uid = "p0",
                             .resource_version = "12",
                             .generation = -7,
                             .labels = {{"a", "b"}, {"c", ""}},
                             .annotations = {{"d", std::string(300, 'e')}},
                             .creation_time = time,
                             .deletion_time = time + std::chrono::milliseconds{1},
                             .deletion_grace = std::chrono::seconds{120},
                             .finalizers = {"f", "g"},
                             .controller = api::OwnerReference{"a/v1", "Kind", "job", "u", true}},
                .phase = PodPhase::failed,
                .node_name = "node",
                .pod_ip = "10.0.0.1",
                .request_token = "abc",
                .reason = "Evicted",
                .message = "m",
                .conditions = {{"PodScheduled", true, "r", "m"}, {"DisruptionTarget", false, "", ""}},
                .containers = {{.name = "worker",
                                .is_running = true,
                                .is_ready = true,
                                .waiting_reason = "w",
                                .waiting_message = "x",
                                .terminated = ContainerTermination{255, 9, "Error", "y", time},
                                .restart_count = std::numeric_limits<std::int64_t>::max()},
                               {.name = "sidecar", .terminated = ContainerTermination{.exit_code = -1}}},
                .init_containers = {{.name = "init"}}};
  EXPECT_EQ(unpack(pack(pod)), pod);
  EXPECT_EQ(unpack(pack(Pod{})), Pod{});
}

TEST(PackedPod, IsSmall) {
  Pod pod;
  pod.metadata = {.name = "llama-finetune-c0de-1-1234",
                  .name_space = "research",
                  .uid = "8c1c4f0e-6f5c-4b7e-9d5e-0b1f6a6d2e11",
                  .resource_version = "123456789",
                  .labels = {{"trainyard.dev/job", "llama-finetune"},
                             {"trainyard.dev/attempt", "1"},
                             {"trainyard.dev/rank", "1234"}},
                  .annotations = {{"trainyard.dev/spec-hash", "0123456789abcdef"}},
                  .controller = api::OwnerReference{.api_version = "trainyard.dev/v1alpha1",
                                                    .kind = "TrainingJob",
                                                    .name = "llama-finetune",
                                                    .uid = "8c1c4f0e-6f5c-4b7e-9d5e-0b1f6a6d2e11"}};
  pod.node_name = "ip-10-12-13-14.eu-central-1.compute.internal";
  pod.pod_ip = "10.12.13.15";
  pod.conditions = {{"PodScheduled", true, "", ""}};
  pod.containers = {{.name = "worker", .is_running = true, .is_ready = true}};
  EXPECT_LT(pack(pod).bytes.size(), 512U);
}

TEST(ParsePod, NamesTheFieldThatIsWrong) {
  const auto pod = parse_pod(json::parse(
      R"({"metadata": {"name": "p", "uid": "u"}, "status": {"containerStatuses": [{"state": {"terminated": {"exitCode": "1"}}}]}})"));
  ASSERT_FALSE(pod);
  EXPECT_EQ(pod.error().message,
            R"(status.containerStatuses[0].state.terminated.exitCode: must be an integer, got "1")");
}

}  // namespace
}  // namespace trainyard::resource
