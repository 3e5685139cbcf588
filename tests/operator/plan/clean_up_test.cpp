#include "operator/plan/clean_up.hpp"

#include <gmock/gmock.h>

#include "tests/builders/an_observed.hpp"

namespace trainyard::plan {
namespace {

using builders::an_observed;
using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> names_of(const std::vector<Action>& actions) {
  std::vector<std::string> names;
  for (const Action& action : actions) names.push_back(std::get<DeletePod>(action).name);
  return names;
}

/// Attempt 2 has begun; of attempt 1, rank 1's worker ended with exit code 7 and its pod has not been reported as
/// Failed yet.
Observed with_an_ending_pod() {
  return an_observed().ended(1, 7).with([](Observed& observed) {
    observed.pods.at(1).phase = resource::PodPhase::running;
    observed.job.status.attempt = 2;
  });
}

TEST(CleanUpOlderAttempts, LeavesAPodWhoseContainersEndedForItsLog) {
  const Observed observed = with_an_ending_pod();
  EXPECT_THAT(names_of(clean_up_older_attempts(observed)), ElementsAre(observed.pods.at(0).metadata.name));
}

TEST(CleanUpOlderAttempts, RemovesAPodWhoseSidecarRunsOn) {
  Observed observed = with_an_ending_pod();
  observed.pods.at(1).containers.push_back({.name = "sidecar", .is_running = true});
  EXPECT_EQ(clean_up_older_attempts(observed).size(), 2U);
}

TEST(CleanUpOlderAttempts, RemovesEndedPodsOfAllButTheLastTwoAttempts) {
  Observed observed = an_observed().ended(0, 1).ended(1, 1);
  observed.job.status.attempt = 2;
  EXPECT_THAT(clean_up_older_attempts(observed), IsEmpty());
  observed.job.status.attempt = 3;
  EXPECT_EQ(clean_up_older_attempts(observed).size(), 2U);
}

}  // namespace
}  // namespace trainyard::plan
