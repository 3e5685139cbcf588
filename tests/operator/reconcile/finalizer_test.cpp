// How the reconciler adds and removes its finalizer, and has a template checked before anything is made from it.
#include <gtest/gtest.h>

#include "operator/plan/conditions.hpp"
#include "operator/plan/deletion.hpp"
#include "tests/operator/reconcile/reconciler_fixture.hpp"

namespace trainyard::reconcile {
namespace {

using api::Phase;
using builders::a_job;
using fakes::ApiCall;
using fakes::Fault;
using nlohmann::json;
using namespace std::chrono_literals;

TEST_F(ReconcilerTest, AddsItsFinalizerBeforeTheFirstAttemptAndKeepsOthersFinalizers) {
  json manifest = a_job().on_delete().manifest();
  manifest["metadata"]["finalizers"] = json::array({"other/finalizer"});
  caches.jobs.put(*api::parse_training_job(*api.create(kube::training_jobs, "research", manifest)));
  work();
  EXPECT_EQ(stored().metadata.finalizers,
            (std::vector<std::string>{"other/finalizer", std::string{plan::clean_up_finalizer}}));
  EXPECT_EQ(verbs_since(0), (std::vector<std::string>{"update status trainingjobs", "patch trainingjobs",
                                                      "update status trainingjobs", "create services", "create pods",
                                                      "create pods", "patch services", "update status trainingjobs"}));
  ASSERT_TRUE(api.patch(kube::training_jobs, "research", "smoke", kube::PatchType::merge,
                        {{"spec", {{"checkpoint", {{"onDelete", "Retain"}}}}}}));
  caches.jobs.put(stored());
  work();
  EXPECT_EQ(stored().metadata.finalizers, std::vector<std::string>{"other/finalizer"});
}

TEST_F(ReconcilerTest, AddsItsFinalizerAgainIfSomebodyChangedTheJobMeanwhile) {
  apply(a_job().on_delete());
  ASSERT_TRUE(api.patch(kube::training_jobs, "research", "smoke", kube::PatchType::merge,
                        {{"metadata", {{"finalizers", json::array({"other/finalizer"})}}}}));
  work();
  EXPECT_EQ(stored().metadata.finalizers.size(), 2U);
  EXPECT_EQ(stored().status.attempt, 1);
}

TEST_F(ReconcilerTest, KeepsAFinalizerThatSomebodyAddedBetweenTheReadAndThePatch) {
  apply(a_job().on_delete());
  bool is_first = true;
  faulty.set_schedule([&](const ApiCall& call) -> std::optional<Fault> {
    if (call.verb != "patch" || call.plural != "trainingjobs" || !std::exchange(is_first, false)) return std::nullopt;
    EXPECT_TRUE(api.patch(kube::training_jobs, "research", "smoke", kube::PatchType::merge,
                          {{"metadata", {{"finalizers", json::array({"other/finalizer"})}}}}));
    return std::nullopt;
  });
  work();
  EXPECT_EQ(stored().metadata.finalizers,
            (std::vector<std::string>{"other/finalizer", std::string{plan::clean_up_finalizer}}));
}

TEST_F(ReconcilerTest, RepeatsTheDryRunAfterAnEditOfTheSpec) {
  apply();
  const api::TrainingJob job = stored();
  EXPECT_TRUE(
      observe(job, caches, {.accepted_spec_generation = job.metadata.generation}, progress, {}).is_template_accepted);
  EXPECT_FALSE(observe(job, caches, {.accepted_spec_generation = job.metadata.generation - 1}, progress, {})
                   .is_template_accepted);
  EXPECT_FALSE(observe(job, caches, {}, progress, {}).is_template_accepted);
}

TEST_F(ReconcilerTest, SaysThatItMayNotAddItsFinalizerAndStartsNoAttempt) {
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
  end_all_pods(1);
  work();
  ASSERT_EQ(stored().status.phase, Phase::succeeded);
  clock.advance(11s);
  work();
  EXPECT_EQ(stored().status.phase, Phase::deleting);
  const std::string pod = manifest::clean_up_pod_name(stored());
  json ended = *api.get(kube::pods, "research", pod);
  ended["status"] = {{"phase", "Succeeded"}};
  caches.pods.put(*resource::parse_pod(*api.update_status(kube::pods, "research", ended)));
  work();
  EXPECT_EQ(api.get(kube::training_jobs, "research", "smoke").error().kind, ErrorKind::not_found);
}

}  // namespace
}  // namespace trainyard::reconcile
