#include "operator/manifest/objects.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "operator/manifest/spec_hash.hpp"
#include "tests/builders/an_observed.hpp"

namespace trainyard::manifest {
namespace {

using builders::a_job;
using builders::JobBuilder;
using nlohmann::json;

/// The pod of `rank` in a first attempt.
json pod_of(
    const JobBuilder& job, std::int64_t rank = 1, const std::function<void(api::TrainingJob&)>& change = [](auto&) {}) {
  api::TrainingJob attempted = job;
  attempted.status.attempt = 1;
  attempted.status.replicas.desired = attempted.spec.replicas;
  attempted.status.worker_image = "trainyard-worker:cpu";
  change(attempted);
  return build_pod(attempted, rank, kubernetes_traits(), {.image_pull_secrets = {"registry"}});
}

std::map<std::string, std::string> environment_of(const json& container) {
  std::map<std::string, std::string> environment;
  for (const json& variable : container.at("env")) {
    const auto [unused, is_new] = environment.emplace(variable.at("name"), variable.value("value", ""));
    EXPECT_TRUE(is_new) << variable << " is there twice";
  }
  return environment;
}

json worker_of(const json& pod) {
  return pod.at("spec").at("containers").at(0);
}

TEST(BuildPod, NamesLabelsAndOwnsThePod) {
  const json metadata =
      pod_of(a_job().pod_template(R"({"metadata": {"labels": {"team": "vision", "trainyard.dev/job": "another"},
                                                        "annotations": {"note": "mine"}}})"))
          .at("metadata");
  EXPECT_EQ(metadata.at("name"), "smoke-c0de-1-1");
  EXPECT_EQ(metadata.at("namespace"), "research");
  EXPECT_EQ(metadata.at("labels"), json::parse(R"({"team": "vision", "trainyard.dev/job": "smoke",
      "trainyard.dev/attempt": "1", "trainyard.dev/rank": "1"})"));
  EXPECT_EQ(metadata.at("annotations").at("note"), "mine");
  EXPECT_EQ(metadata.at("ownerReferences"),
            json::parse(R"([{"apiVersion": "trainyard.dev/v1alpha1", "kind": "TrainingJob",
      "name": "smoke", "uid": "c0de1234-0000-4000-8000-000000000001", "controller": true}])"));
}

TEST(BuildPod, GivesTheRankEnvironmentAtProcessLevel) {
  auto environment = environment_of(worker_of(pod_of(a_job())));
  const json spec = json::parse(environment.at("TRAINYARD_SPEC"));
  environment.erase("TRAINYARD_SPEC");
  const std::map<std::string, std::string> expected{{"MASTER_ADDR", "smoke-c0de-1-0.smoke-c0de.research.svc"},
                                                    {"MASTER_PORT", "29500"},
                                                    {"WORLD_SIZE", "2"},
                                                    {"RANK", "1"},
                                                    {"LOCAL_RANK", "0"},
                                                    {"LOCAL_WORLD_SIZE", "1"},
                                                    {"NODE_RANK", "1"},
                                                    {"GROUP_RANK", "1"},
                                                    {"GROUP_WORLD_SIZE", "2"},
                                                    {"ROLE_NAME", "default"},
                                                    {"ROLE_RANK", "1"},
                                                    {"ROLE_WORLD_SIZE", "2"},
                                                    {"TORCHELASTIC_RUN_ID", "c0de1234-0000-4000-8000-000000000001"},
                                                    {"TORCHELASTIC_RESTART_COUNT", "0"},
                                                    {"TORCHELASTIC_MAX_RESTARTS", "3"},
                                                    {"TORCHELASTIC_USE_AGENT_STORE", "False"},
                                                    {"PET_NNODES", "2"},
                                                    {"PET_NPROC_PER_NODE", "1"},
                                                    {"PET_NODE_RANK", "1"},
                                                    {"PET_MASTER_ADDR", "smoke-c0de-1-0.smoke-c0de.research.svc"},
                                                    {"PET_MASTER_PORT", "29500"},
                                                    {"PET_RDZV_ID", "c0de1234-0000-4000-8000-000000000001"},
                                                    {"TRAINYARD_JOB", "smoke"},
                                                    {"TRAINYARD_NAMESPACE", "research"},
                                                    {"TRAINYARD_JOB_UID", "c0de1234-0000-4000-8000-000000000001"},
                                                    {"TRAINYARD_ATTEMPT", "1"},
                                                    {"TRAINYARD_STORE_PORT", "29501"},
                                                    {"TRAINYARD_PEER_PORT", "29502"},
                                                    {"TRAINYARD_STATUS_PORT", "29503"},
                                                    {"TRAINYARD_GRACE_SECONDS", "30"},
                                                    {"TRAINYARD_GPUS_PER_POD", "0"},
                                                    {"PYTHONUNBUFFERED", "1"},
                                                    {"HOME", "/tmp"},
                                                    {"USER", "trainyard"}};
  EXPECT_EQ(environment, expected);
  EXPECT_EQ(spec.at("training").at("model").at("name"), "fashion_cnn");
}

