#include "operator/manifest/objects.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/builders/a_job.hpp"

namespace trainyard::manifest {
namespace {

TEST(BuildService, NamesPodsAlsoBeforeTheyAreReadyButNoneUntilAnAttemptIsSelected) {
  EXPECT_EQ(build_service(builders::a_job()), nlohmann::json::parse(R"({
      "apiVersion": "v1", "kind": "Service",
      "metadata": {"name": "smoke-c0de", "namespace": "research",
                   "labels": {"trainyard.dev/job": "smoke"},
                   "ownerReferences": [{"apiVersion": "trainyard.dev/v1alpha1", "kind": "TrainingJob", "name": "smoke",
                                        "uid": "c0de1234-0000-4000-8000-000000000001", "controller": true}]},
      "spec": {"clusterIP": "None", "publishNotReadyAddresses": true, "selector": {"trainyard.dev/job": "smoke", "trainyard.dev/attempt": "0"},
               "ports": [{"name": "master", "port": 29500}, {"name": "status", "port": 29503}]}})"));
}

}  // namespace
}  // namespace trainyard::manifest
