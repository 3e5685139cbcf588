#include "operator/reconcile/reconciler.hpp"

#include <gtest/gtest.h>

#include "local/memory_api.hpp"
#include "operator/plan/finalizer.hpp"
#include "operator/plan/names.hpp"
#include "tests/builders/a_job.hpp"
#include "tests/fakes/fake_clock.hpp"
#include "tests/fakes/faulty_api.hpp"

namespace trainyard::reconcile {
namespace {

using builders::a_job;
using fakes::ApiCall;
using fakes::Fault;
using nlohmann::json;
using resource::Phase;
using namespace std::chrono_literals;

class NoProgress final : public ProgressSource {
 public:
  std::optional<plan::ProgressReport> last_report(std::string_view) const override { return std::nullopt; }
};

/// Caches follow the server only where a test says so: what the reconciler knows beyond that it put there itself.
class ReconcilerTest : public testing::Test {
 protected:
  ReconcilerTest() { restart(); }

  void restart() {
    reconciler = std::make_unique<Reconciler>(faulty, clock, caches, progress,
                                              ReconcilerOptions{.settings = {.worker_image_cpu = "worker:cpu"}});
  }
  void apply(const builders::JobBuilder& job = a_job()) {
    const json created = *api.create(kube::training_jobs, "research", job.manifest());
    caches.jobs.put(*resource::parse_training_job(created));
  }
  /// What `kubectl label` does, and then the watch, which does not know the object any more.
  template <typename T>
  void take_label_off(const kube::ResourceType& type, control::ObjectCache<T>& cache, const std::string& name) {
    const json patch = {{"metadata", {{"labels", {{"trainyard.dev/job", nullptr}}}}}};
    const json object = *api.patch(type, "research", name, kube::PatchType::merge, patch);
    cache.erase({.name_space = "research", .name = name}, object.at("metadata").at("uid").get<std::string>());
  }
  /// Every create of a pod fails like this from now on.
  void fail_pods(const Error& error) {
    faulty.set_schedule([error](const ApiCall& call) -> std::optional<Fault> {
      if (call.verb != "create" || call.plural != "pods" || call.is_dry_run) return std::nullopt;
      return Fault{.error = error};
    });
  }
  /// Until nothing is left to do at once.
  void work() {
    for (int turn = 0; turn < 20; ++turn) {
      const auto requeue = reconciler->reconcile(key);
      if (requeue && *requeue != 0ms) return;
    }
    FAIL() << "the work does not end";
  }
  resource::TrainingJob stored() {
    return *resource::parse_training_job(*api.get(kube::training_jobs, "research", "smoke"));
  }
  std::vector<std::string> verbs_since(std::size_t begin) {
    std::vector<std::string> verbs;
    const auto done = faulty.done();
    for (std::size_t index = begin; index < done.size(); ++index)
      verbs.push_back(done[index].verb + " " + done[index].plural);
    return verbs;
  }