TEST(BuildPod, LeavesRankAndLocalRankToTheLauncherOfAPodWithSeveralRanks) {
  auto environment = environment_of(worker_of(pod_of(a_job().gpus_per_pod(4))));
  EXPECT_EQ(environment.at("WORLD_SIZE"), "8");
  EXPECT_EQ(environment.at("LOCAL_WORLD_SIZE"), "4");
  EXPECT_EQ(environment.at("PET_NPROC_PER_NODE"), "4");
  EXPECT_EQ(environment.at("NODE_RANK"), "1");
  EXPECT_FALSE(environment.contains("RANK"));
  EXPECT_FALSE(environment.contains("LOCAL_RANK"));
  EXPECT_FALSE(environment.contains("ROLE_RANK"));
}

TEST(BuildPod, StartsOneRankForAllGpusOfAPodWhereTheStrategyDividesItsBatches) {
  for (const auto name : {api::StrategyName::dp, api::StrategyName::ddp2}) {
    const json worker = worker_of(pod_of(a_job().gpus_per_pod(4), 1,
                                         [&](api::TrainingJob& job) { job.spec.training->strategy = {.name = name}; }));
    auto environment = environment_of(worker);
    EXPECT_EQ(environment.at("WORLD_SIZE"), "2");
    EXPECT_EQ(environment.at("LOCAL_WORLD_SIZE"), "1");
    EXPECT_EQ(environment.at("RANK"), "1");
    EXPECT_EQ(environment.at("TRAINYARD_GPUS_PER_POD"), "4");
    EXPECT_EQ(worker.at("resources").at("limits").at("nvidia.com/gpu"), "4");
  }
}

TEST(BuildPod, SetsTorchrunsVariablesOfTheAttempt) {
  const auto environment = environment_of(worker_of(pod_of(a_job(), 1, [](api::TrainingJob& job) {
    job.status.attempt = 3;
    job.spec.restart.application.max = 5;
  })));
  EXPECT_EQ(environment.at("TORCHELASTIC_RESTART_COUNT"), "2");
  EXPECT_EQ(environment.at("TORCHELASTIC_MAX_RESTARTS"), "5");
}

TEST(BuildPod, GivesAProgramThatIsNotOursTorchrunsErrorHandlingOfNcclUnlessItHasItsOwn) {
  const auto value_of = [](const std::string& template_text) {
    api::TrainingJob job = a_job().pod_template(template_text);
    job.spec.training.reset();
    job.status.attempt = 1;
    job.status.replicas.desired = job.spec.replicas;
    return environment_of(worker_of(build_pod(job, 0, kubernetes_traits(), {}))).at("TORCH_NCCL_ASYNC_ERROR_HANDLING");
  };
  EXPECT_EQ(value_of(R"({"spec": {"containers": [{"name": "worker", "image": "i"}]}})"), "1");
  EXPECT_EQ(value_of(R"({"spec": {"containers": [{"name": "worker", "image": "i",
                         "env": [{"name": "TORCH_NCCL_ASYNC_ERROR_HANDLING", "value": "3"}]}]}})"),
            "3");
}

