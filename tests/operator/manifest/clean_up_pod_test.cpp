#include "operator/manifest/objects.hpp"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "operator/manifest/names.hpp"
#include "tests/builders/a_job.hpp"

namespace trainyard::manifest {
namespace {

using builders::a_job;
using builders::JobBuilder;
using nlohmann::json;

const Settings installed{
    .worker_image_cpu = "worker:new", .worker_image_cuda = "worker:new-cuda", .image_pull_secrets = {"registry"}};

/// After a second attempt.
api::TrainingJob after_two_attempts(const JobBuilder& job) {
  api::TrainingJob made = job;
  made.status.attempt = 2;
  made.status.replicas.desired = made.spec.replicas;
  made.status.worker_image = "worker:old";
  made.status.avoided_nodes = {"gpu-17"};
  return made;
}

json clean_up_pod_of(const JobBuilder& job) {
  return build_clean_up_pod(after_two_attempts(job), installed);
}

json container_of(const json& pod) {
  return pod.at("spec").at("containers").at(0);
}

JobBuilder a_deleted_job() {
  return a_job().on_delete();
}

TEST(BuildCleanUpPod, BelongsToNoAttemptAndIsDeletedWithTheJob) {
  const json metadata = clean_up_pod_of(a_deleted_job().pod_template(R"({"metadata": {"labels": {"team": "vision"},
                                                                "annotations": {"note": "mine"}}})"))
                            .at("metadata");
  EXPECT_EQ(metadata.at("name"), "smoke-c0de-cleanup");
  EXPECT_EQ(metadata.at("labels"), json::parse(R"({"team": "vision", "trainyard.dev/job": "smoke"})"));
  EXPECT_EQ(metadata.at("annotations").at("note"), "mine");
  EXPECT_EQ(metadata.at("ownerReferences").at(0).at("uid"), "c0de1234-0000-4000-8000-000000000001");
  EXPECT_EQ(attempt_of(a_deleted_job(), {.metadata = {.name = metadata.at("name")}}), -1);
}

TEST(BuildCleanUpPod, RunsTheCleanUpOfTheInstalledReleaseAsTheAttemptAfterTheLast) {
  const json pod = clean_up_pod_of(a_deleted_job());
  const json worker = container_of(pod);
  EXPECT_EQ(worker.at("command"), (json{"trainyard-worker", "clean-up"}));
  EXPECT_EQ(worker.at("image"), "worker:new");
  EXPECT_EQ(pod.at("spec").at("imagePullSecrets"), json::parse(R"([{"name": "registry"}])"));
  std::map<std::string, std::string> environment;
  for (const json& variable : worker.at("env")) environment[variable.at("name")] = variable.at("value");
  const json spec = json::parse(environment.at("TRAINYARD_SPEC"));
  environment.erase("TRAINYARD_SPEC");
  EXPECT_EQ(environment,
            (std::map<std::string, std::string>{{"TRAINYARD_JOB", "smoke"},
                                                {"TRAINYARD_NAMESPACE", "research"},
                                                {"TRAINYARD_JOB_UID", "c0de1234-0000-4000-8000-000000000001"},
                                                {"TRAINYARD_ATTEMPT", "3"},
                                                {"PYTHONUNBUFFERED", "1"},
                                                {"HOME", "/tmp"},
                                                {"USER", "trainyard"}}));
  EXPECT_EQ(spec.at("checkpoint").at("uri"), "s3://models/smoke");
  EXPECT_FALSE(spec.contains("training"));
}

TEST(BuildCleanUpPod, ReachesTheStorageAsRankZeroDoes) {
  const auto with_everything = [] {
    api::TrainingJob job = after_two_attempts(a_deleted_job().pod_template(R"({"spec": {"serviceAccountName": "writer",
        "nodeSelector": {"zone": "a"}, "tolerations": [{"operator": "Exists"}], "securityContext": {"runAsUser": 7},
        "affinity": {"nodeAffinity": {}},
        "volumes": [{"name": "c", "persistentVolumeClaim": {"claimName": "checkpoints"}}],
        "containers": [{"name": "main", "image": "mine:1", "env": [{"name": "HTTPS_PROXY", "value": "proxy"}],
                        "volumeMounts": [{"name": "c", "mountPath": "/checkpoints"}]}]}})"));
    job.spec.checkpoint->credentials_secret = "s3-credentials";
    job.spec.checkpoint->s3 = {.endpoint = "https://s3.example.com", .region = "eu-north-1"};
    return job;
  };
  const json ours = build_clean_up_pod(with_everything(), installed).at("spec");
  const json rank_0 = build_pod(with_everything(), 0, kubernetes_traits(), installed).at("spec");
  for (const char* field : {"serviceAccountName", "nodeSelector", "tolerations", "securityContext", "affinity",
                            "restartPolicy", "terminationGracePeriodSeconds", "enableServiceLinks"}) {
    EXPECT_EQ(ours.at(field), rank_0.at(field)) << field;
  }
  EXPECT_EQ(ours.at("volumes").size(), 1U) << "without shared memory and data";
  const json worker = ours.at("containers").at(0);
  for (const char* field : {"name", "image", "envFrom", "securityContext", "terminationMessagePolicy"}) {
    if (rank_0.at("containers").at(0).contains(field)) {
      EXPECT_EQ(worker.at(field), rank_0.at("containers").at(0).at(field)) << field;
    }
  }
  EXPECT_EQ(worker.at("volumeMounts").size(), 1U);
  std::set<std::string> names;
  for (const json& variable : worker.at("env")) names.insert(variable.at("name").get<std::string>());
  for (const char* name : {"HTTPS_PROXY", "AWS_REGION", "AWS_ENDPOINT_URL_S3"})
    EXPECT_TRUE(names.contains(name)) << name;
}

