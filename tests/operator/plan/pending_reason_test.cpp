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
      {an_observed().waiting(1, "CreateContainerConfigError", "references non-existent secret key"), "ContainerConfig"},
      {an_observed().waiting(1, "CreateContainerConfigError", R"(object "a" not found)"), "ContainerConfig"},
      {an_observed().waiting(1, "CreateContainerError", R"(secret "a" not found)"), "ContainerConfig"},
      {an_observed().waiting(1, "RunContainerError", "no such device"), "ContainerConfig"},
      {an_observed().waiting(1, "ContainerCreating"), ""},
      {an_observed().waiting(1, "AWordOfTheFuture", "not found"), ""},
      {an_observed(), ""},
  };
  for (const auto& [observed, reason] : cases) {
    const auto found = reason_of(observed);
    EXPECT_EQ(found ? found->reason : "", reason);
  }
}

TEST(FindPendingReason, KnowsEveryWordForAnImageThatDoesNotComeAlsoWithoutAMessage) {
  for (const char* word : {"ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull",
                           "RegistryUnavailable", "ImageInspectError"}) {
    EXPECT_EQ(reason_of(an_observed().waiting(1, word)), (PendingReason{"ImagePull", std::string{"pod 1: "} + word}));
    EXPECT_EQ(reason_of(an_observed().waiting(1, word, "denied")), (PendingReason{"ImagePull", "pod 1: denied"}));
  }
  EXPECT_EQ(reason_of(an_observed().waiting(1, "RunContainerError")),
            (PendingReason{"ContainerConfig", "pod 1: RunContainerError"}));
  EXPECT_EQ(reason_of(an_observed().waiting(1, "RunContainerError", "no such device")),
            (PendingReason{"ContainerConfig", "pod 1: no such device"}));
}

TEST(FindPendingReason, SaysWhyAnInitContainerDoesNotRun) {
  struct Row {
    std::string sentence;
    std::vector<resource::ContainerStatus> init_containers;
    std::optional<PendingReason> expected;
  };
  const resource::ContainerStatus no_image{
      .name = "fetch", .waiting_reason = "ErrImagePull", .waiting_message = "no such image"};
  const resource::ContainerStatus no_secret{
      .name = "fetch", .waiting_reason = "CreateContainerConfigError", .waiting_message = R"(secret "keys" not found)"};
  const resource::ContainerStatus running{.name = "first", .is_running = true};
  const std::vector<Row> rows{
      {"its image does not come", {no_image}, PendingReason{"ImagePull", "pod 1: no such image"}},
      {"its Secret is missing",
       {running, no_secret},
       PendingReason{"SecretMissing", R"(pod 1: secret "keys" not found)"}},
      {"it runs", {running}, {}},
  };
  for (const Row& row : rows) {
    const Observed observed = an_observed().waiting(1, "PodInitializing").with([&](Observed& changed) {
      changed.pods.at(1).init_containers = row.init_containers;
    });
    EXPECT_EQ(reason_of(observed), row.expected) << row.sentence;
  }
}

TEST(FindPendingReason, DistinguishesAGateFromAFullClusterAndIgnoresPodsThatHaveANode) {
  const auto scheduled = [](bool is_true, const std::string& reason) {
    return an_observed().unscheduled(1, "gates: quota").with([=](Observed& observed) {
      observed.pods.at(1).conditions.at(0).is_true = is_true;
      observed.pods.at(1).conditions.at(0).reason = reason;
    });
  };
  EXPECT_EQ(reason_of(scheduled(false, "SchedulingGated")), (PendingReason{"SchedulingGated", "pod 1: gates: quota"}));
  EXPECT_EQ(reason_of(scheduled(false, "Unschedulable")), (PendingReason{"Unschedulable", "pod 1: gates: quota"}));
  EXPECT_EQ(reason_of(scheduled(false, "SchedulerError")), std::nullopt);
  EXPECT_EQ(reason_of(scheduled(true, "Unschedulable")), std::nullopt);
  EXPECT_EQ(reason_of(an_observed().unscheduled(1, "x").with(
                [](Observed& observed) { observed.pods.at(1).conditions.clear(); })),
            std::nullopt);
}

TEST(FindPendingReason, SaysOfAClaimThatItIsMissingOnlyWhereItIs) {
  EXPECT_EQ(reason_of(an_observed().unscheduled(1, "persistentvolumeclaim \"datasets\" is being deleted"))->reason,
            "Unschedulable");
  EXPECT_EQ(reason_of(an_observed().unscheduled(1, "node \"a\" not found"))->reason, "Unschedulable");
}

