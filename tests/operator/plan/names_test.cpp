#include "operator/plan/names.hpp"

#include <gtest/gtest.h>

#include "tests/builders/an_observed.hpp"

namespace trainyard::plan {
namespace {

TEST(Names, HoldTheJobFourCharactersOfItsUidTheAttemptAndTheRank) {
  const resource::TrainingJob job = builders::a_job().named("resnet-50").uid("ab12cd34");
  EXPECT_EQ(service_name(job), "resnet-50-ab12");
  EXPECT_EQ(pod_name(job, 3, 17), "resnet-50-ab12-3-17");
  const resource::Pod pod = builders::a_pod(job, 3, 17);
  EXPECT_EQ(attempt_of(pod), 3);
  EXPECT_EQ(rank_of(pod), 17);
}

TEST(Names, OfOthersHaveNeitherAttemptNorRank) {
  for (const char* name : {"web", "web-1", "web-a-1", "web-1-a", "web-1-", "-1-1x", ""}) {
    const resource::Pod pod{.metadata = {.name = name}};
    EXPECT_EQ(attempt_of(pod), -1) << name;
    EXPECT_EQ(rank_of(pod), -1) << name;
  }
}

TEST(StatusUrl, IsThePodsAddressAndStatusPort) {
  resource::Pod pod = builders::a_pod(builders::a_job(), 1, 0);
  EXPECT_EQ(status_url(kubernetes_traits(), pod), "http://10.0.0.1:29503/status");
  pod.pod_ip = "fd00::7";
  EXPECT_EQ(status_url(kubernetes_traits(), pod), "http://[fd00::7]:29503/status");
  EXPECT_EQ(request_url(kubernetes_traits(), pod), "http://[fd00::7]:29503/checkpoint");
  pod.pod_ip.clear();
  EXPECT_EQ(status_url(kubernetes_traits(), pod), std::nullopt);
}

TEST(StatusUrl, TakesThePortFromTheClustersTraits) {
  ClusterTraits traits{.address_of = [](const PodPlace& place) {
    EXPECT_EQ(place, (PodPlace{"research", "smoke-c0de", "smoke-c0de-2-1", 2, 1}));
    return PodAddress{.host = "127.0.0.1", .status_port = 4711};
  }};
  EXPECT_EQ(status_url(traits, builders::a_pod(builders::a_job(), 2, 1)), "http://10.0.0.2:4711/status");
}

}  // namespace
}  // namespace trainyard::plan
