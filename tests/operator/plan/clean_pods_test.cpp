#include "operator/plan/clean_pods.hpp"

#include <gmock/gmock.h>

#include <tuple>

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

/// Attempt 2 has begun. In attempt 1 rank 1's worker ended with exit code 7; its pod is not reported as Failed yet.
Observed with_an_ending_pod() {
  return an_observed().ended(1, 7).with([](Observed& observed) {
    observed.pods.at(1).phase = resource::PodPhase::running;
    observed.job.status.attempt = 2;
  });
}

TEST(DeletePodsOfOlderAttempts, LeavesAPodWhoseContainersEndedForItsLog) {
  const Observed observed = with_an_ending_pod();
  EXPECT_THAT(names_of(delete_pods_of_older_attempts(observed)), ElementsAre(observed.pods.at(0).metadata.name));
}

TEST(DeletePodsOfOlderAttempts, RemovesAPodWhoseSidecarRunsOn) {
  Observed observed = with_an_ending_pod();
  observed.pods.at(1).containers.push_back({.name = "sidecar", .is_running = true});
  EXPECT_EQ(delete_pods_of_older_attempts(observed).size(), 2U);
}

TEST(DeletePodsOfOlderAttempts, RemovesEndedPodsOfAllButTheLastTwoAttempts) {
  Observed observed = an_observed().ended(0, 1).ended(1, 1);
  observed.job.status.attempt = 2;
  EXPECT_THAT(delete_pods_of_older_attempts(observed), IsEmpty());
  observed.job.status.attempt = 3;
  EXPECT_EQ(delete_pods_of_older_attempts(observed).size(), 2U);
}

using api::CleanPods;
using api::Phase;

/// Rank 1 failed in attempt 1; in attempt 2 rank 0 ended with `exit_code` and rank 1's worker has ended beside a
/// sidecar that runs on.
Observed finished(CleanPods policy, Phase phase, int exit_code) {
  return an_observed(builders::a_job().clean_pods(policy))
      .attempt(2)
      .ended(0, exit_code)
      .ended(1, 0)
      .phase(phase)
      .with([&](Observed& observed) {
        observed.service.reset();
        resource::Pod& sidecar = observed.pods.at(1);
        sidecar.phase = resource::PodPhase::running;
        sidecar.containers.push_back({.name = "sidecar", .is_running = true});
        resource::Pod first = builders::a_pod(observed.job, 1, 1);
        first.phase = resource::PodPhase::failed;
        observed.pods.push_back(first);
        auto& attempts = observed.job.status.attempts;
        attempts = {{.number = 1, .cause = api::Cause::application, .pod = first.metadata.name}, {.number = 2}};
        if (phase != Phase::failed) return;
        attempts.back().cause = api::Cause::application;
        attempts.back().pod = observed.pods.at(0).metadata.name;
      });
}

TEST(CleanPodsOfFinishedJob, DeletesNothingThatIsBeingDeleted) {
  Observed observed = finished(CleanPods::running, Phase::succeeded, 0);
  observed.service = resource::Service{.metadata = {.name = "smoke-c0de", .uid = "s"}};
  ASSERT_EQ(clean_pods_of_finished_job(observed).size(), 2U);
  EXPECT_EQ(std::get<DeleteService>(clean_pods_of_finished_job(observed).back()).uid, "s");
  EXPECT_EQ(std::get<DeleteService>(clean_pods_of_finished_job(observed).back()).name, "smoke-c0de");
  observed.service->metadata.deletion_time = builders::start;
  EXPECT_EQ(names_of(clean_pods_of_finished_job(observed)), std::vector<std::string>{"smoke-c0de-2-1"});
  observed.pods.at(1).metadata.deletion_time = builders::start;
  EXPECT_THAT(clean_pods_of_finished_job(observed), IsEmpty());
}

TEST(CleanPodsOfFinishedJob, KeepsNoPodOfAJobThatFailedThroughNoPodsFault) {
  Observed observed = finished(CleanPods::all, Phase::failed, 93);
  observed.job.status.attempts.back().cause.reset();
  observed.job.status.attempts.back().pod.clear();
  EXPECT_EQ(clean_pods_of_finished_job(observed).size(), 3U);
  observed.job.status.attempts.clear();
  EXPECT_EQ(clean_pods_of_finished_job(observed).size(), 3U);
}

TEST(DeleteLivePods, NamesThemByTheirUid) {
  const std::vector<Action> actions = delete_live_pods(an_observed().ended(1, 0));
  ASSERT_EQ(actions.size(), 1U);
  EXPECT_EQ(std::get<DeletePod>(actions[0]), (DeletePod{.name = "smoke-c0de-1-0", .uid = "uid-of-smoke-c0de-1-0"}));
}

TEST(CleanPodsOfFinishedJob, RemovesWhatThePolicySaysAndKeepsThePodThatFailedTheJob) {
  using Names = std::vector<std::string>;
  const std::string old = "smoke-c0de-1-1";
  const std::string first = "smoke-c0de-2-0";
  const std::string live = "smoke-c0de-2-1";
  const std::vector<std::tuple<CleanPods, Phase, Names>> cases{{CleanPods::none, Phase::succeeded, {}},
                                                               {CleanPods::none, Phase::failed, {live}},
                                                               {CleanPods::running, Phase::succeeded, {live}},
                                                               {CleanPods::running, Phase::failed, {live}},
                                                               {CleanPods::all, Phase::succeeded, {first, live, old}},
                                                               {CleanPods::all, Phase::failed, {live, old}}};
  for (const auto& [policy, phase, names] : cases) {
    const int exit_code = phase == Phase::failed ? 93 : 0;
    EXPECT_EQ(names_of(clean_pods_of_finished_job(finished(policy, phase, exit_code))), names)
        << static_cast<int>(policy) << " " << to_string(phase);
  }
}

}  // namespace
}  // namespace trainyard::plan
