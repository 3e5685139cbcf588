#include <gmock/gmock.h>
#include <signal.h>

#include "tests/builders/a_job.hpp"
#include "tests/integration/api_test.hpp"
#include "tests/integration/eventually.hpp"
#include "tests/integration/hand_kubelet.hpp"
#include "tests/integration/operator_process.hpp"

namespace trainyard::integration {
namespace {

using kube::json;
using testing::HasSubstr;

/// The real program against a real API server; a HandKubelet stands in for nodes.
class OperatorTest : public ApiTest {
 protected:
  std::unique_ptr<OperatorProcess> start_operator() {
    auto started = OperatorProcess::start(control_plane().kubeconfig(), name_space_, {"--namespaces", name_space_});
    EXPECT_TRUE(started) << started.error().message;
    return *std::move(started);
  }

  void apply(const builders::JobBuilder& job) { apply(job.manifest()); }
  void apply(json manifest) {
    manifest["metadata"]["namespace"] = name_space_;
    const auto created = api_->create(kube::training_jobs, name_space_, manifest, {.is_strict = true});
    ASSERT_TRUE(created) << created.error().message;
  }

  json status(const std::string& job) {
    const auto object = api_->get(kube::training_jobs, name_space_, job);
    return object ? object->value("status", json::object()) : json::object();
  }
  bool is_phase(const std::string& job, const std::string& phase) { return status(job).value("phase", "") == phase; }

