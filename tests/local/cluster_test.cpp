#include "local/cluster.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/temporary_folder.hpp"

namespace trainyard::local {
namespace {

using namespace std::chrono_literals;
using fakes::text_of;
using testing::HasSubstr;

class ClusterTest : public testing::Test {
 protected:
  ClusterTest() {
    options_.kubelet.log_folder = folder_.file("logs");
    options_.kubelet.inherited = {{"PATH", "/usr/bin:/bin"}, {"FOLDER", folder_.path()}};
  }
  Cluster& cluster() {
    if (!cluster_) cluster_ = std::make_unique<Cluster>(clock_, options_);
    return *cluster_;
  }
  /// A job of two ranks that run `script`, with a short pause before restarts.
  static json shell_job(const std::string& script) {
    json job = json::parse(R"({"metadata": {"name": "job"}, "spec": {
        "replicas": 2, "gpusPerPod": 0, "restart": {"backoff": {"initial": "10ms", "max": "10ms"}},
        "template": {"spec": {"terminationGracePeriodSeconds": 5, "containers": [{"name": "worker", "image": "none"}]}}}})");
    job["spec"]["template"]["spec"]["containers"][0]["command"] = {"/bin/sh", "-c", script};
    return job;
  }
  void apply(const json& job) {
    const auto created = cluster().api().create(kube::training_jobs, "default", job);
    ASSERT_TRUE(created) << created.error().message;
  }
  /// The job once `condition` holds; null after a generous time limit.
  json await(const std::function<bool(const json& status)>& condition) {
    json found;
    std::stop_source stop;
    const auto ended = cluster().api().watch(
        kube::training_jobs, {.timeout = 60s},
        [&](const kube::WatchEvent& event) {
          if (!found.is_null() || event.type == kube::WatchEventType::bookmark) return;
          if (!condition(event.object.value("status", json::object()))) return;
          found = event.object;
          stop.request_stop();
        },
        stop.get_token());
    EXPECT_FALSE(found.is_null())
        << "waited in vain; the job is "
        << cluster().api().get(kube::training_jobs, "default", "job").value_or(json{}).dump(2);
    return found.is_null() ? json{{"status", json::object()}} : found;
  }
  json await_phase(const std::string& phase) {
    return await([&](const json& status) { return status.value("phase", "") == phase; })["status"];
  }
  std::string log(int attempt, int rank) const {
    return text_of(folder_.file("logs") / ("attempt-" + std::to_string(attempt)) /
                   ("rank-" + std::to_string(rank) + ".log"));
  }
  void touch(const std::string& name) const { std::ofstream{folder_.file(name)}; }

  fakes::TemporaryFolder folder_;
  SystemClock clock_;
  ClusterOptions options_;
  std::unique_ptr<Cluster> cluster_;
};

TEST_F(ClusterTest, RunsAJobToSuccessWithTheRankEnvironment) {
  apply(shell_job("echo rank $RANK of $WORLD_SIZE meets at $MASTER_ADDR"));
  const json status = await_phase("Succeeded");
  EXPECT_EQ(status["attempt"], 1);
  EXPECT_EQ(log(1, 0), "rank 0 of 2 meets at 127.0.0.1\n");
  EXPECT_EQ(log(1, 1), "rank 1 of 2 meets at 127.0.0.1\n");
}

TEST_F(ClusterTest, ARankThatFailsRestartsTheGroupAndTheStatusNamesIt) {
  apply(shell_job(
      "echo attempt $TRAINYARD_ATTEMPT; [ $TRAINYARD_ATTEMPT = 2 ] && exit 0; [ $RANK = 1 ] && exit 7; sleep 1000"));
  const json status = await_phase("Succeeded");
  EXPECT_EQ(status["attempt"], 2);
  EXPECT_EQ(status["restarts"]["application"], 1);
  const json& first = status["attempts"][0];
  EXPECT_EQ(first["rank"], 1);
  EXPECT_EQ(first["exitCode"], 7);
  EXPECT_EQ(first["cause"], "Application");
  EXPECT_EQ(log(1, 1), "attempt 1\n");  // The others are ended wherever they are.
  EXPECT_EQ(log(2, 1), "attempt 2\n");
}

