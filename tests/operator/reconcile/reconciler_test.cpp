#include "operator/reconcile/reconciler.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "operator/plan/conditions.hpp"
#include "operator/plan/request_status.hpp"
#include "tests/fakes/refusing_api.hpp"
#include "tests/operator/reconcile/reconciler_fixture.hpp"

namespace trainyard::reconcile {
namespace {

using api::Phase;
using builders::a_job;
using fakes::ApiCall;
using fakes::Fault;
using nlohmann::json;
using namespace std::chrono_literals;

TEST_F(ReconcilerTest, KnowsWhatItDidWithoutWaitingForAWatch) {
  apply();
  work();
  EXPECT_EQ(stored().status.attempt, 1);
  EXPECT_TRUE(stored().status.is_formed);
  EXPECT_EQ(caches.pods.size(), 2U);
  EXPECT_EQ(verbs_since(0),
            (std::vector<std::string>{"update status trainingjobs", "update status trainingjobs", "create services",
                                      "create pods", "create pods", "patch services", "update status trainingjobs"}));
}

TEST_F(ReconcilerTest, DoesNothingWhenTheStatusCannotBeWritten) {
  apply();
  faulty.set_schedule([](const ApiCall& call) -> std::optional<Fault> {
    return call.verb == "update status" ? std::optional{Fault{}} : std::nullopt;
  });
  for (int turn = 0; turn < 5; ++turn) EXPECT_FALSE(reconciler->reconcile(key));
  EXPECT_EQ(verbs_since(0), std::vector<std::string>{});
}

TEST_F(ReconcilerTest, ActsOnNoPlanWhoseStatusMetAConflict) {
  apply();
  fail_pods({ErrorKind::throttled, "slow down"});
  for (int turn = 0; turn < 6; ++turn) static_cast<void>(reconciler->reconcile(key));
  ASSERT_EQ(stored().status.attempt, 1);
  faulty.set_schedule({});
  json asked;
  asked["metadata"]["annotations"][std::string{plan::checkpoint_request_annotation}] = "lunch";
  caches.jobs.put(
      *api::parse_training_job(*api.patch(kube::training_jobs, "research", "smoke", kube::PatchType::merge, asked)));
  // The cache does not know of this yet.
  ASSERT_TRUE(
      api.patch(kube::training_jobs, "research", "smoke", kube::PatchType::merge, {{"spec", {{"suspend", true}}}}));
  const auto done = faulty.done().size();
  EXPECT_EQ(*reconciler->reconcile(key), 0ms);
  EXPECT_EQ(verbs_since(done), std::vector<std::string>{"get trainingjobs"}) << "the pods are not wanted any more";
  work();
  EXPECT_EQ(stored().status.phase, Phase::suspended);
  EXPECT_EQ(api.list(kube::pods, {})->items.size(), 0U);
}

TEST_F(ReconcilerTest, KeepsAJobThatWasAppliedAgainWhenItsPredecessorsTimeToLiveEnds) {
  apply(a_job().ttl(10s));
  work();
  end_all_pods(1);
  work();
  ASSERT_EQ(stored().status.phase, Phase::succeeded);
  ASSERT_TRUE(api.remove(kube::training_jobs, "research", "smoke"));
  const json again = *api.create(kube::training_jobs, "research", a_job().ttl(10s).manifest());
  clock.advance(11s);
  work();
  const auto present = api.get(kube::training_jobs, "research", "smoke");
  ASSERT_TRUE(present) << "the cache still has the one that ended";
  EXPECT_EQ(present->at("metadata").at("uid"), again.at("metadata").at("uid"));
  EXPECT_FALSE(present->at("metadata").contains("deletionTimestamp"));
}

TEST_F(ReconcilerTest, WorksWithoutTextsIfTheServerRefusesTheStatus) {
  apply(a_job().checkpoint());
  work();
  // A poller bounds such a URI; this one has not.
  progress.report = plan::ProgressReport{.attempt = 1, .step = 3};
  progress.report->checkpoint = api::CheckpointStatus{.step = 3, .uri = std::string(3'000, 'x')};
  const auto reconcile_often = [&] {
    for (int turn = 0; turn < 10; ++turn) static_cast<void>(reconciler->reconcile(key));
  };
  reconcile_often();
  EXPECT_TRUE(plan::is_condition_true(stored().status, plan::condition_status_refused));
  EXPECT_EQ(stored().status.checkpoint->step, 3);
  ASSERT_TRUE(api.remove(kube::pods, "research", manifest::pod_name(stored(), 1, 1)));
  caches.pods.erase({.name_space = "research", .name = manifest::pod_name(stored(), 1, 1)});
  reconcile_often();
  EXPECT_EQ(stored().status.attempt, 2);
  EXPECT_TRUE(stored().status.is_formed) << "a lost rank is replaced all the same";
  const auto done = faulty.done().size();
  const auto again = reconciler->reconcile(key);
  EXPECT_TRUE(!again || *again != 0ms) << "a refusal is no reason to hurry";
  progress.report = plan::ProgressReport{.attempt = 2, .step = 4};
  reconcile_often();
  EXPECT_FALSE(plan::is_condition_true(stored().status, plan::condition_status_refused));
  EXPECT_EQ(stored().status.progress->step, 4);
  EXPECT_GT(faulty.done().size(), done);
}

TEST_F(ReconcilerTest, FailsWithBackoffWhereTheServerRefusesEvenTheDecisions) {
  apply();
  faulty.set_schedule([](const ApiCall& call) -> std::optional<Fault> {
    if (call.verb != "update status") return std::nullopt;
    return Fault{.error = {ErrorKind::invalid, "status.phase: Unsupported value"}};
  });
  const auto again = reconciler->reconcile(key);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().kind, ErrorKind::invalid);
  EXPECT_EQ(verbs_since(0), std::vector<std::string>{});
}

TEST_F(ReconcilerTest, RequeuesAtOnceOnlyIfItHasChangedSomething) {
  // An older CRD, which does not know a field of the status.
  prune = [](json& job) {
    if (job.contains("status")) job["status"].erase("selector");
  };
  apply();
  int hurried = 0;
  for (int turn = 0; turn < 50; ++turn) {
    const auto again = reconciler->reconcile(key);
    if (again && *again == 0ms) ++hurried;
  }
  EXPECT_EQ(stored().status.attempt, 1);
  EXPECT_TRUE(stored().status.is_formed) << "the field holds up nothing";
  EXPECT_LT(hurried, 10) << "every write of the same status is in vain";
}

TEST_F(ReconcilerTest, WaitsWhereAConflictShowsNothingNew) {
  apply();
  faulty.set_schedule([](const ApiCall& call) -> std::optional<Fault> {
    if (call.verb != "update status") return std::nullopt;
    return Fault{.error = {ErrorKind::conflict, "the object has been modified"}};
  });
  const auto again = reconciler->reconcile(key);
  ASSERT_TRUE(again);
  EXPECT_EQ(*again, 1s);
}

TEST_F(ReconcilerTest, DecidesAgainOnWhatSomebodyElseWrote) {
  apply();
  ASSERT_TRUE(
      api.patch(kube::training_jobs, "research", "smoke", kube::PatchType::merge, {{"spec", {{"suspend", true}}}}));
  work();
  EXPECT_EQ(stored().status.phase, Phase::suspended);
  EXPECT_EQ(caches.pods.size(), 0U);
}

TEST_F(ReconcilerTest, ReadsTheJobWhenItsPodsAreAheadOfTheCache) {
  apply();
  const auto old_job = *caches.jobs.find(key);
  work();
  // Another process that has the pods but not yet the job's status.
  caches.jobs.erase(key);
  caches.jobs.put(old_job);
  restart();
  const auto done = faulty.done().size();
  work();
  EXPECT_EQ(verbs_since(done), std::vector<std::string>{"get trainingjobs"});
  EXPECT_EQ(caches.jobs.find(key)->status.attempt, 1);
}

TEST_F(ReconcilerTest, TakesNoPodOfAnotherNamespaceOrNameForOneOfTheJobs) {
  apply();
  work();
  forge_pod("zz", "smoke-" + stored().metadata.uid.substr(0, 4) + "-1-0");
  for (const char* numbers : {"-9-9", "-0-0", "-1-7", "-1-x"}) {
    forge_pod("aa", manifest::owned_name(stored()) + numbers);
    forge_pod("zz", manifest::owned_name(stored()) + numbers);
  }
  for (const char* name : {"x-9-9", "x-0-0", "x-1-1"}) forge_pod("research", name);
  for (const char* numbers : {"-0-0", "-1-7", "-1-x", "-01-1"}) {
    forge_pod("research", manifest::owned_name(stored()) + numbers);
  }
  const auto done = faulty.done().size();
  const auto requeue = reconciler->reconcile(key);
  ASSERT_TRUE(requeue);
  EXPECT_NE(*requeue, 0ms);
  EXPECT_EQ(verbs_since(done), std::vector<std::string>{});
  clock.advance(1s);
  const std::string pod = manifest::pod_name(stored(), 1, 1);
  ASSERT_TRUE(api.remove(kube::pods, "research", pod));
  caches.pods.erase({.name_space = "research", .name = pod});
  work();
  EXPECT_EQ(stored().status.attempt, 2) << "the job runs as without them";
  EXPECT_TRUE(stored().status.is_formed);
}

TEST_F(ReconcilerTest, AsksOnceAboutAPodOfAnAttemptThatHasNotBegunAndThenIgnoresIt) {
  apply();
  work();
  forge_pod("research", manifest::pod_name(stored(), 9, 9));
  auto done = faulty.done().size();
  work();
  EXPECT_EQ(verbs_since(done), std::vector<std::string>{"get trainingjobs"});
  const std::string pod = manifest::pod_name(stored(), 1, 1);
  ASSERT_TRUE(api.remove(kube::pods, "research", pod));
  caches.pods.erase({.name_space = "research", .name = pod});
  done = faulty.done().size();
  work();
  EXPECT_EQ(stored().status.attempt, 2);
  EXPECT_EQ(std::ranges::count(verbs_since(done), "get trainingjobs"), 0);
  forge_pod("research", manifest::pod_name(stored(), 10, 0));
  done = faulty.done().size();
  work();
  EXPECT_EQ(verbs_since(done), std::vector<std::string>{"get trainingjobs"});
}

TEST_F(ReconcilerTest, SaysWhichPodIsInTheWayOfAnAttempt) {
  apply();
  work();
  const std::string squatter = manifest::pod_name(stored(), 2, 1);
  forge_pod("research", squatter);
  work();
  const std::string pod = manifest::pod_name(stored(), 1, 1);
  ASSERT_TRUE(api.remove(kube::pods, "research", pod));
  caches.pods.erase({.name_space = "research", .name = pod});
  work();
  clock.advance(10s);
  work();
  EXPECT_EQ(stored().status.attempt, 2);
  EXPECT_EQ(stored().status.reason, "NameConflict");
  EXPECT_NE(stored().status.message.find(squatter), std::string::npos) << stored().status.message;
  ASSERT_TRUE(api.remove(kube::pods, "research", squatter));
  caches.pods.erase({.name_space = "research", .name = squatter});
  clock.advance(600s);
  work();
  EXPECT_TRUE(stored().status.is_formed);
}

TEST_F(ReconcilerTest, ShowsOnlyTheServiceAndTheEventsOfItsOwnPods) {
  apply();
  work();
  caches.services.put(*resource::parse_service(forged(kube::services, "aa", manifest::service_name(stored()))));
  const std::string pod = manifest::pod_name(stored(), 1, 1);
  const json stored_pod = *api.get(kube::pods, "research", pod);
  const auto fail_mount = [&](const std::string& name_space, const std::string& regarding) {
    const json event{
        {"metadata", {{"name", name_space + regarding}, {"namespace", name_space}, {"uid", name_space + regarding}}},
        {"note", "of " + name_space},
        {"regarding", {{"name", regarding}, {"uid", stored_pod.at("metadata").at("uid")}}}};
    caches.mount_failures.put(*resource::parse_mount_failure(event));
  };
  fail_mount("zz", pod);
  fail_mount("research", "other");
  const plan::Observed observed = observe(stored(), caches, {}, progress, {});
  ASSERT_TRUE(observed.service);
  EXPECT_EQ(observed.service->metadata.name_space, "research");
  EXPECT_TRUE(observed.mount_failures.empty());
  fail_mount("research", pod);
  EXPECT_EQ(observe(stored(), caches, {}, progress, {}).mount_failures,
            (std::map<std::string, std::string>{{pod, "of research"}}));
}

TEST_F(ReconcilerTest, DoesNotPlanForAJobOlderThanItsOwnLastWrite) {
  apply();
  const auto old_job = *caches.jobs.find(key);
  work();
  caches.jobs.erase(key);
  caches.jobs.put(old_job);
  for (const auto& pod : caches.pods.keys()) caches.pods.erase(pod);
  const auto done = faulty.done().size();
  ASSERT_TRUE(reconciler->reconcile(key));
  EXPECT_EQ(verbs_since(done), std::vector<std::string>{"get trainingjobs"});
}

/// Shows jobs as they were once a test says so, as after a restore of etcd.
class RestoredApi final : public fakes::RefusingApi {
 public:
  explicit RestoredApi(kube::Api& api) : api_{api} {}
  void set_back(json job) { job_ = std::move(job); }

  Result<json> get(const kube::ResourceType& type, std::string_view name_space, std::string_view name) override {
    return job_ && type == kube::training_jobs ? Result<json>{*job_} : api_.get(type, name_space, name);
  }
  Result<json> create(const kube::ResourceType& type, std::string_view name_space, const json& object,
                      const kube::CreateOptions& options) override {
    return api_.create(type, name_space, object, options);
  }
  Result<json> update_status(const kube::ResourceType& type, std::string_view name_space, const json& object) override {
    if (job_) writes_.push_back(object.at("metadata").at("resourceVersion"));
    return job_ ? fail(ErrorKind::unavailable, "no") : api_.update_status(type, name_space, object);
  }
  /// Versions under which the status was written after the restore.
  [[nodiscard]] const std::vector<std::string>& writes() const { return writes_; }

 private:
  kube::Api& api_;
  std::optional<json> job_;
  std::vector<std::string> writes_;
};

TEST_F(ReconcilerTest, PlansForAJobWhoseLaterVersionsTheServerHasLost) {
  apply();
  const json before = *api.get(kube::training_jobs, "research", "smoke");
  RestoredApi restored{api};
  reconciler = std::make_unique<Reconciler>(restored, clock, caches, progress,
                                            ReconcilerOptions{.settings = {.worker_image_cpu = "worker:cpu"}});
  ASSERT_TRUE(reconciler->reconcile(key));
  restored.set_back(before);
  caches.jobs.erase(key);
  caches.jobs.put(*api::parse_training_job(before));
  const auto caught_up = reconciler->reconcile(key);
  ASSERT_TRUE(caught_up);
  EXPECT_EQ(*caught_up, std::optional{0ms});
  EXPECT_FALSE(reconciler->reconcile(key)) << "the write is refused";
  EXPECT_EQ(restored.writes(), (std::vector{before.at("metadata").at("resourceVersion").get<std::string>()}));
}

TEST_F(ReconcilerTest, AsksTheServerBeforeItTakesAPodForLost) {
  apply();
  work();
  caches.pods.erase({.name_space = "research", .name = manifest::pod_name(stored(), 1, 1)});
  work();
  EXPECT_EQ(stored().status.attempt, 1);
  EXPECT_EQ(caches.pods.size(), 2U);
}

TEST_F(ReconcilerTest, TakesAPodForLostThatTheServerDoesNotHave) {
  apply();
  work();
  const std::string pod = manifest::pod_name(stored(), 1, 1);
  ASSERT_TRUE(api.remove(kube::pods, "research", pod));
  caches.pods.erase({.name_space = "research", .name = pod});
  work();
  EXPECT_EQ(stored().status.attempt, 2);
}

TEST_F(ReconcilerTest, DeletesAPodWhoseLabelWasRemovedAndReplacesItsGroup) {
  apply();
  work();
  const std::string pod = manifest::pod_name(stored(), 1, 1);
  take_label_off(kube::pods, caches.pods, pod);
  work();
  EXPECT_EQ(stored().status.attempt, 2);
  EXPECT_FALSE(api.get(kube::pods, "research", pod)) << "no watch would ever tell of it again";
}

TEST_F(ReconcilerTest, MakesAServiceAndAPodAgainThatLostTheirLabelsWhileTheGroupFormed) {
  apply();
  int calls_left = 3;  // the dry run, the service, rank 0's pod, and then no more
  faulty.set_schedule([&](const ApiCall& call) -> std::optional<Fault> {
    if (call.verb != "create" || calls_left-- > 0) return std::nullopt;
    return Fault{.error = {ErrorKind::throttled, "slow down"}};
  });
  for (int turn = 0; turn < 10; ++turn) static_cast<void>(reconciler->reconcile(key));
  const std::string pod = manifest::pod_name(stored(), 1, 0);
  const std::string uid = (*api.get(kube::pods, "research", pod))["metadata"]["uid"];
  take_label_off(kube::pods, caches.pods, pod);
  take_label_off(kube::services, caches.services, manifest::service_name(stored()));
  faulty.set_schedule({});
  ASSERT_FALSE(reconciler->reconcile(key)) << "a pause, while the service goes";
  work();
  EXPECT_TRUE(stored().status.is_formed);
  EXPECT_NE((*api.get(kube::pods, "research", pod))["metadata"]["uid"], uid);
  EXPECT_EQ(caches.services.size(), 1U);
}

TEST_F(ReconcilerTest, PausesBetweenReconcilesForAPodThatOnlyTheServerKnows) {
  apply();
  work();
  const std::string pod = manifest::pod_name(stored(), 1, 1);
  const std::string uid = (*api.get(kube::pods, "research", pod))["metadata"]["uid"];
  caches.pods.erase({.name_space = "research", .name = pod}, uid);
  const auto requeue = reconciler->reconcile(key);
  ASSERT_TRUE(requeue);
  EXPECT_EQ(*requeue, 1s);
  EXPECT_EQ(stored().status.attempt, 1);
}

TEST_F(ReconcilerTest, CountsTheRefusalsOfConcurrentCreatesAsOne) {
  apply(a_job().replicas(20));
  faulty.set_schedule([](const ApiCall& call) -> std::optional<Fault> {
    if (call.verb != "create" || call.plural != "pods" || call.is_dry_run || call.name.ends_with("-0"))
      return std::nullopt;
    return Fault{.error = {ErrorKind::forbidden, "exceeded quota: small"}};
  });
  std::optional<std::chrono::milliseconds> requeue = 0ms;
  for (int turn = 0; turn < 20 && requeue == 0ms; ++turn) requeue = *reconciler->reconcile(key);
  ASSERT_TRUE(requeue);
  EXPECT_LE(*requeue, 1s);
  EXPECT_EQ(stored().status.reason, "QuotaExceeded");
}

TEST_F(ReconcilerTest, ReportsThatCreatesFailOnceTheyHaveForAWhile) {
  apply();
  fail_pods({ErrorKind::unavailable, "create pods: failed calling webhook: no endpoints available"});
  for (int turn = 0; turn < 5; ++turn) static_cast<void>(reconciler->reconcile(key));
  clock.advance(4s);
  EXPECT_FALSE(reconciler->reconcile(key));
  EXPECT_EQ(stored().status.phase, Phase::starting);
  clock.advance(1s);
  EXPECT_FALSE(reconciler->reconcile(key));
  EXPECT_EQ(stored().status.phase, Phase::pending);
  EXPECT_EQ(stored().status.reason, "ApiUnavailable");
  EXPECT_EQ(stored().status.message, "create pods: failed calling webhook: no endpoints available");
  faulty.set_schedule({});
  work();
  EXPECT_TRUE(stored().status.is_formed);
  EXPECT_EQ(stored().status.phase, Phase::starting);
}

TEST_F(ReconcilerTest, HasEveryPodCheckedStrictly) {
  apply();
  std::vector<bool> pods;
  faulty.set_schedule([&](const ApiCall& call) -> std::optional<Fault> {
    if (call.verb == "create" && call.plural == "pods") pods.push_back(call.is_strict);
    return std::nullopt;
  });
  work();
  EXPECT_EQ(pods, std::vector<bool>(3, true)) << "a template may be edited after its dry run";
}

TEST_F(ReconcilerTest, FindsItsOwnPodWhereTheReplyOfTheCreateWasLost) {
  apply();
  bool is_lost = false;
  faulty.set_schedule([&](const ApiCall& call) -> std::optional<Fault> {
    if (is_lost || call.verb != "create" || call.plural != "pods" || call.is_dry_run) return std::nullopt;
    is_lost = true;
    return Fault{.kind = Fault::Kind::reply_lost};
  });
  work();
  EXPECT_TRUE(stored().status.is_formed);
  EXPECT_EQ(caches.pods.size(), 2U);
}

TEST_F(ReconcilerTest, PassesOnTheRetryAfterOfAThrottlingServer) {
  apply();
  faulty.set_schedule([](const ApiCall&) {
    return std::optional{Fault{.error = {ErrorKind::throttled, "slow down", 3s}}};
  });
  const auto requeue = reconciler->reconcile(key);
  ASSERT_FALSE(requeue);
  EXPECT_EQ(requeue.error().retry_after, 3s);
}

TEST_F(ReconcilerTest, SendsEventsOnlyAfterTheStatusIsStored) {
  apply();
  work();
  json job = *api.get(kube::training_jobs, "research", "smoke");
  ASSERT_TRUE(api.patch(kube::training_jobs, "research", "smoke", kube::PatchType::merge,
                        {{"spec", {{"activeDeadlineSeconds", 1}}}}));
  caches.jobs.put(*api::parse_training_job(*api.get(kube::training_jobs, "research", "smoke")));
  clock.advance(2s);
  const auto done = faulty.done().size();
  ASSERT_TRUE(reconciler->reconcile(key));
  EXPECT_EQ(verbs_since(done), (std::vector<std::string>{"update status trainingjobs", "create events"}));
  const json event = api.list(kube::core_events, {})->items.at(0);
  EXPECT_EQ(event.at("reason"), "Failed");
  EXPECT_EQ(event.at("type"), "Warning");
  EXPECT_EQ(event.at("involvedObject").at("uid"), job.at("metadata").at("uid"));
}

TEST_F(ReconcilerTest, ShowsEveryNewReasonToWaitInTheOneEventOfPending) {
  apply();
  std::vector<std::string> messages;
  for (const char* refusal : {"exceeded quota: small", "violates PodSecurity"}) {
    fail_pods({ErrorKind::forbidden, refusal});
    work();
    clock.advance(60s);
    const auto events = api.list(kube::core_events, {})->items;
    ASSERT_EQ(events.size(), 1U);
    messages.push_back(events[0].at("message"));
  }
  EXPECT_EQ(messages, (std::vector<std::string>{"QuotaExceeded: exceeded quota: small",
                                                "AdmissionRefused: violates PodSecurity"}));
}

TEST_F(ReconcilerTest, ForgetsAJobThatIsGone) {
  apply();
  work();
  caches.jobs.erase(key);
  const auto requeue = reconciler->reconcile(key);
  ASSERT_TRUE(requeue);
  EXPECT_FALSE(requeue->has_value());
}

TEST_F(ReconcilerTest, StopsAtAJobThatWasDeletedMeanwhile) {
  apply();
  ASSERT_TRUE(api.remove(kube::training_jobs, "research", "smoke"));
  work();
  EXPECT_FALSE(caches.jobs.find(key)) << "until the watch says the same";
}

}  // namespace
}  // namespace trainyard::reconcile