TEST(BuildPod, PutsOurVariablesFirstAndDropsUsersVariablesOfTheSameName) {
  const json worker = worker_of(pod_of(a_job().pod_template(R"json({"spec": {"containers": [{"name": "worker",
      "image": "i", "env": [{"name": "RANK", "value": "9"}, {"name": "TAG", "value": "run-$(RANK)"},
                            {"name": "PYTHONUNBUFFERED", "value": "0"}]}]}})json")));
  const auto environment = environment_of(worker);
  EXPECT_EQ(environment.at("RANK"), "1");
  EXPECT_EQ(environment.at("TAG"), "run-$(RANK)");
  EXPECT_EQ(environment.at("PYTHONUNBUFFERED"), "0");
  EXPECT_EQ(worker.at("env").at(0).at("name"), "MASTER_ADDR");
}

TEST(BuildPod, AddsTheWorkerIfTheTemplateHasNoContainer) {
  const json pod = pod_of(a_job());
  EXPECT_EQ(pod.at("spec").at("containers").size(), 1);
  EXPECT_EQ(worker_of(pod).at("name"), "worker");
  EXPECT_EQ(worker_of(pod).at("image"), "trainyard-worker:cpu");
  EXPECT_EQ(pod.at("spec").at("imagePullSecrets"), json::parse(R"([{"name": "registry"}])"));
  const json own = pod_of(a_job().container("mine:1"));
  EXPECT_EQ(worker_of(own).at("image"), "mine:1");
  EXPECT_FALSE(own.at("spec").contains("imagePullSecrets"));
}

TEST(BuildPod, GivesSidecarsNoRank) {
  const json containers = pod_of(a_job().pod_template(R"({"spec": {"containers": [{"name": "logs", "image": "l"},
      {"name": "worker", "image": "i"}]}})"))
                              .at("spec")
                              .at("containers");
  EXPECT_EQ(environment_of(containers.at(0)),
            (std::map<std::string, std::string>{{"HOME", "/tmp"}, {"USER", "trainyard"}}));
  EXPECT_TRUE(containers.at(1).contains("env"));
}

TEST(BuildPod, FixesWhatAMemberOfAGroupNeeds) {
  const json spec = pod_of(a_job()).at("spec");
  EXPECT_EQ(spec.at("restartPolicy"), "Never");
  EXPECT_EQ(spec.at("hostname"), "smoke-c0de-1-1");
  EXPECT_EQ(spec.at("subdomain"), "smoke-c0de");
  EXPECT_EQ(spec.at("automountServiceAccountToken"), false);
  EXPECT_EQ(spec.at("enableServiceLinks"), false);
  EXPECT_EQ(spec.at("terminationGracePeriodSeconds"), 30);
  EXPECT_EQ(worker_of(pod_of(a_job())).at("terminationMessagePolicy"), "FallbackToLogsOnError");
}

TEST(BuildPod, GivesTimeToSaveWhereThereIsACheckpoint) {
  const std::vector<std::pair<JobBuilder, int>> jobs_and_seconds{
      {a_job(), 30},
      {a_job().checkpoint(), 120},
      {a_job().checkpoint().pod_template(R"({"spec": {"terminationGracePeriodSeconds": 7}})"), 7}};
  for (const auto& [job, seconds] : jobs_and_seconds) {
    const json pod = pod_of(job);
    EXPECT_EQ(pod.at("spec").at("terminationGracePeriodSeconds"), seconds);
    EXPECT_EQ(environment_of(worker_of(pod)).at("TRAINYARD_GRACE_SECONDS"), std::to_string(seconds));
  }
}

TEST(BuildPod, AsksForGpusUnlessTheContainerAsksForDevicesItself) {
  const auto limits = [](const char* resources) {
    const json worker = worker_of(pod_of(a_job().gpus_per_pod(2).pod_template(
        std::string{R"({"spec": {"containers": [{"name": "worker", "image": "i")"} + resources + "}]}}")));
    return worker.value("resources", json::object()).value("limits", json::object());
  };
  EXPECT_EQ(limits(""), json::parse(R"({"nvidia.com/gpu": "2"})"));
  EXPECT_EQ(limits(R"(, "resources": {"limits": {"memory": "1Gi", "kubernetes.io/batch-cpu": 1}})"),
            json::parse(R"({"memory": "1Gi", "kubernetes.io/batch-cpu": 1, "nvidia.com/gpu": "2"})"));
  EXPECT_EQ(limits(R"(, "resources": {"limits": {"nvidia.com/gpu": 2}})"), json::parse(R"({"nvidia.com/gpu": 2})"));
  EXPECT_EQ(limits(R"(, "resources": {"limits": {"amd.com/gpu": 2}})"), json::parse(R"({"amd.com/gpu": 2})"));
  EXPECT_EQ(limits(R"(, "resources": {"claims": [{"name": "gpus"}]})"), json::object());
  EXPECT_FALSE(worker_of(pod_of(a_job().gpus_per_pod(0))).contains("resources"));
}

