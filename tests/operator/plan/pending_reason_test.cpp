#include "operator/plan/pending_reason.hpp"

#include <gtest/gtest.h>

#include "operator/plan/plan.hpp"
#include "tests/builders/an_observed.hpp"

namespace trainyard::plan {
namespace {

using builders::an_observed;
using builders::start;
using namespace std::chrono_literals;

std::optional<PendingReason> reason_of(const Observed& observed, Time now = start + 1s) {
  return find_pending_reason(observed, members_of(observed), now);
}

TEST(FindPendingReason, SaysWhyAPodWaits) {
  const std::vector<std::pair<Observed, std::string>> cases{
      {an_observed().unscheduled(1, "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."), "Unschedulable"},
      {an_observed().unscheduled(1, R"(0/1 nodes are available: persistentvolumeclaim "datasets" not found.)"),
       "ClaimMissing"},
      {an_observed().unscheduled(1, "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."),
       "ClaimPending"},
      {an_observed().waiting(1, "ImagePullBackOff", "Back-off pulling image"), "ImagePull"},
      {an_observed().waiting(1, "ErrImagePull", "not found"), "ImagePull"},
      {an_observed().waiting(1, "CreateContainerConfigError", R"(secret "s3-credentials" not found)"), "SecretMissing"},
      {an_observed().waiting(1, "CreateContainerConfigError", R"(configmap "settings" not found)"), "ConfigMapMissing"},
      {an_observed().waiting(1, "CreateContainerConfigError", "container has runAsNonRoot and image will run as root"),
       "ContainerConfig"},
      {an_observed().waiting(1, "ContainerCreating"), ""},
      {an_observed(), ""},
  };
  for (const auto& [observed, reason] : cases) {
    const auto found = reason_of(observed);
    EXPECT_EQ(found ? found->reason : "", reason);
  }
}

TEST(FindPendingReason, NamesTheRankTheMessageAndHowManyMore) {
  const auto reason =
      reason_of(an_observed(builders::a_job().replicas(3)).unscheduled(1, "no room").unscheduled(2, "no room"));
  EXPECT_EQ(reason, (PendingReason{"Unschedulable", "rank 1: no room (and 1 more)"}));
}

TEST(FindPendingReason, SaysAtOnceWhatTheKubeletSaysOfVolumesThatDoNotMount) {
  struct Case {
    std::string message;
    std::string reason;
  };
  const std::vector<Case> cases{
      {R"(MountVolume.SetUp failed for volume "keys" : secret "not-yet" not found)", "SecretMissing"},
      {R"(MountVolume.SetUp failed for volume "settings" : configmap "not-yet" not found)", "ConfigMapMissing"},
      {R"(MountVolume.SetUp failed for volume "nfs" : mount failed: exit status 32)", "VolumeMount"}};
  for (const Case& one : cases) {
    const auto waiting = an_observed().waiting(1, "ContainerCreating").with([&](Observed& observed) {
      observed.mount_failures["smoke-c0de-1-1"] = one.message;
    });
    EXPECT_EQ(reason_of(waiting), (PendingReason{one.reason, "rank 1: " + one.message}));
    const auto running =
        an_observed().with([&](Observed& observed) { observed.mount_failures["smoke-c0de-1-1"] = one.message; });
    EXPECT_EQ(reason_of(running), std::nullopt) << "it was mounted in the end";
  }
}

TEST(FindPendingReason, TellsOfVolumesThatDoNotMountAfterHalfAMinute) {
  const auto reason = reason_of(an_observed().waiting(1, "ContainerCreating"), start + 31s);
  ASSERT_TRUE(reason);
  EXPECT_EQ(reason->reason, "ContainerCreating");
  EXPECT_EQ(
      reason->message,
      "rank 1: the node still prepares volumes and network; `kubectl describe pod smoke-c0de-1-1` shows what fails");
}

TEST(FindPendingReason, AsksToBeAskedAgainWhenACreationTakesTooLong) {
  const Observed observed =
      an_observed().phase(resource::Phase::starting).waiting(0, "ContainerCreating").waiting(1, "PodInitializing");
  EXPECT_EQ(make_plan(observed, start + 10s).requeue_after, 20s);
  const Plan late = make_plan(observed, start + 30s);
  EXPECT_EQ(late.status->reason, "ContainerCreating");
  EXPECT_FALSE(late.requeue_after);
}

TEST(RefusalReason, TellsQuotaFromOtherAdmission) {
  EXPECT_EQ(refusal_reason({.message = "pods is forbidden: exceeded quota: small"}).reason, "QuotaExceeded");
  EXPECT_EQ(refusal_reason({.message = "violates PodSecurity \"restricted\""}).reason, "AdmissionRefused");
}

}  // namespace
}  // namespace trainyard::plan