TEST(BuildCleanUpPod, HasTheFileThatGooglesClientsWant) {
  api::TrainingJob job = after_two_attempts(a_deleted_job());
  job.spec.checkpoint->uri = "gs://models/x";
  job.spec.checkpoint->credentials_secret = "gcs-credentials";
  const json pod = build_clean_up_pod(job, installed);
  EXPECT_EQ(pod.at("spec").at("volumes"),
            json::parse(R"([{"name": "trainyard-credentials", "secret": {"secretName": "gcs-credentials"}}])"));
  EXPECT_EQ(container_of(pod).at("volumeMounts").size(), 1U);
}

TEST(BuildCleanUpPod, MayGoToNodesThatAreTaintedWithTheirDevicesNames) {
  struct Case {
    JobBuilder job;
    std::set<std::string> expected;
  };
  const std::vector<Case> cases{
      {a_deleted_job(), {}},
      {a_deleted_job().gpus_per_pod(2), {"nvidia.com/gpu"}},
      {a_deleted_job().gpus_per_pod(1).pod_template(R"({"spec": {"containers": [{"name": "worker", "resources": {
           "limits": {"cpu": "4", "amd.com/gpu": 1}, "requests": {"rdma/hca": 1}}}]}})"),
       {"amd.com/gpu", "rdma/hca"}}};
  for (const auto& [job, expected] : cases) {
    const json pod = clean_up_pod_of(job);
    std::set<std::string> tolerated;
    for (const json& toleration : pod.at("spec").at("tolerations")) {
      if (toleration.at("effect") == "NoSchedule" && toleration.at("operator") == "Exists")
        tolerated.insert(toleration.at("key").get<std::string>());
    }
    EXPECT_EQ(tolerated, expected);
  }
}

TEST(BuildCleanUpPod, BringsNothingOfTheTraining) {
  const json spec = clean_up_pod_of(a_deleted_job().gpus_per_pod(2).pod_template(R"({"spec": {
      "initContainers": [{"name": "fetch", "image": "f"}], "resourceClaims": [{"name": "gpus"}],
      "resources": {"limits": {"cpu": "64"}},
      "containers": [{"name": "logs", "image": "l"},
                     {"name": "worker", "command": ["sh"], "args": ["-c", "exec trainyard-worker"],
                      "ports": [{"containerPort": 1}], "livenessProbe": {"exec": {"command": ["false"]}},
                      "readinessProbe": {"exec": {"command": ["false"]}}, "startupProbe": {"exec": {"command": ["false"]}},
                      "lifecycle": {"preStop": {"exec": {"command": ["sleep", "9"]}}}, "resizePolicy": [],
                      "resources": {"limits": {"nvidia.com/gpu": 2, "memory": "500Gi"}}}]}})"))
                        .at("spec");
  for (const char* field : {"initContainers", "resourceClaims", "resources", "hostname", "subdomain", "volumes"}) {
    EXPECT_FALSE(spec.contains(field)) << field;
  }
  ASSERT_EQ(spec.at("containers").size(), 1U);
  const json worker = spec.at("containers").at(0);
  EXPECT_EQ(worker.at("name"), "worker");
  EXPECT_EQ(worker.at("image"), "worker:new-cuda");
  for (const char* field : {"args", "ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle",
                            "resizePolicy", "volumeMounts"})
    EXPECT_FALSE(worker.contains(field)) << field;
  EXPECT_EQ(worker.at("resources"), json::parse(R"({"requests": {"cpu": "100m", "memory": "128Mi"},
                                                    "limits": {"cpu": "1", "memory": "1Gi"}})"));
}

}  // namespace
}  // namespace trainyard::manifest
