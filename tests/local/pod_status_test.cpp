#include "local/pod_status.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace trainyard::local {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

const Time start{std::chrono::sys_days{std::chrono::year{2026} / 1 / 1}};

ContainerState waiting() {
  return {.name = "worker"};
}
ContainerState running() {
  return {.name = "worker", .started_at = start};
}
ContainerState ended(int exit_code) {
  return {
      .name = "worker", .started_at = start, .end = ContainerEnd{.exit_code = exit_code, .finished_at = start + 5s}};
}

ContainerState sidecar(ContainerState container) {
  container.is_sidecar = true;
  return container;
}

TEST(PodPhase, FollowsFromTheContainers) {
  using States = std::vector<ContainerState>;
  const std::vector<std::tuple<States, States, std::string>> cases{
      {{}, {waiting()}, "Pending"},
      {{}, {running()}, "Running"},
      {{}, {running(), waiting()}, "Running"},
      {{}, {ended(1), running()}, "Running"},
      {{}, {ended(0), ended(0)}, "Succeeded"},
      {{}, {ended(0), ended(3)}, "Failed"},
      {{running()}, {waiting()}, "Pending"},
      {{ended(1)}, {waiting()}, "Failed"},
      {{ended(0)}, {running()}, "Running"},
      {{sidecar(running())}, {waiting()}, "Pending"},
      {{sidecar(running())}, {running()}, "Running"},
      {{sidecar(ended(1))}, {running()}, "Running"},
      {{sidecar(running())}, {ended(0)}, "Running"},
      {{sidecar(ended(1))}, {ended(0)}, "Succeeded"},
      {{sidecar(ended(0))}, {ended(1)}, "Failed"},
      {{sidecar(running()), ended(1)}, {waiting()}, "Running"},
      {{sidecar(ended(0)), ended(1)}, {waiting()}, "Failed"},
  };
  for (const auto& [init, containers, phase] : cases) {
    EXPECT_EQ(pod_phase({.init_containers = init, .containers = containers}), phase);
  }
}

TEST(PodStatus, ShowsHowAContainerEnded) {
  ContainerState container = ended(137);
  container.image = "i";
  container.end->signal = 9;
  container.end->reason = "Error";
  container.end->message = "m";
  const json status = pod_status(
      {.start_time = start, .host_ip = "h", .pod_ip = "p", .init_containers = {}, .containers = {container}});
  EXPECT_EQ(status["phase"], "Failed");
  EXPECT_EQ(status["podIP"], "p");
  EXPECT_EQ(status["containerStatuses"][0], json::parse(R"({
    "name": "worker", "image": "i", "ready": false, "started": false, "restartCount": 0, "lastState": {},
    "state": {"terminated": {"exitCode": 137, "signal": 9, "reason": "Error", "message": "m",
                             "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:05Z"}}})"));
}

TEST(PodStatus, SaysWhetherAPodIsInitializedAndReady) {
  using States = std::vector<ContainerState>;
  struct Row {
    std::string_view name;
    States init;
    States containers;
    bool is_initialized;
    bool is_ready;
  };
  const std::vector<Row> rows{
      {"nothing has started", {}, {waiting()}, true, false},
      {"it runs", {}, {running()}, true, true},
      {"one of two runs", {}, {running(), waiting()}, true, false},
      {"it has ended", {}, {ended(0)}, true, false},
      {"an init container runs", {running()}, {waiting()}, false, false},
      {"an init container has failed", {ended(1)}, {waiting()}, false, false},
      {"an init container has succeeded", {ended(0)}, {running()}, true, true},
      {"a sidecar runs beside it", {sidecar(running())}, {running()}, true, true},
      {"a sidecar waits", {sidecar(waiting())}, {running()}, false, false},
      {"a sidecar has ended", {sidecar(ended(0))}, {running()}, true, false},
  };
  for (const Row& row : rows) {
    const json status = pod_status({.start_time = start, .init_containers = row.init, .containers = row.containers});
    const auto condition = [](const char* type, bool is_true) {
      return json{
          {"type", type}, {"status", is_true ? "True" : "False"}, {"lastTransitionTime", "2026-01-01T00:00:00Z"}};
    };
    EXPECT_EQ(status["conditions"],
              json::array({condition("PodScheduled", true), condition("Initialized", row.is_initialized),
                           condition("ContainersReady", row.is_ready), condition("Ready", row.is_ready)}))
        << row.name;
  }
}

TEST(PodStatus, ShowsARunningSidecarWithItsRestartsAndItsLastEnd) {
  ContainerState container = sidecar(running());
  container.restarts = 2;
  container.last_end = ContainerEnd{.exit_code = 7, .reason = "Error", .finished_at = start + 5s};
  const json status = pod_status({.init_containers = {container}, .containers = {running()}});
  EXPECT_EQ(status["initContainerStatuses"][0], json::parse(R"({
    "name": "worker", "image": "", "ready": true, "started": true, "restartCount": 2,
    "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
    "lastState": {"terminated": {"exitCode": 7, "reason": "Error", "finishedAt": "2026-01-01T00:00:05Z"}}})"));
}

TEST(UnschedulableStatus, IsPendingWithTheReasonThatASchedulerGives) {
  EXPECT_EQ(unschedulable_status("no GPU"), json::parse(R"({"phase": "Pending", "conditions": [
      {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no GPU"}]})"));
}

TEST(PodStatus, ShowsWhyAContainerWaits) {
  ContainerState container = waiting();
  container.waiting_reason = "CreateContainerConfigError";
  container.waiting_message = "secret \"s\" not found";
  const json status = pod_status({.init_containers = {}, .containers = {container}});
  EXPECT_EQ(
      status["containerStatuses"][0]["state"],
      json::parse(R"({"waiting": {"reason": "CreateContainerConfigError", "message": "secret \"s\" not found"}})"));
  EXPECT_FALSE(status.contains("initContainerStatuses"));
}

}  // namespace
}  // namespace trainyard::local