TEST(BuildPod, PassesPodSecurityRestrictedWhereTheUserSaysNothing) {
  const json spec = pod_of(a_job()).at("spec");
  EXPECT_EQ(spec.at("securityContext"), json::parse(R"({"runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532,
      "fsGroup": 65532, "fsGroupChangePolicy": "OnRootMismatch", "seccompProfile": {"type": "RuntimeDefault"}})"));
  EXPECT_EQ(spec.at("containers").at(0).at("securityContext"),
            json::parse(R"({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}})"));
}

TEST(BuildPod, LeavesTheUsersSecurityAlone) {
  const json root = pod_of(a_job().pod_template(R"({"spec": {"securityContext": {"runAsUser": 0},
      "serviceAccountName": "reader", "containers": [{"name": "worker", "image": "i"}]}})"))
                        .at("spec");
  EXPECT_EQ(root.at("securityContext"), json::parse(R"({"runAsUser": 0})"));
  EXPECT_FALSE(root.at("containers").at(0).contains("securityContext"));
  EXPECT_FALSE(root.contains("automountServiceAccountToken"));
}

TEST(BuildPod, MountsSharedMemoryAndTheDataClaim) {
  api::TrainingJob job = a_job();
  const json pod = pod_of(a_job(), 0, [](api::TrainingJob& changed) {
    changed.spec.training->data = {.format = api::DataFormat::idx, .volume_claim = "datasets", .path = "fashion-mnist"};
  });
  EXPECT_EQ(pod.at("spec").at("volumes"), json::parse(R"([{"name": "trainyard-shm", "emptyDir": {"medium": "Memory"}},
                {"name": "trainyard-data", "persistentVolumeClaim": {"claimName": "datasets", "readOnly": true}}])"));
  EXPECT_EQ(worker_of(pod).at("volumeMounts"), json::parse(R"([{"name": "trainyard-shm", "mountPath": "/dev/shm"},
                {"name": "trainyard-data", "mountPath": "/data", "readOnly": true}])"));
  const json spec = json::parse(environment_of(worker_of(pod)).at("TRAINYARD_SPEC"));
  EXPECT_EQ(spec.at("training").at("data").at("path"), "/data/fashion-mnist");
}

TEST(BuildPod, LeavesTheUsersOwnSharedMemoryAlone) {
  const json pod = pod_of(a_job().pod_template(R"({"spec": {"volumes": [{"name": "shm", "emptyDir": {}}],
      "containers": [{"name": "worker", "image": "i", "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}]}]}})"));
  EXPECT_EQ(pod.at("spec").at("volumes").size(), 1);
}

TEST(BuildPod, LeavesTheUsersOwnMountsAlone) {
  const json pod =
      pod_of(a_job().checkpoint("gs://models/x").pod_template(R"({"spec": {"containers": [{"name": "worker",
      "image": "i", "volumeMounts": [{"name": "a", "mountPath": "/data"},
                                     {"name": "b", "mountPath": "/var/run/secrets/trainyard/google"}]}]}})"),
             0, [](api::TrainingJob& job) {
               job.spec.training->data.volume_claim = "datasets";
               job.spec.checkpoint->credentials_secret = "gcs-credentials";
             });
  EXPECT_EQ(pod.at("spec").at("volumes").size(), 1) << "shared memory";
  EXPECT_EQ(worker_of(pod).at("volumeMounts").size(), 3);
}

