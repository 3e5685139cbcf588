#include "operator/resource/pod.hpp"

#include <gtest/gtest.h>

#include "common/rfc3339.hpp"

namespace trainyard::resource {
namespace {

using nlohmann::json;

TEST(ParsePod, KeepsWhatPlanningReads) {
  const auto pod = parse_pod(json::parse(R"({
      "metadata": {"name": "job-abcd-1-0", "namespace": "ns", "uid": "p0"},
      "spec": {"nodeName": "node0", "containers": [{"name": "sidecar", "env": [{"name": "A", "value": "b"}]}, {"name": "worker",
          "env": [{"name": "FROM", "valueFrom": {"fieldRef": {}}}, {"name": "TRAINYARD_REQUEST_TOKEN", "value": "abc"}]}]},
      "status": {
        "phase": "Failed", "podIP": "10.0.0.1", "reason": "Evicted", "message": "low on memory",
        "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet", "message": "m"},
                       {"type": "Ready", "status": "False"}],
        "initContainerStatuses": [{"name": "init", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}],
        "containerStatuses": [
          {"name": "worker", "ready": false, "restartCount": 0,
           "state": {"terminated": {"exitCode": 137, "signal": 9, "reason": "OOMKilled", "message": "m", "finishedAt": "2026-11-21T10:00:00Z"}}},
          {"name": "sidecar", "ready": true, "restartCount": 2, "state": {"running": {"startedAt": "2026-11-21T10:00:00Z"}}}]}})"));
  ASSERT_TRUE(pod) << pod.error().message;
  Pod expected;
  expected.metadata = {.name = "job-abcd-1-0", .name_space = "ns", .uid = "p0"};
  expected.phase = PodPhase::failed;
  expected.node_name = "node0";
  expected.pod_ip = "10.0.0.1";
  expected.request_token = "abc";
  expected.reason = "Evicted";
  expected.message = "low on memory";
  expected.conditions = {{"DisruptionTarget", true, "TerminationByKubelet", "m"}, {"Ready", false, "", ""}};
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

TEST(ParsePod, NamesTheFieldThatIsWrong) {
  const auto pod = parse_pod(json::parse(
      R"({"metadata": {"name": "p", "uid": "u"}, "status": {"containerStatuses": [{"state": {"terminated": {"exitCode": "1"}}}]}})"));
  ASSERT_FALSE(pod);
  EXPECT_EQ(pod.error().message,
            R"(status.containerStatuses[0].state.terminated.exitCode: must be an integer, got "1")");
}

}  // namespace
}  // namespace trainyard::resource
