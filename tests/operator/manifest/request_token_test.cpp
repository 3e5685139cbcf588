#include "operator/manifest/request_token.hpp"

#include <gtest/gtest.h>

#include <set>

#include "operator/manifest/objects.hpp"
#include "operator/resource/resources.hpp"
#include "tests/builders/a_job.hpp"

namespace trainyard::manifest {
namespace {

using builders::a_job;
using builders::JobBuilder;

api::TrainingJob attempted(const JobBuilder& job, std::int64_t attempt = 2) {
  api::TrainingJob built = job;
  built.status.attempt = attempt;
  built.status.replicas.desired = built.spec.replicas;
  return built;
}

/// The token that the operator reads back from the pod that it made.
std::string token_of_pod(const api::TrainingJob& job, const std::string& key) {
  nlohmann::json pod = build_pod(job, 0, kubernetes_traits(), {.worker_image_cpu = "w", .request_key = key});
  pod["metadata"]["uid"] = "p0";
  return resource::parse_pod(pod)->request_token;
}

TEST(RequestToken, IsAFunctionOfKeyJobAttemptAndRank) {
  const auto job = attempted(a_job());
  EXPECT_EQ(request_token("key", job, 0), "fe1da688274963dbf3857a671be54fd6") << "HMAC-SHA256 of uid/attempt/rank";
  const std::set<std::string> tokens{request_token("key", job, 0), request_token("other key", job, 0),
                                     request_token("key", job, 1), request_token("key", attempted(a_job(), 3), 0),
                                     request_token("key", attempted(a_job().uid("another")), 0)};
  EXPECT_EQ(tokens.size(), 5U);
}

TEST(RequestToken, IsInThePodsOfJobsThatCanSaveAndIsReadBackFromThere) {
  const auto job = attempted(a_job().checkpoint());
  EXPECT_EQ(token_of_pod(job, "key"), request_token("key", job, 0));
  EXPECT_EQ(token_of_pod(job, ""), "") << "without a key there is none";
  EXPECT_EQ(token_of_pod(attempted(a_job()), "key"), "") << "nowhere to save to";
  EXPECT_EQ(token_of_pod(attempted(a_job().checkpoint().without_training().container()), "key"), "");
}

TEST(RequestToken, IsReadFromThePodThatAnotherOperatorMade) {
  auto pod = build_pod(attempted(a_job().checkpoint()), 0, kubernetes_traits(),
                       {.worker_image_cpu = "w", .request_key = "of a leader that is gone"});
  pod["metadata"]["uid"] = "p0";
  EXPECT_EQ(resource::parse_pod(pod)->request_token, request_token("of a leader that is gone", attempted(a_job()), 0));
}

}  // namespace
}  // namespace trainyard::manifest
