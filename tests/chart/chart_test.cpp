#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "operator/resource/yaml.hpp"
#include "tests/chart/tools.hpp"
#include "tests/skips.hpp"

namespace trainyard::chart {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST(ChartFiles, HoldTheCrdOfTheRepository) {
  EXPECT_EQ(read_file(source_folder() / "charts/trainyard/files/trainingjobs.trainyard.dev.yaml"),
            read_file(source_folder() / "crds/trainingjobs.trainyard.dev.yaml"))
      << "run: cp crds/trainingjobs.trainyard.dev.yaml charts/trainyard/files/";
}

std::vector<json> parse(const std::string& yaml) {
  auto documents = resource::parse_yaml(yaml);
  if (!documents) throw std::runtime_error(documents.error().message);
  return *documents;
}

class Chart : public testing::Test {
 protected:
  void SetUp() override {
    helm_ = tool("helm");
    kubeconform_ = tool("kubeconform");
    schemas_ = tool("schemas");
    if (!helm_.empty() && !kubeconform_.empty() && !schemas_.empty()) return;
    tests::cannot_run("helm, kubeconform or Kubernetes' schemas are missing; scripts/setup cluster installs them");
  }

  [[nodiscard]] Outcome render(const std::string& flags) const {
    // helm built from its module takes itself for one of Kubernetes 1.20.
    return run(
        fmt::format("{} template release charts/trainyard --namespace system --kube-version 1.36.0 {}", helm_, flags));
  }

  [[nodiscard]] std::vector<json> objects(const std::string& flags = "") const {
    const Outcome rendered = render(flags);
    EXPECT_EQ(rendered.exit_code, 0) << rendered.output;
    return rendered.exit_code == 0 ? parse(rendered.output) : std::vector<json>{};
  }

  [[nodiscard]] std::vector<json> objects_of_kind(std::string_view kind, const std::string& flags = "") const {
    std::vector<json> found;
    for (json& object : objects(flags)) {
      if (object.at("kind") == kind) found.push_back(std::move(object));
    }
    return found;
  }

  /// The rules of every role.
  [[nodiscard]] std::map<std::string, json> rules(const std::string& flags) const {
    std::map<std::string, json> found;
    for (const json& object : objects(flags)) {
      if (!object.contains("rules")) continue;
      const std::string kind = object.at("kind");
      found[kind + " " + object.at("metadata").at("name").get<std::string>()] = object.at("rules");
    }
    return found;
  }