  /// Names, sorted, of the pods of an attempt.
  std::vector<std::string> pods(const std::string& job, int attempt) {
    const auto listed = api_->list(kube::pods, {.name_space = name_space_,
                                                .label_selector = "trainyard.dev/job=" + job +
                                                                  ",trainyard.dev/attempt=" + std::to_string(attempt)});
    std::vector<std::string> names;
    if (listed) {
      for (const json& pod : listed->items) names.push_back(pod["metadata"]["name"]);
    }
    return names;
  }
};

builders::JobBuilder a_job(const std::string& name) {
  return builders::a_job().named(name).without_training().container();
}

TEST_F(OperatorTest, TakesAJobThroughALostRankToItsEnd) {
  const auto trainyard_operator = start_operator();
  HandKubelet kubelet{*api_, name_space_};
  apply(a_job("line"));
  ASSERT_TRUE(eventually([&] { return is_phase("line", "Running"); })) << status("line") << trainyard_operator->log();
  const auto first = pods("line", 1);
  ASSERT_EQ(first.size(), 2U);

  const auto ended = kubelet.end(first[1], 1, "ValueError: no such column");
  ASSERT_TRUE(ended) << ended.error().message;
  ASSERT_TRUE(eventually([&] { return status("line").value("attempt", 0) == 2; })) << status("line");
  const json lost = status("line")["attempts"][0];
  EXPECT_EQ(lost.value("cause", ""), "Application");
  EXPECT_EQ(lost.value("rank", -1), 1);
  EXPECT_EQ(lost.value("exitCode", -1), 1);
  EXPECT_THAT(lost.value("message", ""), HasSubstr("no such column"));
  EXPECT_TRUE(api_->get(kube::pods, name_space_, first[1])) << "the culprit's pod is kept for its log";

  ASSERT_TRUE(eventually([&] { return is_phase("line", "Running") && pods("line", 2).size() == 2; })) << status("line");
  for (const std::string& pod : pods("line", 2)) ASSERT_TRUE(kubelet.end(pod, 0));
  ASSERT_TRUE(eventually([&] { return is_phase("line", "Succeeded"); })) << status("line");

  trainyard_operator->signal(SIGTERM);
  EXPECT_EQ(trainyard_operator->wait(), 0) << trainyard_operator->log();
  const auto lease = api_->get(kube::leases, name_space_, "trainyard-operator");
  ASSERT_TRUE(lease) << lease.error().message;
  EXPECT_EQ((*lease)["spec"].value("holderIdentity", "?"), "") << "a clean stop gives the lease back";
}

TEST_F(OperatorTest, LeavesNothingBehindWhenItsJobIsDeleted) {
  const auto trainyard_operator = start_operator();
  HandKubelet kubelet{*api_, name_space_};
  apply(a_job("short"));
  ASSERT_TRUE(eventually([&] { return is_phase("short", "Running"); })) << status("short");
  ASSERT_TRUE(api_->remove(kube::training_jobs, name_space_, "short"));
  EXPECT_TRUE(eventually([&] { return kubelet.pods().empty(); }));
  EXPECT_TRUE(eventually([&] {
    const auto services = api_->list(kube::services, {.name_space = name_space_});
    return services && services->items.empty();
  }));
}

TEST_F(OperatorTest, KeepsADeletedJobUntilItsCheckpointsAreRemoved) {
  const auto trainyard_operator = start_operator();
  HandKubelet kubelet{*api_, name_space_};
  json manifest = builders::a_job().named("trial").container().manifest();
  manifest["metadata"]["finalizers"] = json::array({"example.com/other"});
  manifest["spec"]["checkpoint"] = {{"uri", "s3://models/trial"}, {"onDelete", "Delete"}};
  apply(manifest);
  ASSERT_TRUE(eventually([&] { return is_phase("trial", "Running"); })) << status("trial") << trainyard_operator->log();
  const auto finalizers = [&] {
    const auto job = api_->get(kube::training_jobs, name_space_, "trial");
    return job ? job->at("metadata").value("finalizers", json::array()) : json();
  };
  EXPECT_EQ(finalizers(), (json::array({"example.com/other", "trainyard.dev/checkpoint-clean-up"})));

  ASSERT_TRUE(api_->remove(kube::training_jobs, name_space_, "trial"));
  std::string pod;
  ASSERT_TRUE(eventually([&] {
    for (const json& each : kubelet.pods()) {
      const std::string name = each["metadata"]["name"];
      if (name.ends_with("-cleanup") && each["status"].value("phase", "") == "Running") pod = name;
    }
    return !pod.empty();
  })) << status("trial")
      << trainyard_operator->log();
  EXPECT_EQ(kubelet.pods().size(), 1U) << "the ranks are gone by then";
  EXPECT_TRUE(is_phase("trial", "Deleting"));
  ASSERT_TRUE(kubelet.end(pod, 0, R"({"reason": "Completed", "exitCode": 0})"));
  ASSERT_TRUE(eventually([&] { return finalizers() == json::array({"example.com/other"}); })) << finalizers();
  ASSERT_TRUE(api_->patch(kube::training_jobs, name_space_, "trial", kube::PatchType::merge,
                          {{"metadata", {{"finalizers", nullptr}}}}));
  EXPECT_TRUE(eventually([&] { return kubelet.pods().empty(); }));
}

TEST_F(OperatorTest, ReplacesTheGroupOfAPodWhoseLabelIsTakenOffAndReportsTheNewestLoss) {
  const auto trainyard_operator = start_operator();
  HandKubelet kubelet{*api_, name_space_};
  apply(a_job("bare"));
  for (int attempt = 1; attempt <= 2; ++attempt) {
    ASSERT_TRUE(eventually([&] {
      const json now = status("bare");  // Read once: between two reads the next attempt may begin.
      return now.value("phase", "") == "Running" && now.value("attempt", 0) == attempt;
    })) << status("bare")
        << trainyard_operator->log();
    const json off = {{"metadata", {{"labels", {{"trainyard.dev/job", nullptr}}}}}};
    const std::string pod = pods("bare", attempt).at(1);
    ASSERT_TRUE(api_->patch(kube::pods, name_space_, pod, kube::PatchType::merge, off));
    EXPECT_TRUE(eventually([&] { return !api_->get(kube::pods, name_space_, pod); })) << trainyard_operator->log();
  }
  std::string note;
  EXPECT_TRUE(eventually([&] {
    const auto events = api_->list(
        kube::core_events, {.name_space = name_space_, .field_selector = "involvedObject.name=bare,reason=Restarting"});
    if (events && !events->items.empty()) note = events->items.at(0).value("message", "");
    return note.starts_with("attempt 3 begins");
  })) << note;
}

/// A ValidatingAdmissionPolicy that lets no pod into a namespace.
class ClosedDoor {
 public:
  ClosedDoor(kube::Api& api, const std::string& name_space) : api_{api}, name_{"closed-" + name_space} {
    const json metadata = {{"name", name_}};
    const json rule = {
        {"apiGroups", {""}}, {"apiVersions", {"v1"}}, {"operations", {"CREATE"}}, {"resources", {"pods"}}};
    const json policy = {{"apiVersion", "admissionregistration.k8s.io/v1"},
                         {"kind", "ValidatingAdmissionPolicy"},
                         {"metadata", metadata},
                         {"spec",
                          {{"matchConstraints", {{"resourceRules", json::array({rule})}}},
                           {"validations", json::array({{{"expression", "false"}, {"message", "nobody comes in"}}})}}}};
    const json names = {{"matchLabels", {{"kubernetes.io/metadata.name", name_space}}}};
    const json binding = {
        {"apiVersion", "admissionregistration.k8s.io/v1"},
        {"kind", "ValidatingAdmissionPolicyBinding"},
        {"metadata", metadata},
        {"spec",
         {{"policyName", name_}, {"validationActions", {"Deny"}}, {"matchResources", {{"namespaceSelector", names}}}}}};
    EXPECT_TRUE(api_.create(policies, "", policy));
    EXPECT_TRUE(api_.create(bindings, "", binding));
  }
  ~ClosedDoor() { open(); }
  void open() {
    for (const kube::ResourceType& type : {bindings, policies}) static_cast<void>(api_.remove(type, "", name_));
  }

