#include "operator/manifest/names.hpp"

#include <gtest/gtest.h>

#include "tests/builders/an_observed.hpp"

namespace trainyard::manifest {
namespace {

TEST(Names, HoldTheJobFourCharactersOfItsUidTheAttemptAndTheRank) {
  const api::TrainingJob job = builders::a_job().named("resnet-50").uid("ab12cd34");
  EXPECT_EQ(service_name(job), "resnet-50-ab12");
  EXPECT_EQ(pod_name(job, 3, 17), "resnet-50-ab12-3-17");
  const resource::Pod pod = builders::a_pod(job, 3, 17);
  EXPECT_EQ(attempt_of(job, pod), 3);
  EXPECT_EQ(pod_index_of(job, pod), 17);
}

TEST(Names, OfTheCleanUpPodAndOfTheSelectorHoldTheJobToo) {
  const api::TrainingJob job = builders::a_job().named("resnet-50").uid("ab12cd34");
  EXPECT_EQ(clean_up_pod_name(job), "resnet-50-ab12-cleanup");
  EXPECT_EQ(job_selector(job), "trainyard.dev/job=resnet-50");
  EXPECT_EQ(service_name(builders::a_job().named("a").uid("xy")), "a-xy") << "a server may give a short UID";
}

TEST(Names, ThatTheJobGivesToNoPodHaveNeitherAttemptNorRank) {
  const api::TrainingJob job = builders::a_job();
  for (const char* name : {"web",
                           "web-1",
                           "web-1-1",
                           "x-9-9",
                           "smoke-1-1",
                           "smoke-c0de",
                           "smoke-c0de-1",
                           "smoke-c0de-1-",
                           "smoke-c0de--1",
                           "smoke-c0de-a-1",
                           "smoke-c0de-1-a",
                           "smoke-c0de-1-1x",
                           "smoke-c0de-1-1-1",
                           "smoke-c0de-0-0",
                           "smoke-c0de-01-0",
                           "smoke-c0de-1-00",
                           "smoke-c0de-1--1",
                           "smoke-c0de-+1-1",
                           "smoke-c0de-99999999999999999999-0",
                           "xsmoke-c0de-1-1",
                           "smoke-beef-1-1",
                           "smoke-c0de-cleanup",
                           ""}) {
    EXPECT_EQ(pod_numbers(job, name), std::nullopt) << name;
    const resource::Pod pod{.metadata = {.name = name}};
    EXPECT_EQ(attempt_of(job, pod), -1) << name;
    EXPECT_EQ(pod_index_of(job, pod), -1) << name;
  }
}

TEST(StatusUrl, IsThePodsAddressAndStatusPort) {
  const api::TrainingJob job = builders::a_job();
  resource::Pod pod = builders::a_pod(job, 1, 0);
  EXPECT_EQ(status_url(kubernetes_traits(), job, pod), "http://10.0.0.1:29503/status");
  pod.pod_ip = "fd00::7";
  EXPECT_EQ(status_url(kubernetes_traits(), job, pod), "http://[fd00::7]:29503/status");
  EXPECT_EQ(request_url(kubernetes_traits(), job, pod), "http://[fd00::7]:29503/checkpoint");
  pod.pod_ip = "fd00:1:2:3:4:5:6:7";
  EXPECT_EQ(status_url(kubernetes_traits(), job, pod), "http://[fd00:1:2:3:4:5:6:7]:29503/status");
  pod.pod_ip.clear();
  EXPECT_EQ(status_url(kubernetes_traits(), job, pod), std::nullopt);
  EXPECT_EQ(request_url(kubernetes_traits(), job, pod), std::nullopt);
  pod = builders::a_pod(builders::a_job().named("other"), 1, 0);
  EXPECT_EQ(status_url(kubernetes_traits(), job, pod), std::nullopt) << "a pod that is none of the job's";
}

TEST(StatusUrl, TakesThePortFromTheClustersTraits) {
  ClusterTraits traits{.address_of = [](const PodPlace& place) {
    EXPECT_EQ(place, (PodPlace{"research", "smoke-c0de", "smoke-c0de-2-1", 2, 1}));
    return PodAddress{.host = "127.0.0.1", .status_port = 4711};
  }};
  const api::TrainingJob job = builders::a_job();
  EXPECT_EQ(status_url(traits, job, builders::a_pod(job, 2, 1)), "http://10.0.0.2:4711/status");
}

}  // namespace
}  // namespace trainyard::manifest
