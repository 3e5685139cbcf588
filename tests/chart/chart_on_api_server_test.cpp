#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/chart/tools.hpp"
#include "tests/cluster/control_plane.hpp"

namespace trainyard::chart {
namespace {

using testing::HasSubstr;
using testing::Not;

class ChartOnApiServer : public cluster::ControlPlaneTest {
 protected:
  void SetUp() override {
    ControlPlaneTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    // A fresh cluster does not have the definition: the chart installs it, and the next tests find it as it was kept.
    static bool is_deleted = false;
    if (std::exchange(is_deleted, true)) return;
    const auto gone =
        control_plane().kubectl({"delete", "crd", "trainingjobs.trainyard.dev", "--ignore-not-found", "--timeout=60s"});
    ASSERT_TRUE(gone) << gone.error().message;
  }
  void TearDown() override {
    if (IsSkipped() || HasFatalFailure()) return;
    static_cast<void>(helm("uninstall trainyard --namespace trainyard-system --wait --timeout 2m"));
  }

  /// A call that gets no answer ends with 124, so that the test says which.
  static Outcome helm(const std::string& arguments) {
    return run(fmt::format("timeout 150 {} --kubeconfig '{}' {}", tool("helm"), control_plane().kubeconfig().string(),
                           arguments));
  }

  static Outcome install(const std::string& flags = "") {
    return helm("install trainyard charts/trainyard --namespace trainyard-system --create-namespace " + flags);
  }

  /// The output of kubectl, or its error.
  static std::string kubectl(std::vector<std::string> arguments) {
    arguments.emplace_back("--request-timeout=60s");
    const auto printed = control_plane().kubectl(arguments);
    return printed ? *printed : printed.error().message;
  }