  std::string helm_;
  std::string kubeconform_;
  std::string schemas_;
};

TEST_F(Chart, PassesHelmsLint) {
  const Outcome lint = run(helm_ + " lint --strict --quiet charts/trainyard");
  EXPECT_EQ(lint.exit_code, 0) << lint.output;
}

TEST_F(Chart, RendersWhatKubernetesAccepts) {
  const std::vector<std::string> variants{
      "",
      "--set 'namespaces={a,b}'",
      "--set "
      "crd.install=false,rbac.create=false,rbac.aggregate=false,serviceAccount.create=false,serviceAccount.name=own",
      "--set replicas=1,priorityClassName=high --set 'image.pullSecrets={x}' --set 'workerImages.pullSecrets={y,z}'",
      "--set workerImages.cpu=,workerImages.cuda= --set podLabels.a=b,nodeSelector.c=d,serviceAccount.annotations.e=f",
      "--set 'tolerations[0].operator=Exists' --set-json 'affinity={\"podAntiAffinity\":{}}' --set nameOverride=other",
  };
  for (const std::string& flags : variants) {
    const Outcome rendered = render(flags);
    ASSERT_EQ(rendered.exit_code, 0) << rendered.output;
    const Outcome checked = run(fmt::format(
        "{} template release charts/trainyard --namespace system --kube-version 1.36.0 {} | {} -strict -summary "
        "-schema-location {}'/{{{{ .ResourceKind }}}}{{{{ .KindSuffix }}}}.json'",
        helm_, flags, kubeconform_, schemas_));
    EXPECT_EQ(checked.exit_code, 0) << flags << "\n" << checked.output;
    EXPECT_THAT(checked.output, HasSubstr("Invalid: 0, Errors: 0, Skipped: 0")) << flags;
  }
}

TEST_F(Chart, InstallsTheCrdAndKeepsItOnUninstall) {
  const auto crds = objects_of_kind("CustomResourceDefinition");
  ASSERT_EQ(crds.size(), 1U);
  EXPECT_EQ(crds[0].at("metadata").at("annotations"), (json{{"helm.sh/resource-policy", "keep"}}));
  const json source = parse(read_file(source_folder() / "crds/trainingjobs.trainyard.dev.yaml")).at(0);
  EXPECT_EQ(crds[0].at("spec"), source.at("spec"));
  EXPECT_TRUE(objects_of_kind("CustomResourceDefinition", "--set crd.install=false").empty());
}

TEST_F(Chart, RunsTwoOperatorsThatMayDoNothingToTheirNodes) {
  const auto deployments = objects_of_kind("Deployment");
  ASSERT_EQ(deployments.size(), 1U);
  EXPECT_EQ(deployments[0].at("spec").at("replicas"), 2);
  const json& pod = deployments[0].at("spec").at("template").at("spec");
  EXPECT_EQ(pod.at("securityContext"), json::parse(R"({"runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532,
                                                       "seccompProfile": {"type": "RuntimeDefault"}})"));
  const json& container = pod.at("containers").at(0);
  EXPECT_EQ(container.at("securityContext"),
            json::parse(R"({"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                                                             "capabilities": {"drop": ["ALL"]}})"));
  EXPECT_TRUE(container.contains("livenessProbe") && container.contains("readinessProbe"));
  EXPECT_TRUE(container.at("resources").at("limits").contains("memory"));
  EXPECT_EQ(objects_of_kind("PodDisruptionBudget").size(), 1U);
}

TEST_F(Chart, LeavesUserIdsToTheClusterOnOpenShiftOrWhereTheValuesSaySo) {
  struct Case {
    const char* flags;
    bool is_fixed;
  };
  for (const Case& c :
       {Case{"", true}, Case{"--api-versions security.openshift.io/v1", false}, Case{"--set userIds=cluster", false},
        Case{"--set userIds=fixed --api-versions security.openshift.io/v1", true}}) {
    const auto deployments = objects_of_kind("Deployment", c.flags);
    ASSERT_EQ(deployments.size(), 1U) << c.flags;
    const json& pod = deployments[0].at("spec").at("template").at("spec");
    EXPECT_EQ(pod.at("securityContext").contains("runAsUser"), c.is_fixed) << c.flags;
    EXPECT_EQ(pod.at("securityContext").contains("runAsGroup"), c.is_fixed) << c.flags;
    EXPECT_EQ(pod.at("securityContext").at("runAsNonRoot"), true) << c.flags;
    const json& flags = pod.at("containers").at(0).at("args");
    const json expected = c.is_fixed ? "--user-ids=fixed" : "--user-ids=cluster";
    EXPECT_NE(std::ranges::find(flags, expected), flags.end()) << c.flags << flags;
  }
}

TEST_F(Chart, LetsTheLivenessProbeEndAnOperatorThatTheApiServerDoesNotAnswer) {
  const auto deployments = objects_of_kind("Deployment", "--set apiSilenceMaxSeconds=120");
  ASSERT_EQ(deployments.size(), 1U);
  const json& container = deployments[0].at("spec").at("template").at("spec").at("containers").at(0);
  const json& flags = container.at("args");
  EXPECT_NE(std::ranges::find(flags, json("--api-silence-max=120")), flags.end()) << flags;
  EXPECT_EQ(container.at("livenessProbe").at("httpGet"), json::parse(R"({"path": "/healthz", "port": "http"})"));
}

TEST_F(Chart, TellsTheOperatorWhatTheValuesSay) {
  const auto deployments = objects_of_kind("Deployment",
                                           "--set 'namespaces={a,b}' --set workerImages.cpu=w:1,workerImages.cuda=w:2 "
                                           "--set 'workerImages.pullSecrets={x,y}'");
  ASSERT_EQ(deployments.size(), 1U);
  EXPECT_EQ(deployments[0].at("spec").at("template").at("spec").at("containers").at(0).at("args"),
            (json{"--listen=0.0.0.0:8080", "--leader-election-namespace=system", "--user-ids=fixed",
                  "--api-silence-max=300", "--namespaces=a,b", "--worker-image-cpu=w:1", "--worker-image-cuda=w:2",
                  "--worker-pull-secret=x", "--worker-pull-secret=y"}));
}

TEST_F(Chart, GrantsTheOperatorWhatItUsesAndNoMore) {
  const json of_jobs = json::parse(R"([
      {"apiGroups": ["trainyard.dev"], "resources": ["trainingjobs"], "verbs": ["get", "list", "watch", "patch", "delete"]},
      {"apiGroups": ["trainyard.dev"], "resources": ["trainingjobs/status"], "verbs": ["update"]},
      {"apiGroups": [""], "resources": ["pods", "services"], "verbs": ["get", "list", "watch", "create", "delete"]},
      {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
      {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["list", "watch"]}])");
  json of_jobs_and_nodes = of_jobs;
  of_jobs_and_nodes.push_back({{"apiGroups", {""}}, {"resources", {"nodes"}}, {"verbs", {"list", "watch"}}});
  const json of_the_leader = json::parse(R"([
      {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": ["trainyard-operator"],
       "verbs": ["get", "update"]},
      {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]}])");
  EXPECT_EQ(rules("--set rbac.aggregate=false"),
            (std::map<std::string, json>{{"ClusterRole release-operator", of_jobs_and_nodes},
                                         {"Role release-operator-leader", of_the_leader}}));
  EXPECT_EQ(rules("--set rbac.aggregate=false --set 'namespaces={a}'"),
            (std::map<std::string, json>{{"Role release-operator", of_jobs},
                                         {"Role release-operator-leader", of_the_leader}}));
}

