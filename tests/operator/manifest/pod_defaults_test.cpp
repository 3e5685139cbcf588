#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "operator/manifest/objects.hpp"
#include "operator/manifest/spec_hash.hpp"
#include "tests/builders/an_observed.hpp"

// The operator adds to a pod what its template leaves open, and leaves alone what it says.

namespace trainyard::manifest {
namespace {

using builders::a_job;
using builders::JobBuilder;
using nlohmann::json;

json completed_pod(
    const JobBuilder& job, const std::function<void(api::TrainingJob&)>& change = [](auto&) {}) {
  api::TrainingJob attempted = builders::an_observed(job).build().job;
  change(attempted);
  return build_pod(attempted, 0, kubernetes_traits(), {.image_pull_secrets = {"registry"}});
}

TEST(BuildPod, IsAPodThatKnowsTheSpecThatItWasMadeFrom) {
  const json pod = completed_pod(a_job());
  EXPECT_EQ(pod.at("apiVersion"), "v1");
  EXPECT_EQ(pod.at("kind"), "Pod");
  EXPECT_EQ(pod.at("metadata").at("annotations"),
            (json{{"sidecar.istio.io/inject", "false"}, {"trainyard.dev/spec-hash", spec_hash(a_job().build().spec)}}));
}

TEST(BuildPod, LeavesWhatTheTemplateSays) {
  const json pod =
      completed_pod(a_job().pod_template(R"({"metadata": {"annotations": {"sidecar.istio.io/inject": "true"}},
      "spec": {"enableServiceLinks": true, "imagePullSecrets": [{"name": "mine"}],
               "containers": [{"name": "worker", "terminationMessagePolicy": "File"}]}})"));
  EXPECT_EQ(pod.at("metadata").at("annotations").at("sidecar.istio.io/inject"), "true");
  EXPECT_EQ(pod.at("spec").at("enableServiceLinks"), true);
  EXPECT_EQ(pod.at("spec").at("imagePullSecrets"), json::parse(R"([{"name": "mine"}, {"name": "registry"}])"));
  EXPECT_EQ(pod.at("spec").at("containers").at(0).at("terminationMessagePolicy"), "File");
}

TEST(BuildPod, LeavesALostNodeAfterHalfAMinute) {
  const json not_ready = json::parse(R"({"key": "node.kubernetes.io/not-ready", "operator": "Exists",
                                         "effect": "NoExecute", "tolerationSeconds": 30})");
  json unreachable = not_ready;
  unreachable["key"] = "node.kubernetes.io/unreachable";
  EXPECT_EQ(completed_pod(a_job()).at("spec").at("tolerations"), json::array({not_ready, unreachable}));
  const json own = json::parse(R"({"key": "node.kubernetes.io/unreachable", "operator": "Exists"})");
  const json another = json::parse(R"({"key": "gpu", "operator": "Exists"})");
  const std::string given = json{{"spec", {{"tolerations", {own, another}}}}}.dump();
  EXPECT_EQ(completed_pod(a_job().pod_template(given)).at("spec").at("tolerations"),
            json::array({own, another, not_ready}));
}

TEST(BuildPod, GivesEachCloudsClientsTheSecretInTheirForm) {
  struct Row {
    std::string checkpoint;
    std::string resume;
    std::string data;
    bool has_variables;
    bool has_file;
  };
  for (const Row& row : {Row{"gs://a/b", "", "", false, true}, Row{"az://a/b", "", "", true, false},
                         Row{"gs://a/b", "az://a/b", "", true, true}, Row{"gs://a/b", "", "s3://a/b", true, true},
                         Row{"file:///a", "", "gs://a/b", false, true}, Row{"file:///a", "", "", true, false}}) {
    const json spec = completed_pod(a_job().checkpoint(row.checkpoint), [&](api::TrainingJob& job) {
                        job.spec.checkpoint->resume_uri = row.resume;
                        job.spec.checkpoint->credentials_secret = "keys";
                        job.spec.training->data.uri = row.data;
                      }).at("spec");
    const json& worker = spec.at("containers").at(0);
    EXPECT_EQ(worker.value("envFrom", json{}),
              row.has_variables ? json::parse(R"([{"secretRef": {"name": "keys"}}])") : json{})
        << row.checkpoint << row.resume << row.data;
    EXPECT_EQ(spec.at("volumes").back().contains("secret"), row.has_file) << row.checkpoint << row.resume << row.data;
  }
}

}  // namespace
}  // namespace trainyard::manifest