  /// "yes\n" if the operator may do `verb` to `resource` (or "resource/subresource") there.
  static std::string can(const std::string& verb, const std::string& resource, const std::string& name_space,
                         const std::string& name = "") {
    const std::size_t slash = std::min(resource.find('/'), resource.size());
    // kubectl would take "pods/exec" for a pod named exec.
    return kubectl({"auth", "can-i", verb, resource.substr(0, slash) + (name.empty() ? "" : "/" + name),
                    "--subresource", resource.substr(std::min(slash + 1, resource.size())), "--namespace", name_space,
                    "--as", "system:serviceaccount:trainyard-system:trainyard-operator"});
  }
};

TEST_F(ChartOnApiServer, InstallsPrintsTheNextCommandsAndKeepsTheApiWhenUninstalled) {
  const Outcome installed = install();
  ASSERT_EQ(installed.exit_code, 0) << installed.output;
  EXPECT_THAT(installed.output, HasSubstr("kubectl -n trainyard-system rollout status deployment/trainyard-operator"));
  EXPECT_THAT(installed.output, HasSubstr("kubectl apply -f examples/smoke.yaml"));
  EXPECT_THAT(installed.output, HasSubstr("kubectl get tj smoke --watch"));
  EXPECT_THAT(installed.output, HasSubstr("in no registry: localhost/trainyard-operator:dev, "));
  EXPECT_THAT(kubectl({"get", "deployment", "trainyard-operator", "--namespace", "trainyard-system"}),
              HasSubstr("trainyard-operator"));
  const Outcome gone = helm("uninstall trainyard --namespace trainyard-system --wait --timeout 2m");
  ASSERT_EQ(gone.exit_code, 0) << gone.output;
  EXPECT_THAT(kubectl({"get", "crd", "trainingjobs.trainyard.dev"}), Not(HasSubstr("NotFound")));
  // A release of this name can be installed again.
  const Outcome again = install("--set image.repository=r/o,workerImages.cpu=r/w:1,workerImages.cuda=");
  EXPECT_EQ(again.exit_code, 0) << again.output;
  EXPECT_THAT(again.output, Not(HasSubstr("in no registry")));
}

TEST_F(ChartOnApiServer, LetsTheOperatorDoItsWorkAndNoMore) {
  const Outcome installed = install();
  ASSERT_EQ(installed.exit_code, 0) << installed.output;
  for (const auto& [verb, resource] :
       std::vector<std::pair<std::string, std::string>>{{"watch", "trainingjobs.trainyard.dev"},
                                                        {"update", "trainingjobs.trainyard.dev/status"},
                                                        {"delete", "trainingjobs.trainyard.dev"},
                                                        {"patch", "trainingjobs.trainyard.dev"},
                                                        {"create", "pods"},
                                                        {"delete", "pods"},
                                                        {"create", "services"},
                                                        {"patch", "services"},
                                                        {"create", "events"},
                                                        {"patch", "events"},
                                                        {"watch", "events.events.k8s.io"},
                                                        {"watch", "nodes"}}) {
    EXPECT_THAT(can(verb, resource, "default"), HasSubstr("yes")) << verb << " " << resource;
  }
  EXPECT_THAT(can("update", "leases.coordination.k8s.io", "trainyard-system", "trainyard-operator"), HasSubstr("yes"));
  EXPECT_THAT(can("update", "leases.coordination.k8s.io", "trainyard-system", "other"), Not(HasSubstr("yes")));
  for (const auto& [verb, resource] :
       std::vector<std::pair<std::string, std::string>>{{"get", "secrets"},
                                                        {"list", "secrets"},
                                                        {"create", "trainingjobs.trainyard.dev"},
                                                        {"update", "trainingjobs.trainyard.dev"},
                                                        {"update", "leases.coordination.k8s.io"},
                                                        {"create", "pods/exec"},
                                                        {"patch", "pods"},
                                                        {"delete", "nodes"}}) {
    EXPECT_THAT(can(verb, resource, "default"), Not(HasSubstr("yes"))) << verb << " " << resource;
  }
}

TEST_F(ChartOnApiServer, TakesThePolicyTheLabelsAndTheVariablesThatMayBeAdded) {
  const Outcome installed = install(
      "--set networkPolicy.create=true,commonLabels.team=vision,podLabels.tier=gold,extraEnv[0].name=TZ,extraEnv[0]."
      "value=UTC --set 'networkPolicy.apiServerCidrs={10.0.0.1/32}' --set 'extraArgs={--kubeconfig=/x}' --set "
      "image.digest=sha256:" +
      std::string(64, 'a'));
  ASSERT_EQ(installed.exit_code, 0) << installed.output;
  const std::string kept = kubectl({"get", "networkpolicies,deployments,crds,clusterroles", "--selector", "team=vision",
                                    "--namespace", "trainyard-system", "--output", "name"});
  for (const char* object : {"networkpolicy.networking.k8s.io/trainyard-operator", "deployment.apps/trainyard-operator",
                             "customresourcedefinition.apiextensions.k8s.io/trainingjobs.trainyard.dev",
                             "clusterrole.rbac.authorization.k8s.io/trainyard-operator"}) {
    EXPECT_THAT(kept, HasSubstr(object));
  }
}

TEST_F(ChartOnApiServer, SaysThatTheClusterDoesNotKnowServiceMonitors) {
  const Outcome installed = install("--set serviceMonitor.create=true");
  EXPECT_NE(installed.exit_code, 0);
  EXPECT_THAT(installed.output,
              HasSubstr("no matches for kind \"ServiceMonitor\" in version \"monitoring.coreos.com/v1\""));
}

TEST_F(ChartOnApiServer, KeepsTheOperatorInsideItsNamespaces) {
  const auto inside = control_plane().create_namespace("inside");
  ASSERT_TRUE(inside) << inside.error().message;
  const Outcome installed = install(fmt::format("--set 'namespaces={{{}}}'", *inside));
  ASSERT_EQ(installed.exit_code, 0) << installed.output;
  EXPECT_THAT(can("create", "pods", *inside), HasSubstr("yes"));
  EXPECT_THAT(can("create", "pods", "default"), Not(HasSubstr("yes")));
  EXPECT_THAT(can("list", "nodes", *inside), Not(HasSubstr("yes")));
}

}  // namespace
}  // namespace trainyard::chart