TEST_F(Chart, KeepsToTheNamespacesThatAreListed) {
  const std::string flags = "--set 'namespaces={a,b}'";
  EXPECT_TRUE(objects_of_kind("ClusterRoleBinding", flags).empty());
  EXPECT_EQ(objects_of_kind("ClusterRole", flags + " --set rbac.aggregate=false").size(), 0U);
  std::vector<std::string> places;
  for (const json& binding : objects_of_kind("RoleBinding", flags)) {
    places.push_back(binding.at("metadata").at("namespace").get<std::string>() + "/" +
                     binding.at("roleRef").at("name").get<std::string>());
  }
  EXPECT_THAT(places, testing::UnorderedElementsAre("a/release-operator", "b/release-operator",
                                                    "system/release-operator-leader"));
}

TEST_F(Chart, LetsHoldersOfTheClustersRolesUseTrainingJobs) {
  std::vector<std::string> labels;
  for (const json& role : objects_of_kind("ClusterRole")) {
    for (const auto& [name, value] : role.at("metadata").at("labels").items()) {
      if (name.starts_with("rbac.authorization.k8s.io/")) labels.push_back(name.substr(name.find('/') + 1));
    }
  }
  EXPECT_THAT(labels, testing::UnorderedElementsAre("aggregate-to-admin", "aggregate-to-edit", "aggregate-to-view"));
}

struct WrongValue {
  std::string flags;
  std::string said;
};

TEST_F(Chart, RefusesValuesThatCannotBe) {
  const std::vector<WrongValue> table{{"--set replicas=many", "/replicas"},
                                      {"--set replica=1", "replica"},
                                      {"--set image.tag=", "/image/tag"},
                                      {"--set namespaces=a", "/namespaces"},
                                      {"--set 'namespaces={A_B}'", "/namespaces/0"}};
  for (const WrongValue& wrong : table) {
    const Outcome rendered = render(wrong.flags);
    EXPECT_NE(rendered.exit_code, 0) << wrong.flags;
    EXPECT_THAT(rendered.output, HasSubstr(wrong.said)) << wrong.flags;
  }
}

}  // namespace
}  // namespace trainyard::chart
