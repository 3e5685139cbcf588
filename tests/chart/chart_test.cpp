#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/contract.hpp"
#include "api/yaml/yaml.hpp"
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
  auto documents = api::parse_yaml(yaml);
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
    // helm, built from its module, assumes Kubernetes 1.20 unless told otherwise.
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

  [[nodiscard]] json the_operators_container(const std::string& flags) const {
    const auto deployments = objects_of_kind("Deployment", flags);
    EXPECT_EQ(deployments.size(), 1U) << flags;
    return deployments.at(0).at("spec").at("template").at("spec").at("containers").at(0);
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
      std::string{"--set crd.install=false,rbac.create=false,rbac.aggregate=false "} +
          "--set serviceAccount.create=false,serviceAccount.name=o",
      "--set replicas=1,priorityClassName=high --set 'image.pullSecrets={x}' --set 'workerImages.pullSecrets={y,z}'",
      "--set workerImages.cpu=,workerImages.cuda= --set podLabels.a=b,nodeSelector.c=d,serviceAccount.annotations.e=f",
      "--set 'tolerations[0].operator=Exists' --set-json 'affinity={\"podAntiAffinity\":{}}' --set nameOverride=other",
      std::string{
          "--set networkPolicy.create=true,commonLabels.team=a,podLabels.b=c --set 'extraArgs={--kubeconfig=/x}' "} +
          "--set-json 'extraEnv=[{\"name\":\"TZ\",\"value\":\"UTC\"}]'",
      std::string{"--set networkPolicy.create=true --set 'namespaces={a,b}' "} +
          "--set 'networkPolicy.apiServerCidrs={10.0.0.1/32,fd00::1/128}' " +
          "--set-json 'networkPolicy.metricsFrom=[{\"namespaceSelector\":{\"matchLabels\":{\"a\":\"b\"}}}]'",
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

TEST_F(Chart, PassesTheValuesToTheOperatorAsFlags) {
  const auto deployments = objects_of_kind("Deployment",
                                           "--set 'namespaces={a,b}' --set workerImages.cpu=w:1,workerImages.cuda=w:2 "
                                           "--set 'workerImages.pullSecrets={x,y}'");
  ASSERT_EQ(deployments.size(), 1U);
  EXPECT_EQ(
      deployments[0].at("spec").at("template").at("spec").at("containers").at(0).at("args"),
      (json{"--listen=0.0.0.0:8080", "--leader-election-namespace=system", "--user-ids=fixed", "--api-silence-max=300",
            "--workers=4", "--log-level=info", "--namespaces=a,b", "--worker-image-cpu=w:1", "--worker-image-cuda=w:2",
            "--worker-pull-secret=x", "--worker-pull-secret=y"}));
}

TEST_F(Chart, GivesTheOperatorTheFlagsAndVariablesThatAreAdded) {
  const json container = the_operators_container(
      "--set workers=16,logLevel=debug --set 'extraArgs={--kubeconfig=/a b}' "
      "--set-json 'extraEnv=[{\"name\":\"TZ\",\"value\":\"UTC\"}]'");
  const json& flags = container.at("args");
  for (const char* expected : {"--workers=16", "--log-level=debug"}) {
    EXPECT_NE(std::ranges::find(flags, json(expected)), flags.end()) << expected << flags;
  }
  EXPECT_EQ(flags.back(), "--kubeconfig=/a b");
  EXPECT_EQ(container.at("env"), json::parse(R"([{"name": "TZ", "value": "UTC"}])"));
  EXPECT_FALSE(the_operators_container("").contains("env"));
}

// The operator's program refuses most flags when they are given twice, and its pods would never start.
TEST_F(Chart, RefusesAnExtraFlagThatItSetsItself) {
  const json flags = the_operators_container("--set 'namespaces={a}' --set 'workerImages.pullSecrets={x}'").at("args");
  ASSERT_GE(flags.size(), 10U);
  for (const json& given : flags) {
    const std::string flag = given.get<std::string>().substr(0, given.get<std::string>().find('='));
    const Outcome rendered = render(fmt::format("--set 'extraArgs={{{}=1}}'", flag));
    EXPECT_NE(rendered.exit_code, 0) << flag;
    EXPECT_THAT(rendered.output, HasSubstr(fmt::format("extraArgs holds {}, which the chart sets itself: ", flag)));
  }
  for (const char* form : {"--workers", "--workers 1"}) {
    EXPECT_THAT(render(fmt::format("--set 'extraArgs={{{}}}'", form)).output, HasSubstr("set the value workers"))
        << form;
  }
}

TEST_F(Chart, NamesImagesByTheirDigestWhereOneIsGiven) {
  struct Case {
    std::string flags;
    std::string operators;
    json workers;
  };
  const std::string digest = "sha256:" + std::string(64, 'a');
  const std::vector<Case> table{
      {"image.repository=r:5000/o,image.tag=v7",
       "r:5000/o:v7",
       {"localhost/trainyard-worker:dev", "localhost/trainyard-worker:dev-cuda"}},
      {"image.repository=r:5000/o,image.tag=v7,image.digest=" + digest,
       "r:5000/o@" + digest,
       {"localhost/trainyard-worker:dev", "localhost/trainyard-worker:dev-cuda"}},
      {fmt::format("workerImages.cpu=r:5000/w:7,workerImages.cpuDigest={0},workerImages.cudaDigest={0}", digest),
       "localhost/trainyard-operator:dev",
       {"r:5000/w@" + digest, "localhost/trainyard-worker@" + digest}},
      {fmt::format("workerImages.cpu=r:5000/w,workerImages.cpuDigest={},workerImages.cuda=r/w:7@sha256:old,"
                   "workerImages.cudaDigest={}",
                   digest, digest),
       "localhost/trainyard-operator:dev",
       {"r:5000/w@" + digest, "r/w@" + digest}},
  };
  for (const Case& c : table) {
    const json container = the_operators_container("--set " + c.flags);
    EXPECT_EQ(container.at("image"), c.operators);
    json workers = json::array();
    for (const json& flag : container.at("args")) {
      const std::string text = flag.get<std::string>();
      if (text.starts_with("--worker-image-")) workers.push_back(text.substr(text.find('=') + 1));
    }
    EXPECT_EQ(workers, c.workers) << c.flags;
  }
}

TEST_F(Chart, LabelsEveryObjectAsTheValuesSayAndKeepsThePodSelector) {
  const auto plain = objects_of_kind("Deployment");
  const auto labelled = objects(
      "--set commonLabels.team=vision,podLabels.tier=gold,networkPolicy.create=true,"
      "serviceMonitor.create=true,serviceMonitor.labels.release=p");
  ASSERT_EQ(plain.size(), 1U);
  ASSERT_GE(labelled.size(), 12U);
  for (const json& object : labelled) {
    const json& labels = object.at("metadata").at("labels");
    const json& kind = object.at("kind");
    EXPECT_EQ(labels.value("team", ""), "vision") << kind;
    EXPECT_EQ(labels.value("app.kubernetes.io/name", ""), "trainyard-operator") << kind;
    EXPECT_EQ(labels.value("release", ""), kind == "ServiceMonitor" ? "p" : "") << kind;
    if (kind != "Deployment") continue;
    EXPECT_EQ(object.at("spec").at("selector"), plain[0].at("spec").at("selector"));
    const json& of_pods = object.at("spec").at("template").at("metadata").at("labels");
    EXPECT_EQ(of_pods.value("team", ""), "vision");
    EXPECT_EQ(of_pods.value("tier", ""), "gold");
    EXPECT_FALSE(labels.contains("tier"));
  }
}

TEST_F(Chart, AllowsTheOperatorTheConnectionsThatItNeedsOnly) {
  EXPECT_TRUE(objects_of_kind("NetworkPolicy").empty());
  const auto policies = objects_of_kind("NetworkPolicy", "--set networkPolicy.create=true");
  ASSERT_EQ(policies.size(), 1U);
  const json spec = policies[0].at("spec");
  EXPECT_EQ(spec.at("podSelector"), objects_of_kind("Deployment")[0].at("spec").at("selector"));
  EXPECT_EQ(spec.at("policyTypes"), (json{"Ingress", "Egress"}));
  EXPECT_EQ(spec.at("ingress"), json::parse(R"([{"ports": [{"protocol": "TCP", "port": 8080}]}])"));
  EXPECT_EQ(the_operators_container("").at("ports").at(0).at("containerPort"), 8080);
  const json ranks{
      {"ports", {{{"protocol", "TCP"}, {"port", contract::default_status_port}}}},
      {"to",
       {{{"namespaceSelector", json::object()},
         {"podSelector", {{"matchExpressions", {{{"key", contract::label_job}, {"operator", "Exists"}}}}}}}}}};
  json expected = json::parse(R"([
      {"ports": [{"protocol": "TCP", "port": 443}, {"protocol": "TCP", "port": 6443}]},
      {"ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]}])");
  expected.push_back(ranks);
  EXPECT_EQ(spec.at("egress"), expected);
}

TEST_F(Chart, NarrowsTheNetworkPolicyAsTheValuesSay) {
  const auto policies = objects_of_kind(
      "NetworkPolicy",
      "--set networkPolicy.create=true --set 'namespaces={a,b}' --set 'networkPolicy.apiServerPorts={6443}' "
      "--set 'networkPolicy.apiServerCidrs={10.0.0.1/32}' --set 'networkPolicy.dnsPorts={5353}' "
      "--set-json 'networkPolicy.metricsFrom=[{\"podSelector\":{}}]'");
  ASSERT_EQ(policies.size(), 1U);
  const json spec = policies[0].at("spec");
  EXPECT_EQ(spec.at("ingress").at(0).at("from"), json::parse(R"([{"podSelector": {}}])"));
  const json& egress = spec.at("egress");
  EXPECT_EQ(egress.at(0), json::parse(R"({"ports": [{"protocol": "TCP", "port": 6443}],
                                          "to": [{"ipBlock": {"cidr": "10.0.0.1/32"}}]})"));
  EXPECT_EQ(egress.at(1).at("ports"),
            json::parse(R"([{"protocol": "UDP", "port": 5353}, {"protocol": "TCP", "port": 5353}])"));
  EXPECT_EQ(egress.at(2).at("to").at(0).at("namespaceSelector"), json::parse(R"({"matchExpressions": [
                {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["a", "b"]}]})"));
}

TEST_F(Chart, LetsAPrometheusFindTheMetricsByAServiceOfTheirOwn) {
  EXPECT_TRUE(objects_of_kind("ServiceMonitor").empty());
  EXPECT_TRUE(objects_of_kind("Service").empty());
  const std::string flags = "--set serviceMonitor.create=true,serviceMonitor.intervalSeconds=15";
  const auto monitors = objects_of_kind("ServiceMonitor", flags);
  const auto services = objects_of_kind("Service", flags);
  ASSERT_EQ(monitors.size(), 1U);
  ASSERT_EQ(services.size(), 1U);
  const json selected = objects_of_kind("Deployment")[0].at("spec").at("selector").at("matchLabels");
  EXPECT_EQ(monitors[0].at("apiVersion"), "monitoring.coreos.com/v1");
  EXPECT_EQ(monitors[0].at("spec"),
            (json{{"namespaceSelector", {{"matchNames", {"system"}}}},
                  {"selector", {{"matchLabels", selected}}},
                  {"endpoints", {{{"port", "http"}, {"path", "/metrics"}, {"interval", "15s"}}}}}));
  // A ServiceMonitor selects Services by their labels, and its port by the name that the Service gives it.
  json of_service = services[0].at("metadata").at("labels");
  for (const auto& [label, value] : selected.items()) EXPECT_EQ(of_service.value(label, ""), value) << label;
  EXPECT_EQ(services[0].at("spec"), (json{{"clusterIP", "None"},
                                          {"publishNotReadyAddresses", true},
                                          {"selector", selected},
                                          {"ports", {{{"name", "http"}, {"port", 8080}, {"targetPort", "http"}}}}}));
  // kubeconform has no schema of the kind ServiceMonitor.
  const Outcome checked = run(fmt::format(
      "{} template release charts/trainyard --kube-version 1.36.0 {} | {} -strict -summary -skip ServiceMonitor "
      "-schema-location {}'/{{{{ .ResourceKind }}}}{{{{ .KindSuffix }}}}.json'",
      helm_, flags, kubeconform_, schemas_));
  EXPECT_THAT(checked.output, HasSubstr("Invalid: 0, Errors: 0, Skipped: 1"));
}

TEST_F(Chart, GrantsTheOperatorWhatItUsesAndNoMore) {
  const json of_jobs = json::parse(R"([
      {"apiGroups": ["trainyard.dev"], "resources": ["trainingjobs"], "verbs": ["get", "list", "watch", "patch", "delete"]},
      {"apiGroups": ["trainyard.dev"], "resources": ["trainingjobs/status"], "verbs": ["update"]},
      {"apiGroups": [""], "resources": ["pods", "services"], "verbs": ["get", "list", "watch", "create", "delete"]},
      {"apiGroups": [""], "resources": ["services"], "verbs": ["patch"]},
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

// helm lists all that its schema refuses, so one call shows each.
TEST_F(Chart, RefusesValuesThatCannotBeAndNamesEach) {
  const std::vector<WrongValue> table{
      {"--set replicas=many", "at '/replicas': got string, want integer"},
      {"--set replica=1", "additional properties 'replica' not allowed"},
      {"--set image.tag=", "at '/image/tag'"},
      {"--set 'namespaces={A_B}'", "at '/namespaces/0'"},
      {"--set logLevel=loud", "at '/logLevel': value must be one of 'debug', 'info', 'warn', 'error'"},
      {"--set workers=0", "at '/workers': minimum: got 0, want 1"},
      {"--set extraArgs=--kubeconfig", "at '/extraArgs': got string, want array"},
      {"--set 'extraEnv[0].value=x'", "at '/extraEnv/0': missing property 'name'"},
      {"--set 'extraEnv[1].name=1X'", "at '/extraEnv/1/name'"},
      {"--set commonLabels.a=b/c", "at '/commonLabels/a'"},
      {"--set podLabels.a=b/c", "at '/podLabels/a'"},
      {"--set image.digest=latest", "at '/image/digest'"},
      {"--set workerImages.cpuDigest=sha256:abc", "at '/workerImages/cpuDigest'"},
      {"--set workerImages.cudaDigest=sha256:" + std::string(63, 'a'), "at '/workerImages/cudaDigest'"},
      {"--set networkPolicy.enabled=true", "at '/networkPolicy': additional properties 'enabled' not allowed"},
      {"--set-json 'networkPolicy.apiServerPorts=[]'", "at '/networkPolicy/apiServerPorts': minItems: got 0, want 1"},
      {"--set 'networkPolicy.dnsPorts={70000}'", "at '/networkPolicy/dnsPorts/0': maximum: got 70,000, want 65,535"},
      {"--set 'networkPolicy.apiServerCidrs={kubernetes}'", "at '/networkPolicy/apiServerCidrs/0'"},
      {"--set 'networkPolicy.metricsFrom[0].pods=x'",
       "at '/networkPolicy/metricsFrom/0': additional properties 'pods'"},
      {"--set serviceMonitor.create=yes", "at '/serviceMonitor/create': got string, want boolean"},
      {"--set serviceMonitor.labels.a=b/c", "at '/serviceMonitor/labels/a'"},
      {"--set serviceMonitor.intervalSeconds=0", "at '/serviceMonitor/intervalSeconds': minimum: got 0, want 1"}};
  std::string flags;
  for (const WrongValue& wrong : table) flags += wrong.flags + " ";
  const Outcome rendered = render(flags);
  EXPECT_NE(rendered.exit_code, 0);
  for (const WrongValue& wrong : table) EXPECT_THAT(rendered.output, HasSubstr(wrong.said)) << wrong.flags;
}

TEST_F(Chart, RefusesValuesThatDoNotGoTogether) {
  const std::vector<WrongValue> table{
      {"--set namespaces=a", "at '/namespaces': got string, want array"},
      {"--set 'commonLabels.helm\\.sh/chart=x'",
       "commonLabels holds helm.sh/chart, which the chart sets itself: leave it out"},
      {"--set 'podLabels.app\\.kubernetes\\.io/name=x'",
       "podLabels holds app.kubernetes.io/name, which the chart sets itself"},
      {"--set serviceMonitor.create=true --set 'serviceMonitor.labels.app\\.kubernetes\\.io/name=x'",
       "serviceMonitor.labels holds app.kubernetes.io/name, which the chart sets itself"},
      {"--set workerImages.cuda=,workerImages.cudaDigest=sha256:" + std::string(64, '0'),
       "workerImages.cudaDigest is set, but workerImages.cuda, the image that it belongs to, is empty"}};
  for (const WrongValue& wrong : table) {
    const Outcome rendered = render(wrong.flags);
    EXPECT_NE(rendered.exit_code, 0) << wrong.flags;
    EXPECT_THAT(rendered.output, HasSubstr(wrong.said)) << wrong.flags;
  }
}

}  // namespace
}  // namespace trainyard::chart