TEST(FindPendingReason, NamesTheRankTheMessageAndHowManyMore) {
  const auto reason =
      reason_of(an_observed(builders::a_job().replicas(3)).unscheduled(1, "no room").unscheduled(2, "no room"));
  EXPECT_EQ(reason, (PendingReason{"Unschedulable", "pod 1: no room (and 1 more)"}));
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
    EXPECT_EQ(reason_of(waiting), (PendingReason{one.reason, "pod 1: " + one.message}));
    const auto running =
        an_observed().with([&](Observed& observed) { observed.mount_failures["smoke-c0de-1-1"] = one.message; });
    EXPECT_EQ(reason_of(running), std::nullopt) << "it was mounted in the end";
    const auto crashed = an_observed().waiting(1, "CrashLoopBackOff").with([&](Observed& observed) {
      observed.mount_failures["smoke-c0de-1-1"] = one.message;
    });
    EXPECT_EQ(reason_of(crashed), std::nullopt) << "it has run, so it was mounted";
  }
}

TEST(FindPendingReason, ReportsVolumesThatDoNotMountAfterHalfAMinute) {
  const auto reason = reason_of(an_observed().waiting(1, "ContainerCreating"), start + 31s);
  ASSERT_TRUE(reason);
  EXPECT_EQ(reason->reason, "ContainerCreating");
  EXPECT_EQ(
      reason->message,
      "pod 1: the node still prepares volumes and network; `kubectl describe pod smoke-c0de-1-1` shows what fails");
}

TEST(FindPendingReason, CountsTheTimeOfInitContainersTooAndNoneBeforeThereIsANode) {
  EXPECT_TRUE(reason_of(an_observed().waiting(1, "PodInitializing"), start + 30s));
  const Observed nowhere =
      an_observed().waiting(1).with([](Observed& observed) { observed.pods.at(1).node_name.clear(); });
  EXPECT_EQ(reason_of(nowhere, start + 1h), std::nullopt);
}

TEST(FindPendingReason, IsRequeuedWhenACreationTakesTooLong) {
  const Observed observed =
      an_observed().phase(api::Phase::starting).waiting(0, "ContainerCreating").waiting(1, "PodInitializing");
  EXPECT_EQ(make_plan(observed, start + 10s).requeue_after, 20s);
  const Plan late = make_plan(observed, start + 30s);
  EXPECT_EQ(late.status->reason, "ContainerCreating");
  EXPECT_FALSE(late.requeue_after);
}

TEST(TimeUntilPending, IsThatOfTheContainerWhichIsHeldUpFirst) {
  const auto created = [](Time first, std::optional<Time> second) {
    return an_observed().waiting(0).waiting(1).with([=](Observed& observed) {
      observed.pods.at(0).metadata.creation_time = first;
      observed.pods.at(1).metadata.creation_time = second;
    });
  };
  const auto left = [](const Observed& observed) { return time_until_pending(members_of(observed), start + 20s); };
  using Left = std::optional<std::chrono::milliseconds>;
  EXPECT_EQ(left(created(start, start + 5s)), Left{10s});
  EXPECT_EQ(left(created(start + 5s, start)), Left{10s});
  EXPECT_EQ(left(created(start - 10s, start + 5s)), Left{15s}) << "what is held up already changes no more";
  EXPECT_EQ(left(created(start, std::nullopt)), Left{10s});
  EXPECT_EQ(left(created(start - 10s, start - 10s + 1ms)), Left{1ms});
  EXPECT_EQ(left(an_observed()), Left{}) << "all run";
  EXPECT_EQ(left(an_observed().unscheduled(1, "no room")), Left{}) << "no node has it";
  EXPECT_EQ(left(an_observed().waiting(1, "ErrImagePull")), Left{});
}

TEST(FindPendingReason, SaysNothingOfAContainerOfWhichNobodyKnowsForHowLongItIsCreated) {
  const Observed observed =
      an_observed().waiting(1).with([](Observed& changed) { changed.pods.at(1).metadata.creation_time.reset(); });
  EXPECT_EQ(reason_of(observed, start + 1h), std::nullopt);
  EXPECT_TRUE(reason_of(an_observed().waiting(1), start + 30s));
  EXPECT_FALSE(reason_of(an_observed().waiting(1), start + 29s));
}

TEST(RefusalReason, DistinguishesQuotaFromOtherAdmission) {
  EXPECT_EQ(refusal_reason({.message = "pods is forbidden: exceeded quota: small"}).reason, "QuotaExceeded");
  EXPECT_EQ(refusal_reason({.message = "violates PodSecurity \"restricted\""}).reason, "AdmissionRefused");
}

}  // namespace
}  // namespace trainyard::plan