TEST(BuildPod, PassesCredentialsAndS3SettingsAsTheSdksExpectThem) {
  const json worker = worker_of(pod_of(a_job().checkpoint(), 0, [](api::TrainingJob& job) {
    job.spec.checkpoint->credentials_secret = "s3-credentials";
    job.spec.checkpoint->s3 = {.endpoint = "https://s3.example.com", .region = "eu-north-1"};
  }));
  EXPECT_EQ(worker.at("envFrom"), json::parse(R"([{"secretRef": {"name": "s3-credentials"}}])"));
  const auto environment = environment_of(worker);
  EXPECT_EQ(environment.at("AWS_REGION"), "eu-north-1");
  EXPECT_EQ(environment.at("AWS_ENDPOINT_URL_S3"), "https://s3.example.com");

  const json azure = worker_of(pod_of(a_job().checkpoint("az://models/x"), 0, [](api::TrainingJob& job) {
    job.spec.checkpoint->credentials_secret = "azure-credentials";
  }));
  EXPECT_EQ(azure.at("envFrom"), json::parse(R"([{"secretRef": {"name": "azure-credentials"}}])"));
}

TEST(BuildPod, NamesTheNodeWhereItKeepsLocalCheckpoints) {
  const auto is_node_name = [](const json& variable) { return variable.at("name") == "TRAINYARD_NODE_NAME"; };
  const json without = worker_of(pod_of(a_job().checkpoint())).at("env");
  EXPECT_TRUE(std::ranges::none_of(without, is_node_name));
  JobBuilder job = a_job().checkpoint().pod_template(R"json({"spec": {"containers": [{"name": "worker",
      "env": [{"name": "TRAINYARD_NODE_NAME", "value": "mine"}]}]}})json");
  const json with = worker_of(pod_of(job, 0, [](api::TrainingJob& given) {
                      given.spec.checkpoint->local = api::LocalSpec{.path = "/local", .every = {.steps = 5}};
                    })).at("env");
  EXPECT_EQ(std::ranges::count_if(with, is_node_name), 1);
  EXPECT_EQ(
      *std::ranges::find_if(with, is_node_name),
      json::parse(R"({"name": "TRAINYARD_NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}})"));
  const auto spec = std::ranges::find_if(with, [](const json& v) { return v.at("name") == "TRAINYARD_SPEC"; });
  EXPECT_EQ(json::parse(spec->at("value").get<std::string>()).at("checkpoint").at("local"),
            json::parse(R"({"path": "/local", "every": {"steps": 5}, "keep": 1})"));
}

TEST(BuildPod, PromisesItsRanksTheirGpusAndNamesTheNodeWhereOneMayBeMissing) {
  const json environment = worker_of(pod_of(a_job().gpus_per_pod(4))).at("env");
  EXPECT_EQ(std::ranges::count(environment, json{{"name", "TRAINYARD_GPUS_PER_POD"}, {"value", "4"}}), 1);
  const auto is_node_name = [](const json& v) { return v.at("name") == "TRAINYARD_NODE_NAME"; };
  EXPECT_TRUE(std::ranges::any_of(environment, is_node_name));
  EXPECT_TRUE(std::ranges::any_of(worker_of(pod_of(a_job().gpus_per_pod(1))).at("env"), is_node_name));
}

TEST(BuildPod, PassesTheCpuRequestOnWhereTheTemplateGivesOne) {
  const auto is_request = [](const json& variable) { return variable.at("name") == "TRAINYARD_CPU_MILLICORES"; };
  EXPECT_TRUE(std::ranges::none_of(worker_of(pod_of(a_job())).at("env"), is_request));
  const json with = worker_of(pod_of(a_job().pod_template(R"json({"spec": {"containers": [{"name": "worker",
      "env": [{"name": "TRAINYARD_CPU_MILLICORES", "value": "9"}],
      "resources": {"requests": {"cpu": "2"}}}]}})json")))
                        .at("env");
  EXPECT_EQ(std::ranges::count_if(with, is_request), 1);
  EXPECT_EQ(*std::ranges::find_if(with, is_request), json::parse(R"({"name": "TRAINYARD_CPU_MILLICORES",
                            "valueFrom": {"resourceFieldRef": {"resource": "requests.cpu", "divisor": "1m"}}})"));
}