 private:
  static constexpr kube::ResourceType policies{"admissionregistration.k8s.io", "v1", "validatingadmissionpolicies",
                                               "ValidatingAdmissionPolicy", false};
  static constexpr kube::ResourceType bindings{"admissionregistration.k8s.io", "v1",
                                               "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding",
                                               false};
  kube::Api& api_;
  const std::string name_;
};

TEST_F(OperatorTest, WaitsWhileAPolicyDeniesItsPods) {
  ClosedDoor door{*api_, name_space_};
  const json pod = {{"metadata", {{"name", "probe"}}},
                    {"spec", {{"containers", json::array({{{"name", "c"}, {"image", "i"}}})}}}};
  // The API server applies a new policy after a moment.
  ASSERT_TRUE(eventually([&] { return !api_->create(kube::pods, name_space_, pod, {.is_dry_run = true}); }));
  const auto trainyard_operator = start_operator();
  HandKubelet kubelet{*api_, name_space_};
  apply(a_job("denied"));
  ASSERT_TRUE(eventually([&] { return status("denied").value("reason", "") == "AdmissionRefused"; }))
      << status("denied") << trainyard_operator->log();
  EXPECT_TRUE(is_phase("denied", "Pending"));
  EXPECT_THAT(status("denied").value("message", ""), HasSubstr("nobody comes in"));
  door.open();
  ASSERT_TRUE(eventually([&] { return is_phase("denied", "Running"); })) << status("denied");
  EXPECT_EQ(status("denied").value("restartCount", 0), 0);
}

TEST_F(OperatorTest, MakesSixtyFourPodsEachOnce) {
  const auto trainyard_operator = start_operator();
  HandKubelet kubelet{*api_, name_space_};
  apply(a_job("large").replicas(64));
  EXPECT_TRUE(eventually([&] { return is_phase("large", "Running"); })) << status("large") << trainyard_operator->log();
  EXPECT_EQ(pods("large", 1).size(), 64U);
  EXPECT_EQ(status("large").value("attempt", 0), 1);
}

class LeaderEnds : public OperatorTest, public testing::WithParamInterface<int> {};

TEST_P(LeaderEnds, AndTheStandbyActs) {
  const auto first = start_operator();
  ASSERT_TRUE(eventually([&] { return first->is_leader(); })) << first->log();
  const auto standby = start_operator();
  HandKubelet kubelet{*api_, name_space_};
  apply(a_job("before"));
  ASSERT_TRUE(eventually([&] { return is_phase("before", "Running"); })) << status("before");
  EXPECT_FALSE(standby->is_leader());

  first->signal(GetParam());
  first->wait();
  apply(a_job("after"));
  ASSERT_TRUE(eventually([&] { return is_phase("after", "Running"); })) << standby->log();
  EXPECT_TRUE(standby->is_leader());
  EXPECT_EQ(status("before").value("attempt", 0), 1) << "a change of leaders is no reason to touch a job";
  EXPECT_EQ(pods("before", 1).size(), 2U);
}

INSTANTIATE_TEST_SUITE_P(ByEachSignal, LeaderEnds, testing::Values(SIGKILL, SIGTERM),
                         [](const auto& info) { return info.param == SIGKILL ? "Killed" : "Stopped"; });

}  // namespace
}  // namespace trainyard::integration
