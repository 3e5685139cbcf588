#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <limits>

#include "common/time_text.hpp"
#include "operator/resource/resources.hpp"

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

TEST(ParsePod, KnowsEveryPhaseAndNoOther) {
  const auto parsed = [](const char* phase) {
    return parse_pod({{"metadata", {{"name", "p"}, {"uid", "u"}}}, {"status", {{"phase", phase}}}});
  };
  for (const auto& [name, phase] : {std::pair{"Pending", PodPhase::pending},
                                    {"Running", PodPhase::running},
                                    {"Succeeded", PodPhase::succeeded},
                                    {"Failed", PodPhase::failed},
                                    {"Unknown", PodPhase::unknown}}) {
    ASSERT_TRUE(parsed(name)) << name;
    EXPECT_EQ(parsed(name)->phase, phase) << name;
  }
  EXPECT_FALSE(parsed("Finished"));
}

TEST(ParsePod, TakesAConditionForTrueOnlyWhereItIs) {
  const auto pod = parse_pod(json::parse(R"({"metadata": {"name": "p", "uid": "u"}, "status": {"conditions": [
      {"type": "PodScheduled", "status": "Unknown"}, {"type": "DisruptionTarget"}]}})"));
  ASSERT_TRUE(pod) << pod.error().message;
  ASSERT_EQ(pod->conditions.size(), 2U);
  EXPECT_FALSE(pod->conditions[0].is_true);
  EXPECT_FALSE(pod->conditions[1].is_true);
}

TEST(ParsePod, ReadsHowAnInitContainerEnded) {
  const auto pod = parse_pod(json::parse(R"({"metadata": {"name": "p", "uid": "u"}, "status": {
      "initContainerStatuses": [{"name": "fetch", "restartCount": 2, "state": {"terminated": {"exitCode": 4}}}],
      "containerStatuses": [{"name": "worker", "ready": true, "state": {"waiting": {"reason": "PodInitializing"}}}]}})"));
  ASSERT_TRUE(pod) << pod.error().message;
  EXPECT_EQ(pod->init_containers,
            (std::vector<ContainerStatus>{
                {.name = "fetch", .terminated = ContainerTermination{.exit_code = 4}, .restart_count = 2}}));
  EXPECT_EQ(pod->containers,
            (std::vector<ContainerStatus>{{.name = "worker", .is_ready = true, .waiting_reason = "PodInitializing"}}));
}

