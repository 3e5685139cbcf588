#include "operator/reconcile/reconciler.hpp"

#include <gtest/gtest.h>

#include "local/memory_api.hpp"
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
  void apply() {
    const json job = *api.create(kube::training_jobs, "research", a_job().manifest());
    caches.jobs.put(*resource::parse_training_job(job));
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
  const json event = api.list(kube::events, {})->items.at(0);
  EXPECT_EQ(event.at("reason"), "Failed");
  EXPECT_EQ(event.at("type"), "Warning");
  EXPECT_EQ(event.at("regarding").at("uid"), job.at("metadata").at("uid"));
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