TEST_F(ClusterTest, ExitCode93FailsTheJobAtOnceWithItsMessage) {
  apply(shell_job("[ $RANK = 0 ] && printf 'no such data' >$TRAINYARD_TERMINATION_LOG && exit 93; sleep 1000"));
  const json status = await_phase("Failed");
  EXPECT_EQ(status["attempt"], 1);
  EXPECT_THAT(status.dump(), HasSubstr("no such data"));
}

TEST_F(ClusterTest, TheBudgetEndsAJobThatAlwaysFails) {
  json job = shell_job("exit 1");
  job["spec"]["restart"]["application"]["max"] = 1;
  apply(job);
  const json status = await_phase("Failed");
  EXPECT_EQ(status["attempt"], 2);
}

TEST_F(ClusterTest, SuspendStopsTheRanksAndResumeStartsTheNextAttempt) {
  apply(shell_job("[ -e $FOLDER/go ] && exit 0; trap 'exit 91' TERM; while :; do sleep 0.01; done"));
  await_phase("Running");
  const auto suspend = [&](bool is_suspended) {
    ASSERT_TRUE(cluster().api().patch(kube::training_jobs, "default", "job", kube::PatchType::merge,
                                      {{"spec", {{"suspend", is_suspended}}}}));
  };
  suspend(true);
  await_phase("Suspended");
  // Ended pods may stay, for their logs.
  const auto pods = cluster().api().list(kube::pods, {}).value();
  for (const auto& pod : pods.items) EXPECT_NE(pod["status"]["phase"], "Running");
  touch("go");
  suspend(false);
  const json status = await_phase("Succeeded");
  EXPECT_EQ(status["attempt"], 2);
  EXPECT_EQ(status["restartCount"], 0);
}

TEST_F(ClusterTest, ADeletedJobTakesItsPodsAndProcessesWithIt) {
  apply(shell_job("trap 'exit 0' TERM; while :; do sleep 0.01; done"));
  await_phase("Running");
  std::stop_source stop;
  ASSERT_TRUE(cluster().api().remove(kube::training_jobs, "default", "job"));
  if (!cluster().api().list(kube::pods, {}).value().items.empty()) {
    const auto ended = cluster().api().watch(
        kube::pods, {.timeout = 60s},
        [&](const kube::WatchEvent& event) {
          if (event.type == kube::WatchEventType::deleted &&
              cluster().api().list(kube::pods, {}).value().items.empty()) {
            stop.request_stop();
          }
        },
        stop.get_token());
  }
  EXPECT_TRUE(cluster().api().list(kube::pods, {}).value().items.empty());
  EXPECT_TRUE(cluster().api().list(kube::services, {}).value().items.empty());
}

TEST_F(ClusterTest, RefusesAWrongJobAsTheServerDoes) {
  json job = shell_job("true");
  job["spec"]["replicas"] = 0;
  job["spec"]["replica"] = 1;
  const auto created = cluster().api().create(kube::training_jobs, "default", job);
  ASSERT_FALSE(created);
  EXPECT_EQ(created.error().kind, ErrorKind::invalid);
  EXPECT_THAT(created.error().message, HasSubstr("spec.replicas"));
  EXPECT_THAT(created.error().message, HasSubstr("spec.replica:"));
}

TEST_F(ClusterTest, AMissingSecretIsShownInTheStatus) {
  json job = shell_job("true");
  job["spec"]["template"]["spec"]["containers"][0]["envFrom"] = json::parse(R"([{"secretRef": {"name": "gone"}}])");
  apply(job);
  const json found = await([](const json& status) { return status.dump().find("gone") != std::string::npos; });
  EXPECT_THAT(found["status"].dump(), HasSubstr("secret \\\"gone\\\" not found"));
}

TEST(LoopbackPorts, AreDistinctAndStay) {
  LoopbackPorts ports;
  std::set<std::uint16_t> seen;
  for (int rank = 0; rank < 100; ++rank) {
    const manifest::PodPlace place{.name_space = "default", .pod = "p-" + std::to_string(rank)};
    const auto address = ports.address_of(place);
    EXPECT_EQ(address, ports.address_of(place));
    seen.insert({address.master_port, address.store_port, address.peer_port, address.status_port});
  }
  EXPECT_EQ(seen.size(), 400U);
}

}  // namespace
}  // namespace trainyard::local