TEST(ParsePod, KeepsNoLabelThatOnlyBeginsLikeOurs) {
  const auto pod =
      parse_pod({{"metadata",
                  {{"name", "p"},
                   {"uid", "u"},
                   {"labels", {{"trainyard.dev", "a"}, {"trainyard.dev/", "b"}, {"x.trainyard.dev/y", "c"}}},
                   {"annotations", {{"trainyard.devil/x", "d"}, {"trainyard.dev/x", "e"}}}}}});
  ASSERT_TRUE(pod) << pod.error().message;
  EXPECT_EQ(pod->metadata.labels, (std::map<std::string, std::string>{{"trainyard.dev/", "b"}}));
  EXPECT_EQ(pod->metadata.annotations, (std::map<std::string, std::string>{{"trainyard.dev/x", "e"}}));
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
  for (const std::int64_t generation : {63, 64, 65, -64, -65, 8191, 8192, -8192, -8193}) {
    const Pod numbered{.metadata = {.generation = generation}};
    EXPECT_EQ(unpack(pack(numbered)), numbered) << "where its number takes one byte more";
  }
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

TEST(ParseService, ReadsTheAttemptWhosePodsItSelects) {
  const std::vector<std::pair<std::string, std::int64_t>> rows{
      {R"({"selector": {"trainyard.dev/job": "smoke", "trainyard.dev/attempt": "12"}})", 12},
      {R"({"selector": {"trainyard.dev/attempt": "12b"}})", 0},
      {R"({"selector": {"trainyard.dev/attempt": "99999999999999999999"}})", 0},
      {R"({"selector": {"trainyard.dev/attempt": ""}})", 0},
      {R"({"selector": {"trainyard.dev/job": "smoke"}})", 0},
      {R"({})", 0}};
  for (const auto& [spec, attempt] : rows) {
    const auto service =
        parse_service({{"metadata", {{"name", "smoke-c0de"}, {"uid", "u"}}}, {"spec", json::parse(spec)}});
    ASSERT_TRUE(service) << spec;
    EXPECT_EQ(service->attempt, attempt) << spec;
    EXPECT_EQ(service->metadata.name, "smoke-c0de");
  }
}

TEST(ParseService, NamesWhatIsWrong) {
  EXPECT_FALSE(parse_service(json::object())) << "it has no name";
  const auto service = parse_service(
      {{"metadata", {{"name", "s"}, {"uid", "u"}}}, {"spec", {{"selector", {{"trainyard.dev/attempt", 12}}}}}});
  ASSERT_FALSE(service);
  EXPECT_EQ(service.error().message, "spec.selector.trainyard.dev/attempt: must be a string, got 12");
  EXPECT_FALSE(parse_node(json::object()));
  EXPECT_FALSE(parse_pod(json::object()));
}

TEST(ParseNode, KeepsWhatPlanningReads) {
  struct Case {
    std::string_view status;  ///< The status of the condition Ready.
    bool is_ready;
    bool is_unreachable;
  };
  for (const Case& c : {Case{"True", true, false}, Case{"False", false, false}, Case{"Unknown", false, true}}) {
    const auto node =
        parse_node({{"metadata",
                     {{"name", "node1"},
                      {"uid", "u"},
                      {"labels", {{"kubernetes.io/hostname", "host1"}, {"nvidia.com/gpu.product", "H200"}}},
                      {"annotations", {{"volumes.kubernetes.io/x", "y"}}}}},
                    {"status",
                     {{"conditions", json::array({{{"type", "MemoryPressure"}, {"status", "True"}},
                                                  {{"type", "Ready"}, {"status", c.status}},
                                                  {{"type", "DiskPressure"}, {"status", "False"}}})}}}});
    ASSERT_TRUE(node) << node.error().message;
    EXPECT_EQ(*node, (Node{.metadata = {.name = "node1", .uid = "u"},
                           .host_name = "host1",
                           .is_ready = c.is_ready,
                           .is_unreachable = c.is_unreachable}));
  }
}

TEST(ParseNode, TakesANodeThatSaysNothingYetForNotReady) {
  const auto node = parse_node({{"metadata", {{"name", "node1"}, {"uid", "u"}}}});
  ASSERT_TRUE(node) << node.error().message;
  EXPECT_EQ(*node, (Node{.metadata = {.name = "node1", .uid = "u"}}));
}

TEST(ParseMountFailure, IsFoundByThePodThatItIsAbout) {
  const auto failure = parse_mount_failure(json::parse(R"({
      "metadata": {"name": "job-abcd-1-0.18", "namespace": "ns", "uid": "e0", "resourceVersion": "7",
                   "labels": {"a": "b"}, "annotations": {"c": "d"}},
      "reason": "FailedMount", "note": "MountVolume.SetUp failed for volume \"x\" : secret \"y\" not found",
      "regarding": {"kind": "Pod", "namespace": "ns", "name": "job-abcd-1-0", "uid": "p0"}})"));
  ASSERT_TRUE(failure) << failure.error().message;
  EXPECT_EQ(*failure, (MountFailure{.metadata = {.name = "job-abcd-1-0.18",
                                                 .name_space = "ns",
                                                 .uid = "e0",
                                                 .resource_version = "7",
                                                 .controller = api::OwnerReference{.uid = "p0", .is_controller = true}},
                                    .pod = "job-abcd-1-0",
                                    .message = "MountVolume.SetUp failed for volume \"x\" : secret \"y\" not found"}));
}

TEST(ParseMountFailure, RefusesWhatIsNoEvent) {
  for (const json& object : {json::object(), json{{"metadata", {{"name", "e"}, {"uid", "u"}}}, {"note", 3}}}) {
    EXPECT_FALSE(parse_mount_failure(object)) << object;
  }
}

TEST(ParseNode, TakesAStatusOfAnotherShapeForNone) {
  for (const json& status : {json("Ready"), json::object(), json{{"conditions", "Ready"}},
                             json{{"conditions", json::array({"Ready", {{"status", "True"}}, {{"type", "Ready"}}})}}}) {
    const auto node = parse_node({{"metadata", {{"name", "node1"}, {"uid", "u"}}}, {"status", status}});
    ASSERT_TRUE(node) << status;
    EXPECT_EQ(*node, (Node{.metadata = {.name = "node1", .uid = "u"}})) << status;
  }
}

}  // namespace
}  // namespace trainyard::resource