TEST(BuildPod, MountsTheSecretWhereGooglesClientsWantAFile) {
  const json pod = pod_of(a_job().checkpoint("gs://models/x"), 0,
                          [](api::TrainingJob& job) { job.spec.checkpoint->credentials_secret = "gcs-credentials"; });
  EXPECT_FALSE(worker_of(pod).contains("envFrom"));
  EXPECT_EQ(pod.at("spec").at("volumes").back(),
            json::parse(R"({"name": "trainyard-credentials", "secret": {"secretName": "gcs-credentials"}})"));
  EXPECT_EQ(worker_of(pod).at("volumeMounts").back(),
            json::parse(R"({"name": "trainyard-credentials", "mountPath": "/var/run/secrets/trainyard/google",
                            "readOnly": true})"));
  EXPECT_EQ(environment_of(worker_of(pod)).at("GOOGLE_APPLICATION_CREDENTIALS"),
            "/var/run/secrets/trainyard/google/credentials.json");

  // With two clouds in one job each cloud's clients get the Secret in their own form.
  const json both = pod_of(a_job().checkpoint("s3://models/x"), 0, [](api::TrainingJob& job) {
    job.spec.checkpoint->resume_uri = "gs://models/earlier";
    job.spec.checkpoint->credentials_secret = "two-clouds";
  });
  EXPECT_EQ(worker_of(both).at("envFrom"), json::parse(R"([{"secretRef": {"name": "two-clouds"}}])"));
  EXPECT_EQ(both.at("spec").at("volumes").back().at("secret"), json::parse(R"({"secretName": "two-clouds"})"));

  for (const bool is_script : {false, true}) {
    const json data = pod_of(a_job().checkpoint("file:///checkpoints"), 0, [&](api::TrainingJob& job) {
      api::ModelSpec& model = job.spec.training.emplace().model;
      (is_script ? model.uri : model.weights) = "gs://models/resnet50";
      job.spec.checkpoint->credentials_secret = "gcs-credentials";
    });
    EXPECT_FALSE(worker_of(data).contains("envFrom"));
    EXPECT_TRUE(environment_of(worker_of(data)).contains("GOOGLE_APPLICATION_CREDENTIALS"));
  }

  const json without = pod_of(a_job().checkpoint("gs://models/x"));
  EXPECT_FALSE(environment_of(worker_of(without)).contains("GOOGLE_APPLICATION_CREDENTIALS"));
  EXPECT_EQ(without.at("spec").at("volumes").size(), 1);
}

TEST(BuildPod, LeavesLostNodesAfterHalfAMinuteUnlessTheUserSaysOtherwise) {
  EXPECT_EQ(pod_of(a_job()).at("spec").at("tolerations").size(), 2);
  const json own = pod_of(a_job().pod_template(R"({"spec": {"tolerations": [{"operator": "Exists"}]}})"));
  EXPECT_EQ(own.at("spec").at("tolerations"), json::parse(R"([{"operator": "Exists"}])"));
}

TEST(SpecHash, ChangesWithWhatReachesPodsAndWithNothingElse) {
  const std::string hash = spec_hash(a_job().build().spec);
  EXPECT_EQ(hash,
            spec_hash(a_job().suspended().deadline(std::chrono::seconds{9}).ttl(std::chrono::seconds{9}).build().spec));
  const std::set<std::string> hashes{hash,
                                     spec_hash(a_job().replicas(3).build().spec),
                                     spec_hash(a_job().gpus_per_pod(1).build().spec),
                                     spec_hash(a_job().container("a").build().spec),
                                     spec_hash(a_job().checkpoint().build().spec),
                                     spec_hash(a_job().without_training().build().spec)};
  EXPECT_EQ(hashes.size(), 6);
  api::TrainingJobSpec by_signal = a_job().checkpoint().build().spec;
  by_signal.checkpoint->on_suspend = api::OnSuspend::signal;
  EXPECT_EQ(spec_hash(by_signal), spec_hash(a_job().checkpoint().build().spec)) << "the operator's business";
  EXPECT_EQ(spec_hash(a_job().on_delete().build().spec), spec_hash(a_job().checkpoint().build().spec));
}

}  // namespace
}  // namespace trainyard::manifest