  const control::ObjectKey key{.name_space = "research", .name = "smoke"};
  fakes::FakeClock clock;
  local::MemoryApi api{clock};
  fakes::FaultyApi faulty{api};
  NoProgress progress;
  Caches caches;
  std::unique_ptr<Reconciler> reconciler;
};

TEST_F(ReconcilerTest, KnowsWhatItDidWithoutWaitingForAWatch) {
  apply();
  work();
  EXPECT_EQ(stored().status.attempt, 1);
  EXPECT_TRUE(stored().status.is_formed);
  EXPECT_EQ(caches.pods.size(), 2U);
  EXPECT_EQ(verbs_since(0),
            (std::vector<std::string>{"update status trainingjobs", "update status trainingjobs", "create services",
                                      "create pods", "create pods", "update status trainingjobs"}));
}

TEST_F(ReconcilerTest, DoesNothingWhenTheStatusCannotBeWritten) {
  apply();
  faulty.set_schedule([](const ApiCall& call) -> std::optional<Fault> {
    return call.verb == "update status" ? std::optional{Fault{}} : std::nullopt;
  });
  for (int turn = 0; turn < 5; ++turn) EXPECT_FALSE(reconciler->reconcile(key));
  EXPECT_EQ(verbs_since(0), std::vector<std::string>{});
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

TEST_F(ReconcilerTest, DoesNotPlanForAJobOlderThanItsOwnLastWrite) {
  apply();
  const auto old_job = *caches.jobs.find(key);
  work();
  caches.jobs.erase(key);
  caches.jobs.put(old_job);
  for (const auto& pod : caches.pods.all()) caches.pods.erase({.name_space = "research", .name = pod.metadata.name});
  const auto done = faulty.done().size();
  ASSERT_TRUE(reconciler->reconcile(key));
  EXPECT_EQ(verbs_since(done), std::vector<std::string>{"get trainingjobs"});
}

TEST_F(ReconcilerTest, AsksTheServerBeforeItTakesAPodForLost) {
  apply();
  work();
  caches.pods.erase({.name_space = "research", .name = plan::pod_name(stored(), 1, 1)});
  work();
  EXPECT_EQ(stored().status.attempt, 1);
  EXPECT_EQ(caches.pods.size(), 2U);
}

TEST_F(ReconcilerTest, TakesAPodForLostThatTheServerDoesNotHave) {
  apply();
  work();
  const std::string pod = plan::pod_name(stored(), 1, 1);
  ASSERT_TRUE(api.remove(kube::pods, "research", pod));
  caches.pods.erase({.name_space = "research", .name = pod});
  work();
  EXPECT_EQ(stored().status.attempt, 2);
}

TEST_F(ReconcilerTest, DeletesAPodWhoseLabelWasRemovedAndReplacesItsGroup) {
  apply();
  work();
  const std::string pod = plan::pod_name(stored(), 1, 1);
  take_label_off(kube::pods, caches.pods, pod);
  work();
  EXPECT_EQ(stored().status.attempt, 2);
  EXPECT_FALSE(api.get(kube::pods, "research", pod)) << "no watch would ever tell of it again";
}

TEST_F(ReconcilerTest, MakesAServiceAndAPodAnewThatLostTheirLabelsWhileTheGroupFormed) {
  apply();
  int calls_left = 3;  // the dry run, the service, rank 0's pod, and then no more
  faulty.set_schedule([&](const ApiCall& call) -> std::optional<Fault> {
    if (call.verb != "create" || calls_left-- > 0) return std::nullopt;
    return Fault{.error = {ErrorKind::throttled, "slow down"}};
  });
  for (int turn = 0; turn < 10; ++turn) static_cast<void>(reconciler->reconcile(key));
  const std::string pod = plan::pod_name(stored(), 1, 0);
  const std::string uid = (*api.get(kube::pods, "research", pod))["metadata"]["uid"];
  take_label_off(kube::pods, caches.pods, pod);
  take_label_off(kube::services, caches.services, plan::service_name(stored()));
  faulty.set_schedule({});
  ASSERT_FALSE(reconciler->reconcile(key)) << "a pause, while the service goes";
  work();
  EXPECT_TRUE(stored().status.is_formed);
  EXPECT_NE((*api.get(kube::pods, "research", pod))["metadata"]["uid"], uid);
  EXPECT_EQ(caches.services.size(), 1U);
}

TEST_F(ReconcilerTest, PausesBetweenLooksAtAPodThatOnlyTheServerKnows) {
  apply();
  work();
  const std::string pod = plan::pod_name(stored(), 1, 1);
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

TEST_F(ReconcilerTest, TellsThatCreatesFailOnceTheyHaveForAWhile) {
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

TEST_F(ReconcilerTest, PassesOnHowLongAThrottlingServerWantsPeace) {
  apply();
  faulty.set_schedule([](const ApiCall&) {
    return std::optional{Fault{.error = {ErrorKind::throttled, "slow down", 3s}}};
  });
  const auto requeue = reconciler->reconcile(key);
  ASSERT_FALSE(requeue);
  EXPECT_EQ(requeue.error().retry_after, 3s);
}

TEST_F(ReconcilerTest, TellsOnlyAfterTheStatusIsStored) {
  apply();
  work();
  json job = *api.get(kube::training_jobs, "research", "smoke");
  ASSERT_TRUE(api.patch(kube::training_jobs, "research", "smoke", kube::PatchType::merge,
                        {{"spec", {{"activeDeadlineSeconds", 1}}}}));
  caches.jobs.put(*resource::parse_training_job(*api.get(kube::training_jobs, "research", "smoke")));
  clock.advance(2s);
  const auto done = faulty.done().size();
  ASSERT_TRUE(reconciler->reconcile(key));
  EXPECT_EQ(verbs_since(done), (std::vector<std::string>{"update status trainingjobs", "create events"}));
  const json event = api.list(kube::core_events, {})->items.at(0);
  EXPECT_EQ(event.at("reason"), "Failed");
  EXPECT_EQ(event.at("type"), "Warning");
  EXPECT_EQ(event.at("involvedObject").at("uid"), job.at("metadata").at("uid"));
}

TEST_F(ReconcilerTest, TellsEveryNewReasonToWaitInTheOneEventOfPending) {
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

TEST_F(ReconcilerTest, HoldsAJobBeforeItsFirstAttemptAndKeepsOthersFinalizers) {
  json manifest = a_job().on_delete().manifest();
  manifest["metadata"]["finalizers"] = json::array({"other/finalizer"});
  caches.jobs.put(*resource::parse_training_job(*api.create(kube::training_jobs, "research", manifest)));
  work();
  EXPECT_EQ(stored().metadata.finalizers,
            (std::vector<std::string>{"other/finalizer", std::string{plan::clean_up_finalizer}}));
  EXPECT_EQ(verbs_since(0),
            (std::vector<std::string>{"update status trainingjobs", "patch trainingjobs", "update status trainingjobs",
                                      "create services", "create pods", "create pods", "update status trainingjobs"}));
  ASSERT_TRUE(api.patch(kube::training_jobs, "research", "smoke", kube::PatchType::merge,
                        {{"spec", {{"checkpoint", {{"onDelete", "Retain"}}}}}}));
  caches.jobs.put(stored());
  work();
  EXPECT_EQ(stored().metadata.finalizers, std::vector<std::string>{"other/finalizer"});
}

TEST_F(ReconcilerTest, SetsItsFinalizerAnewWhereSomebodyChangedTheJobMeanwhile) {
  apply(a_job().on_delete());
  ASSERT_TRUE(api.patch(kube::training_jobs, "research", "smoke", kube::PatchType::merge,
                        {{"metadata", {{"finalizers", json::array({"other/finalizer"})}}}}));
  work();
  EXPECT_EQ(stored().metadata.finalizers.size(), 2U);
  EXPECT_EQ(stored().status.attempt, 1);
}

TEST_F(ReconcilerTest, SaysThatItMayNotHoldTheJobAndStartsNoAttempt) {
  apply(a_job().on_delete());
  faulty.set_schedule([](const ApiCall& call) -> std::optional<Fault> {
    if (call.verb != "patch" || call.plural != "trainingjobs") return std::nullopt;
    return Fault{.error = {ErrorKind::forbidden, "patch trainingjobs smoke: cannot patch resource"}};
  });
  work();
  clock.advance(60s);
  work();
  EXPECT_EQ(stored().status.phase, Phase::pending);
  EXPECT_EQ(stored().status.message, "patch trainingjobs smoke: cannot patch resource");
  EXPECT_EQ(stored().status.attempt, 0);
  faulty.set_schedule({});
  clock.advance(60s);
  work();
  EXPECT_EQ(stored().status.attempt, 1);
}

TEST_F(ReconcilerTest, TakesNoFinalizerOfAJobThatIsBeingDeletedForAWrongTemplate) {
  apply(a_job().on_delete());
  faulty.set_schedule([](const ApiCall& call) -> std::optional<Fault> {
    if (call.verb != "patch" || call.plural != "trainingjobs") return std::nullopt;
    return Fault{.error = {ErrorKind::invalid, "no new finalizers can be added if the object is being deleted"}};
  });
  for (int turn = 0; turn < 5; ++turn) static_cast<void>(reconciler->reconcile(key));
  EXPECT_NE(stored().status.phase, Phase::failed);
}

TEST_F(ReconcilerTest, CleansUpAfterAJobThatItDeletedItself) {
  apply(a_job().on_delete().ttl(10s));
  work();
  for (const std::int64_t rank : {0, 1}) {
    const std::string pod = plan::pod_name(stored(), 1, rank);
    json ended = *api.get(kube::pods, "research", pod);
    ended["status"] = {
        {"phase", "Succeeded"},
        {"containerStatuses", json::array({{{"name", "worker"}, {"state", {{"terminated", {{"exitCode", 0}}}}}}})}};
    caches.pods.put(*resource::parse_pod(*api.update_status(kube::pods, "research", ended)));
  }
  work();
  ASSERT_EQ(stored().status.phase, Phase::succeeded);
  clock.advance(11s);
  work();
  EXPECT_EQ(stored().status.phase, Phase::deleting);
  const std::string pod = plan::clean_up_pod_name(stored());
  json ended = *api.get(kube::pods, "research", pod);
  ended["status"] = {{"phase", "Succeeded"}};
  caches.pods.put(*resource::parse_pod(*api.update_status(kube::pods, "research", ended)));
  work();
  EXPECT_EQ(api.get(kube::training_jobs, "research", "smoke").error().kind, ErrorKind::not_found);
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
