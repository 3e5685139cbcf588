#include "operator/manager/controller.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "local/memory_api.hpp"
#include "tests/fakes/faulty_api.hpp"

namespace trainyard::manager {
namespace {

using kube::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

json job(const std::string& name, const std::string& name_space = "ns") {
  return {{"apiVersion", "trainyard.dev/v1alpha1"},
          {"kind", "TrainingJob"},
          {"metadata", {{"name", name}, {"namespace", name_space}}},
          {"spec",
           {{"replicas", 2},
            {"gpusPerPod", 0},
            {"template", {{"spec", {{"containers", {{{"name", "worker"}, {"image", "none"}}}}}}}}}}};
}

class ControllerTest : public testing::Test {
 protected:
  static bool eventually(const std::function<bool()>& is) {
    const auto deadline = std::chrono::steady_clock::now() + seconds{60};
    while (!is()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }
  std::size_t pods(const std::string& name_space = "ns") {
    return api_.list(kube::pods, {.name_space = name_space})->items.size();
  }
  std::unique_ptr<Controller> start(ControllerOptions options = {}) {
    options.call_rank = [](const std::string&, const auto& /*post*/, milliseconds) {
      return fail(ErrorKind::unavailable, "no rank 0 here");
    };
    return std::make_unique<Controller>(api_, clock_, std::move(options), counters_);
  }
  json status() { return api_.get(kube::training_jobs, "ns", "a")->value("status", json::object()); }
  /// Creates the job "a" in a form that the operator cannot read.
  void create_unreadable_job() {
    json unreadable = job("a");
    unreadable["spec"]["replicas"] = "many";
    ASSERT_TRUE(api_.create(kube::training_jobs, "ns", unreadable));
  }
  /// Creates the job "a", and returns once `controller` knows that a pod of it is on the node "node".
  void run_job_on_node(Controller& controller) {
    ASSERT_TRUE(api_.create(kube::training_jobs, "ns", job("a")));
    ASSERT_TRUE(eventually([&] { return status().value("formed", false); }));
    json pod = api_.list(kube::pods, {.name_space = "ns"})->items.front();
    pod["spec"]["nodeName"] = "node";
    ASSERT_TRUE(api_.update(kube::pods, "ns", pod));
    ASSERT_TRUE(eventually([&] { return controller.caches().pods.on_node("node").size() == 1; }));
  }

  const SystemClock clock_{};
  local::MemoryApi api_{clock_};
  Counters counters_;
};

TEST_F(ControllerTest, MakesThePodsOfAJobThatWasThereBeforeItAndOfOneThatComesLater) {
  ASSERT_TRUE(api_.create(kube::training_jobs, "ns", job("before")));
  const auto controller = start();
  EXPECT_TRUE(eventually([&] { return pods() == 2; }));
  ASSERT_TRUE(api_.create(kube::training_jobs, "ns", job("later")));
  EXPECT_TRUE(eventually([&] { return pods() == 4; }));
  EXPECT_TRUE(controller->is_synced());
  EXPECT_GE(counters_.reconciles, 2);
  EXPECT_EQ(controller->caches().jobs.size(), 2U);
}

TEST_F(ControllerTest, ReplacesAGroupWhenAPodVanishes) {
  const auto controller = start();
  ASSERT_TRUE(api_.create(kube::training_jobs, "ns", job("a")));
  const auto attempt_of_all = [&](const std::string& attempt) {
    const auto listed = api_.list(kube::pods, {.name_space = "ns"});
    std::size_t count = 0;
    for (const json& pod : listed->items)
      count += pod["metadata"]["labels"]["trainyard.dev/attempt"] == attempt ? 1 : 0;
    return count == 2;
  };
  ASSERT_TRUE(eventually([&] { return attempt_of_all("1"); }));
  ASSERT_TRUE(eventually([&] { return (*api_.get(kube::training_jobs, "ns", "a"))["status"].value("formed", false); }));
  const auto first = api_.list(kube::pods, {.name_space = "ns"})->items.front()["metadata"]["name"].get<std::string>();
  ASSERT_TRUE(api_.remove(kube::pods, "ns", first));
  EXPECT_TRUE(
      eventually([&] { return (*api_.get(kube::training_jobs, "ns", "a"))["status"].value("attempt", 0) == 2; }));
}

TEST_F(ControllerTest, ReplacesAGroupWhenANodeIsLost) {
  const auto node = [](const std::string& status) -> json {
    return {{"apiVersion", "v1"},
            {"kind", "Node"},
            {"metadata", {{"name", "node"}}},
            {"status", {{"conditions", json::array({{{"type", "Ready"}, {"status", status}}})}}}};
  };
  ASSERT_TRUE(api_.create(kube::nodes, "", node("True")));
  ASSERT_TRUE(api_.update_status(kube::nodes, "", node("True")));
  const auto controller = start();
  ASSERT_NO_FATAL_FAILURE(run_job_on_node(*controller));
  ASSERT_TRUE(api_.update_status(kube::nodes, "", node("Unknown")));
  EXPECT_TRUE(eventually([&] { return status().value("attempt", 0) == 2; }));
}

TEST_F(ControllerTest, ReconcilesTheJobsOfANodeThatIsRemoved) {
  const json node{{"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", {{"name", "node"}}}};
  json ready = node;
  ready["status"]["conditions"] = json::array({{{"type", "Ready"}, {"status", "True"}}});
  ASSERT_TRUE(api_.create(kube::nodes, "", node));
  ASSERT_TRUE(api_.update_status(kube::nodes, "", ready));
  const auto controller = start();
  ASSERT_NO_FATAL_FAILURE(run_job_on_node(*controller));
  ASSERT_TRUE(eventually([&] { return controller->queue_size() == 0; }));
  const std::int64_t reconciles = counters_.reconciles;
  ASSERT_TRUE(api_.remove(kube::nodes, "", "node"));
  EXPECT_TRUE(eventually([&] { return counters_.reconciles > reconciles; }));
}

TEST_F(ControllerTest, MakesAServiceAgainThatSomebodyDeleted) {
  const auto controller = start();
  ASSERT_TRUE(api_.create(kube::training_jobs, "ns", job("a")));
  ASSERT_TRUE(eventually([&] { return status().value("formed", false); }));
  ASSERT_TRUE(eventually([&] { return controller->queue_size() == 0; }));
  const auto services = [&] { return api_.list(kube::services, {.name_space = "ns"})->items; };
  ASSERT_EQ(services().size(), 1U);
  // More than once, because the first time a late event of the pods may wake a worker.
  for (int round = 0; round < 3; ++round) {
    const json before = services()[0]["metadata"];
    ASSERT_TRUE(api_.remove(kube::services, "ns", before["name"].get<std::string>()));
    ASSERT_TRUE(
        eventually([&] { return services().size() == 1 && services()[0]["metadata"]["uid"] != before["uid"]; }));
  }
}

TEST_F(ControllerTest, CountsWhatItsMetricsShow) {
  fakes::FaultyApi refusing{api_};
  refusing.set_schedule([](const fakes::ApiCall& call) -> std::optional<fakes::Fault> {
    if (call.verb != "update status") return std::nullopt;
    return fakes::Fault{.error = {ErrorKind::internal, "no"}};
  });
  ASSERT_TRUE(api_.create(kube::training_jobs, "ns", job("a")));
  const Controller controller{refusing, clock_, {}, counters_};
  EXPECT_TRUE(eventually([&] { return counters_.reconcile_errors >= 1; }));
  EXPECT_GE(counters_.reconciles, 1);
  EXPECT_EQ(controller.jobs_by_phase(), (std::map<api::Phase, std::int64_t>{{api::Phase::none, 1}}));
}

TEST_F(ControllerTest, IsWokenByAPodWhoseLabelNamesAnotherJob) {
  const auto controller = start();
  ASSERT_TRUE(api_.create(kube::training_jobs, "ns", job("a")));
  ASSERT_TRUE(eventually([&] { return status().value("formed", false); }));
  const std::string pod = api_.list(kube::pods, {.name_space = "ns"})->items.front()["metadata"]["name"];
  const json other = {{"metadata", {{"labels", {{"trainyard.dev/job", "other"}}}}}};
  ASSERT_TRUE(api_.patch(kube::pods, "ns", pod, kube::PatchType::merge, other));
  ASSERT_TRUE(api_.remove(kube::pods, "ns", pod));
  EXPECT_TRUE(eventually([&] { return status().value("attempt", 0) == 2; }));
}

TEST_F(ControllerTest, SaysWhyTheVolumesOfAPodDoNotMount) {
  const auto controller = start();
  ASSERT_TRUE(api_.create(kube::training_jobs, "ns", job("a")));
  ASSERT_TRUE(eventually([&] { return pods() == 2; }));
  json pod = api_.list(kube::pods, {.name_space = "ns"})->items.front();
  pod["spec"]["nodeName"] = "node";
  pod["status"] = {
      {"phase", "Pending"},
      {"containerStatuses", {{{"name", "worker"}, {"state", {{"waiting", {{"reason", "ContainerCreating"}}}}}}}}};
  auto bound = api_.update(kube::pods, "ns", pod);
  ASSERT_TRUE(bound) << bound.error().message;
  pod["metadata"] = (*bound)["metadata"];
  ASSERT_TRUE(api_.update_status(kube::pods, "ns", pod));
  ASSERT_TRUE(api_.create(
      kube::events, "ns",
      {{"apiVersion", "events.k8s.io/v1"},
       {"kind", "Event"},
       {"metadata", {{"name", "e"}, {"namespace", "ns"}}},
       {"reason", "FailedMount"},
       {"note", R"(MountVolume.SetUp failed for volume "keys" : secret "keys" not found)"},
       {"regarding", {{"kind", "Pod"}, {"name", pod["metadata"]["name"]}, {"uid", pod["metadata"]["uid"]}}}}));
  EXPECT_TRUE(eventually(
      [&] { return (*api_.get(kube::training_jobs, "ns", "a"))["status"].value("reason", "") == "SecretMissing"; }));
}

TEST_F(ControllerTest, ReportsAJobThatItCannotReadInAnEvent) {
  ASSERT_NO_FATAL_FAILURE(create_unreadable_job());
  const auto controller = start();
  const auto events = [&] { return api_.list(kube::core_events, {.name_space = "ns"})->items; };
  ASSERT_TRUE(eventually([&] { return !events().empty(); }));
  EXPECT_EQ(events()[0].at("reason"), "Unreadable");
  EXPECT_EQ(events()[0].at("type"), "Warning");
  EXPECT_EQ(events()[0].at("involvedObject").at("name"), "a");
  const std::string message = events()[0].at("message");
  EXPECT_NE(message.find("spec.replicas"), std::string::npos) << message;
}

TEST_F(ControllerTest, TriesAgainSoonAfterEveryFailureOfAJobThatAdvances) {
  fakes::FaultyApi throttling{api_};
  int creates = 0;
  throttling.set_schedule([&creates](const fakes::ApiCall& call) -> std::optional<fakes::Fault> {
    if (call.verb != "create" || call.plural != "pods" || call.is_dry_run || ++creates % 2 == 1) return std::nullopt;
    return fakes::Fault{.error = {ErrorKind::throttled, "slow down"}};
  });
  json many = job("a");
  many["spec"]["replicas"] = 20;
  ASSERT_TRUE(api_.create(kube::training_jobs, "ns", many));
  ControllerOptions options;
  // One create succeeds in each round. Without it, 19 failures in a row would make the pause an hour and a half.
  options.reconciler.pod_calls_at_once_max = 1;
  options.queue.backoff = {.initial = milliseconds{10}, .max = std::chrono::hours{10}};
  const Controller controller{throttling, clock_, std::move(options), counters_};
  EXPECT_TRUE(eventually([&] { return pods() == 20; }));
}

TEST_F(ControllerTest, KeepsToItsNamespaces) {
  ASSERT_TRUE(api_.create(kube::training_jobs, "other", job("a", "other")));
  ASSERT_TRUE(api_.create(kube::training_jobs, "ns", job("a")));
  ASSERT_TRUE(api_.create(kube::training_jobs, "ns2", job("a", "ns2")));
  const auto controller = start({.namespaces = {"ns", "ns2"}, .is_watching_nodes = false});
  EXPECT_TRUE(eventually([&] { return pods("ns") == 2 && pods("ns2") == 2; }));
  EXPECT_EQ(pods("other"), 0U);
  EXPECT_EQ(controller->caches().jobs.size(), 2U);
}

TEST_F(ControllerTest, KeepsInMindOnlyThePodsAndServicesOfJobsInItsNamespaces) {
  const auto add = [&](const std::string& name_space, const std::string& name, const json& labels) {
    const json metadata{{"name", name}, {"namespace", name_space}, {"labels", labels}};
    const json containers = json::array({{{"name", "worker"}, {"image", "i"}}});
    ASSERT_TRUE(api_.create(kube::pods, name_space, {{"metadata", metadata}, {"spec", {{"containers", containers}}}}));
    ASSERT_TRUE(api_.create(kube::services, name_space, {{"metadata", metadata}}));
  };
  const json of_a_job{{"trainyard.dev/job", "a"}};
  add("ns", "ours", of_a_job);
  add("ns", "a-stranger", json::object());
  add("other", "elsewhere", of_a_job);
  ASSERT_TRUE(api_.create(kube::nodes, "", {{"metadata", {{"name", "node"}}}}));
  const auto controller = start({.namespaces = {"ns"}, .is_watching_nodes = false});
  ASSERT_TRUE(eventually([&] { return controller->is_synced(); }));
  EXPECT_EQ(controller->caches().nodes.size(), 0U) << "an operator of namespaces may not read nodes";
  const std::vector<control::ObjectKey> expected{{"ns", "ours"}};
  EXPECT_EQ(controller->caches().pods.keys(), expected);
  EXPECT_EQ(controller->caches().services.keys(), expected);
}

TEST_F(ControllerTest, TriesAgainToReportAJobThatItCannotRead) {
  fakes::FaultyApi refusing{api_};
  std::atomic<int> events = 0;
  refusing.set_schedule([&events](const fakes::ApiCall& call) -> std::optional<fakes::Fault> {
    if (call.verb != "create" || call.plural != "events" || ++events > 2) return std::nullopt;
    return fakes::Fault{};
  });
  ASSERT_NO_FATAL_FAILURE(create_unreadable_job());
  ControllerOptions options;
  options.queue.backoff = {.initial = milliseconds{1}, .max = milliseconds{2}};
  const Controller controller{refusing, clock_, std::move(options), counters_};
  EXPECT_TRUE(eventually([&] { return !api_.list(kube::core_events, {.name_space = "ns"})->items.empty(); }));
}

TEST_F(ControllerTest, TriesAgainNoSoonerThanTheServerAsksFor) {
  constexpr milliseconds asked{300};
  fakes::FaultyApi throttling{api_};
  std::mutex mutex;
  std::vector<std::chrono::steady_clock::time_point> tries;
  throttling.set_schedule([&](const fakes::ApiCall& call) -> std::optional<fakes::Fault> {
    if (call.verb != "create" || call.plural != "events") return std::nullopt;
    const std::scoped_lock lock{mutex};
    tries.push_back(std::chrono::steady_clock::now());
    if (tries.size() > 1) return std::nullopt;
    return fakes::Fault{.error = {.kind = ErrorKind::throttled, .message = "slow down", .retry_after = asked}};
  });
  // Nothing else wakes an unreadable job: the operator writes no status of it.
  ASSERT_NO_FATAL_FAILURE(create_unreadable_job());
  ControllerOptions options;
  options.queue.backoff = {.initial = milliseconds{1}, .max = milliseconds{2}};
  const Controller controller{throttling, clock_, std::move(options), counters_};
  ASSERT_TRUE(eventually([&] { return !api_.list(kube::core_events, {.name_space = "ns"})->items.empty(); }));
  const std::scoped_lock lock{mutex};
  ASSERT_EQ(tries.size(), 2U);
  EXPECT_GE(tries[1] - tries[0], asked);
}

TEST_F(ControllerTest, MakesPodsWithoutTheRightToListEventsOrNodes) {
  ASSERT_TRUE(api_.create(kube::training_jobs, "ns", job("a")));
  for (const std::string plural : {"events", "nodes"}) {
    fakes::FaultyApi refusing{api_};
    refusing.set_schedule([&](const fakes::ApiCall& call) -> std::optional<fakes::Fault> {
      if (call.verb != "list" || call.plural != plural) return std::nullopt;
      return fakes::Fault{.error = {ErrorKind::forbidden, "no right"}};
    });
    const Controller controller{refusing, clock_, {.is_watching_nodes = true}, counters_};
    EXPECT_TRUE(eventually([&] { return controller.is_synced() && pods() == 2; })) << plural;
  }
}

TEST_F(ControllerTest, LeavesAJobThatItCanNeitherReadNorReport) {
  ASSERT_NO_FATAL_FAILURE(create_unreadable_job());
  for (const ErrorKind kind : {ErrorKind::forbidden, ErrorKind::not_found}) {
    fakes::FaultyApi refusing{api_};
    refusing.set_schedule([=](const fakes::ApiCall& call) -> std::optional<fakes::Fault> {
      if (call.verb != "create") return std::nullopt;
      return fakes::Fault{.error = {kind, "no right"}};
    });
    Counters counters;
    {
      const Controller controller{refusing, clock_, {}, counters};
      EXPECT_TRUE(eventually([&] { return counters.reconciles >= 1; }));
    }
    EXPECT_EQ(counters.reconcile_errors, 0) << "it would be tried for ever";
    EXPECT_EQ(pods(), 0U);
  }
}

TEST_F(ControllerTest, ReconcilesEachJobNowAndThenAlthoughNothingChanges) {
  ASSERT_TRUE(api_.create(kube::training_jobs, "ns", job("a")));
  const auto controller = start({.resync_interval = milliseconds{1}});
  EXPECT_TRUE(eventually([&] { return counters_.reconciles >= 100; }));
}

TEST_F(ControllerTest, EndsWhileItIsAtWork) {
  for (int count = 0; count < 10; ++count)
    ASSERT_TRUE(api_.create(kube::training_jobs, "ns", job("job" + std::to_string(count))));
  for (int round = 0; round < 5; ++round) start();
  const auto controller = start();
  EXPECT_TRUE(eventually([&] { return pods() == 20; })) << "the next one goes on where the last one was";
}

}  // namespace
}  // namespace trainyard::manager
