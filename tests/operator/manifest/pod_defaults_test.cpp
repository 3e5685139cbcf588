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

TEST(BuildPod, TakesNoOtherTolerationForOneOfALostNode) {
  const json keyless = json::parse(R"({"operator": "Equal", "value": "x"})");
  const json value_less = json::parse(R"({"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"})");
  const std::string given = json{{"spec", {{"tolerations", {keyless, value_less}}}}}.dump();
  const json tolerations = completed_pod(a_job().pod_template(given)).at("spec").at("tolerations");
  ASSERT_EQ(tolerations.size(), 3U) << tolerations;
  EXPECT_EQ(tolerations.at(2).at("key"), "node.kubernetes.io/unreachable");
}

TEST(BuildPod, AddsToTheVolumesAndVariablesOfTheTemplate) {
  const json spec = completed_pod(a_job().checkpoint().pod_template(R"json({"spec": {"volumes": [{"name": "mine"}],
      "containers": [{"name": "worker", "image": "i", "volumeMounts": [{"name": "mine", "mountPath": "/mine"}],
                      "envFrom": [{"configMapRef": {"name": "settings"}}],
                      "env": [{"name": "AWS_REGION", "value": "mine"}]}]}})json"),
                                  [](api::TrainingJob& job) {
                                    job.spec.checkpoint->credentials_secret = "keys";
                                    job.spec.checkpoint->s3.region = "eu-north-1";
                                  })
                        .at("spec");
  const json& worker = spec.at("containers").at(0);
  EXPECT_EQ(spec.at("volumes").at(0).at("name"), "mine");
  EXPECT_EQ(worker.at("volumeMounts").at(0).at("name"), "mine");
  EXPECT_EQ(worker.at("volumeMounts").size(), 2U);
  EXPECT_EQ(worker.at("envFrom"),
            json::parse(R"([{"configMapRef": {"name": "settings"}}, {"secretRef": {"name": "keys"}}])"));
  std::vector<std::string> regions;
  for (const json& variable : worker.at("env"))
    if (variable.at("name") == "AWS_REGION") regions.push_back(variable.at("value"));
  EXPECT_EQ(regions, std::vector<std::string>{"mine"});
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
