#include <gtest/gtest.h>

#include <functional>

#include "operator/manifest/names.hpp"
#include "tests/builders/an_observed.hpp"

namespace trainyard::manifest {
namespace {

/// A job of two ranks in its third attempt.
api::TrainingJob a_running_job() {
  return builders::an_observed().attempt(3).build().job;
}

struct Forgery {
  const char* what;
  std::function<void(api::Metadata&)> forge;
};

class IsPodOf : public testing::TestWithParam<Forgery> {};

TEST_P(IsPodOf, IsFalseWhereOneThingIsNotTheJobs) {
  const api::TrainingJob job = a_running_job();
  resource::Pod pod = builders::a_pod(job, 3, 1);
  ASSERT_TRUE(is_pod_of(pod, job));
  GetParam().forge(pod.metadata);
  EXPECT_FALSE(is_pod_of(pod, job));
}

void name(api::Metadata& metadata, const char* name) {
  metadata.name = name;
}

INSTANTIATE_TEST_SUITE_P(
    Forgeries, IsPodOf,
    testing::Values(Forgery{"another namespace", [](auto& pod) { pod.name_space = "zz"; }},
                    Forgery{"no controller", [](auto& pod) { pod.controller.reset(); }},
                    Forgery{"an owner that is no controller", [](auto& pod) { pod.controller->is_controller = false; }},
                    Forgery{"another job's UID", [](auto& pod) { pod.controller->uid = "beef"; }},
                    Forgery{"another job's name", [](auto& pod) { pod.controller->name = "other"; }},
                    Forgery{"another kind", [](auto& pod) { pod.controller->kind = "ReplicaSet"; }},
                    Forgery{"another API", [](auto& pod) { pod.controller->api_version = "apps/v1"; }},
                    Forgery{"a name of no job", [](auto& pod) { name(pod, "x-9-9"); }},
                    Forgery{"the name of an earlier job", [](auto& pod) { name(pod, "smoke-beef-3-1"); }},
                    Forgery{"an attempt that never was", [](auto& pod) { name(pod, "smoke-c0de-0-0"); }},
                    Forgery{"a rank beyond the group", [](auto& pod) { name(pod, "smoke-c0de-3-2"); }},
                    Forgery{"a number as nobody writes it", [](auto& pod) { name(pod, "smoke-c0de-03-1"); }}),
    [](const auto& info) {
      std::string name;
      for (const char letter : std::string_view{info.param.what})
        name += letter == ' ' || letter == '\'' ? '_' : letter;
      return name;
    });

TEST(IsPodOf, IsTrueForEveryPodThatAPlanMakes) {
  const api::TrainingJob job = a_running_job();
  for (const char* made : {"smoke-c0de-1-0", "smoke-c0de-2-7", "smoke-c0de-3-0", "smoke-c0de-3-1", "smoke-c0de-4-0",
                           "smoke-c0de-cleanup"}) {
    resource::Pod pod = builders::a_pod(job, 3, 1);
    pod.metadata.name = made;
    EXPECT_TRUE(is_pod_of(pod, job)) << made << ": an earlier attempt may have had more ranks";
  }
}

TEST(IsServiceOf, ComparesNamespaceOwnerAndName) {
  const resource::Service service = *builders::an_observed().build().service;
  const api::TrainingJob job = a_running_job();
  EXPECT_TRUE(is_service_of(service, job));
  resource::Service other = service;
  other.metadata.name_space = "zz";
  EXPECT_FALSE(is_service_of(other, job));
  other = service;
  other.metadata.name = "smoke";
  EXPECT_FALSE(is_service_of(other, job));
  other = service;
  other.metadata.controller->uid = "beef";
  EXPECT_FALSE(is_service_of(other, job));
}

}  // namespace
}  // namespace trainyard::manifest
