#include <cmath>
#include <limits>

#include "tests/simulation/job_life.hpp"

namespace trainyard::simulation {
namespace {

using api::Phase;
using builders::a_job;
using fakes::ApiCall;
using fakes::Fault;
using namespace std::chrono_literals;

TEST_F(JobLife, RunsFromApplyToSucceeded) {
  start();
  EXPECT_EQ(world.status().ready, "2/2");
  EXPECT_EQ(world.status().selector, "trainyard.dev/job=smoke");
  EXPECT_TRUE(world.status().is_formed);
  world.finish(1);
  ASSERT_TRUE(reaches(Phase::succeeded));
  EXPECT_TRUE(has_condition(plan::condition_complete));
  EXPECT_TRUE(world.status().completion_time);
  EXPECT_EQ(world.events(), (Names{"Running", "Succeeded"}));
}

TEST_F(JobLife, MakesRankZerosPodFirstAndOnlyAfterItsService) {
  start(a_job().replicas(3));
  Names created;
  for (const ApiCall& call : world.faulty.done()) {
    if (call.verb == "create" && call.plural != "events") created.push_back(call.name.substr(call.name.rfind('-')));
  }
  EXPECT_EQ(created.size(), 4U);
  EXPECT_EQ(Names(created.begin() + 1, created.end()), (Names{"-0", "-1", "-2"}));
}

TEST_F(JobLife, FormsTheNextAttemptWhileAnOldPodIgnoresItsEnd) {
  world.kubelet.set_stubborn([&](const json& pod) { return pod.at("metadata").at("name") == world.pod_name(1, 0); });
  start();
  world.end(1, 1, 1, "boom");
  ASSERT_TRUE(runs(2));
  EXPECT_EQ(world.live_pods(), pods({{"1-0", "Running"}, {"2-0", "Running"}, {"2-1", "Running"}}))
      << "the old pod is still on its way out";
  world.finish(2);
  ASSERT_TRUE(reaches(Phase::succeeded));
  world.pass(60s);
  EXPECT_EQ(world.live_pods(), Names{});
}

TEST_F(JobLife, OfAJobAppliedAgainAtOnceNeverMeetsItsPredecessors) {
  world.kubelet.set_stubborn([](const json&) { return true; });
  start();
  const std::string old_pod = world.pod_name(1, 0);
  world.delete_job();
  world.apply(a_job().manifest());
  EXPECT_NE(world.pod_name(1, 0), old_pod);
  ASSERT_TRUE(runs(1));
  EXPECT_EQ(world.live_pods().size(), 4U) << "two leave, two train";
  world.finish(1);
  ASSERT_TRUE(reaches(Phase::succeeded));
  world.pass(60s);
  EXPECT_EQ(world.live_pods(), Names{});
  EXPECT_EQ(world.twins(), Names{});
}

TEST_F(JobLife, LeavesNothingBehindWhenTheJobIsDeleted) {
  start();
  world.delete_job();
  world.settle();
  EXPECT_EQ(world.pods(), Names{});
  EXPECT_TRUE(world.api.list(kube::services, {})->items.empty());
}

TEST_F(JobLife, WaitsForQuotaWithoutCharge) {
  bool is_full = true;
  world.faulty.set_schedule([&](const ApiCall& call) -> std::optional<Fault> {
    if (!is_full || call.verb != "create" || call.plural != "pods" || call.is_dry_run) return std::nullopt;
    return Fault{.error = {ErrorKind::forbidden, "create pods: exceeded quota: small, requested: pods=1"}};
  });
  world.apply(a_job().manifest());
  ASSERT_TRUE(reaches(Phase::pending));
  ASSERT_TRUE(world.run_until([&] { return world.status().reason == "QuotaExceeded"; }, 5s));
  EXPECT_EQ(world.status().message, "create pods: exceeded quota: small, requested: pods=1");
  const auto calls = world.faulty.calls();
  EXPECT_FALSE(world.run_until([&] { return !world.is_phase(Phase::pending); }, 300s));
  EXPECT_LT(world.faulty.calls() - calls, 20) << "asked again and again";
  is_full = false;
  ASSERT_TRUE(runs(1));
  EXPECT_EQ(world.status().restart_count, 0);
  EXPECT_EQ(world.events(), (Names{"Pending", "Running"}));
}

TEST_F(JobLife, EndsWithTheServersSentenceWhenTheTemplateIsWrong) {
  const std::string sentence = "create pods smoke: spec.containers[0].imgae: unknown field";
  world.faulty.set_schedule([&](const ApiCall& call) -> std::optional<Fault> {
    if (!call.is_dry_run) return std::nullopt;
    return Fault{.error = {ErrorKind::invalid, sentence}};
  });
  world.apply(a_job().manifest());
  ASSERT_TRUE(reaches(Phase::failed));
  EXPECT_EQ(world.status().reason, "InvalidTemplate");
  EXPECT_EQ(world.status().message, sentence);
  EXPECT_TRUE(has_condition(plan::condition_invalid_template));
  EXPECT_TRUE(has_condition(plan::condition_failed));
  EXPECT_EQ(world.pods(), Names{});
}

TEST_F(JobLife, NeverAdoptsAForeignPodOfItsName) {
  world.apply(a_job().manifest());
  const json foreign{{"metadata", {{"name", world.pod_name(1, 1)}}},
                     {"spec", {{"containers", json::array({{{"name", "other"}, {"image", "other"}}})}}}};
  ASSERT_TRUE(world.api.create(kube::pods, "research", foreign));
  ASSERT_TRUE(world.run_until([&] { return has_condition(plan::condition_name_conflict); }));
  EXPECT_EQ(world.status().reason, "NameConflict");
  EXPECT_EQ(world.status().message,
            fmt::format("Pod {} exists and belongs to somebody else: delete it, or give the job another name",
                        world.pod_name(1, 1)));
  world.vanish(1, 1);
  ASSERT_TRUE(runs(1));
  EXPECT_FALSE(has_condition(plan::condition_name_conflict));
}

TEST_F(JobLife, EndsWhenTheApplicationsBudgetIsSpent) {
  start();
  for (std::int64_t attempt = 1; attempt <= 3; ++attempt) {
    world.end(attempt, 0, 1, "ValueError: nan");
    ASSERT_TRUE(runs(attempt + 1));
  }
  world.end(4, 0, 1, "ValueError: nan");
  ASSERT_TRUE(reaches(Phase::failed));
  EXPECT_EQ(world.status().reason, "ApplicationBudget");
  EXPECT_EQ(world.status().attempts.size(), 4U);
  EXPECT_EQ(world.status().restart_count, 3);
  EXPECT_EQ(world.events(), (Names{"Failed", "Restarting", "Running"}));
  const auto restarting = world.api.list(kube::core_events, {})->items;
  const auto is_restart = [](const json& event) { return event.at("reason") == "Restarting"; };
  const json& newest = *std::ranges::find_if(restarting, is_restart);
  EXPECT_EQ(newest.at("count"), 3);
  EXPECT_EQ(newest.at("message"),
            "attempt 4 begins because pod 0 was lost (Application): exit code 1: ValueError: nan");
}

TEST_F(JobLife, EndsWhenThreeFailuresBringNoNewCheckpoint) {
  start(a_job().checkpoint());
  world.report({.attempt = 1,
                .step = 50,
                .checkpoint = api::CheckpointStatus{.step = 50, .uri = "s3://models/smoke/step-50/g-1"}});
  world.pass(1s);
  for (std::int64_t attempt = 1; attempt <= 2; ++attempt) {
    world.end(attempt, 0, 1);
    ASSERT_TRUE(runs(attempt + 1));
  }
  world.end(3, 0, 1);
  ASSERT_TRUE(reaches(Phase::failed));
  EXPECT_EQ(world.status().reason, "NoProgress");
}

TEST_F(JobLife, GetsItsInfrastructureBudgetBackWithEveryCheckpoint) {
  start(a_job().checkpoint());
  for (std::int64_t attempt = 1; attempt <= 15; ++attempt) {
    world.report({.attempt = attempt,
                  .step = attempt * 10,
                  .checkpoint = api::CheckpointStatus{.step = attempt * 10, .uri = "s3://models/smoke"}});
    world.pass(1s);
    world.vanish(attempt, 1);
    ASSERT_TRUE(runs(attempt + 1)) << world.status().message;
  }
  EXPECT_EQ(world.status().restart_count, 15);
  EXPECT_EQ(world.status().attempts.size(), 10U) << "the list is bounded";
  EXPECT_LE(world.events().size(), 6U);
}

TEST_F(JobLife, KeepsTheLogsOfTheLastTwoAttempts) {
  start();
  for (std::int64_t attempt = 1; attempt <= 2; ++attempt) {
    world.end(attempt, 1, 1, "boom");
    ASSERT_TRUE(runs(attempt + 1));
    world.pass(1s);
  }
  EXPECT_EQ(world.pods(), pods({{"2-1", "Failed"}, {"3-0", "Running"}, {"3-1", "Running"}}));
  world.finish(3);
  ASSERT_TRUE(reaches(Phase::succeeded));
  world.pass(1s);
  EXPECT_EQ(world.pods(), pods({{"2-1", "Failed"}, {"3-0", "Succeeded"}, {"3-1", "Succeeded"}}))
      << "the culprit's log is still there";
}

TEST_F(JobLife, CleansUpPodsAsItsPolicySaysAndKeepsTheCulprit) {
  const std::vector<std::pair<api::CleanPods, Names>> policies_and_pods{{api::CleanPods::none, {"1-1 Failed"}},
                                                                        {api::CleanPods::running, {"1-1 Failed"}},
                                                                        {api::CleanPods::all, {"1-1 Failed"}}};
  for (const auto& [policy, expected] : policies_and_pods) {
    Simulation simulation;
    simulation.apply(a_job().clean_pods(policy).manifest());
    ASSERT_TRUE(simulation.run_until([&] { return simulation.is_phase(Phase::running); }));
    simulation.end(1, 1, 93);
    ASSERT_TRUE(simulation.run_until([&] { return simulation.is_phase(Phase::failed); }));
    simulation.pass(5s);
    Names left = simulation.pods();
    for (std::string& pod : left) pod = pod.substr(std::string_view{"smoke-0000-"}.size());
    EXPECT_EQ(left, expected);
  }
}

TEST_F(JobLife, RecordsTheResultAndThenRemovesALeftOverSidecar) {
  start(a_job().replicas(1).pod_template(
      R"({"spec": {"containers": [{"name": "worker", "image": "w"}, {"name": "logs", "image": "l"}]}})"));
  json pod = *world.api.get(kube::pods, "research", world.pod_name(1, 0));
  pod["status"]["containerStatuses"][0]["state"] = {{"terminated", {{"exitCode", 0}}}};
  ASSERT_TRUE(world.api.update_status(kube::pods, "research", pod));
  ASSERT_TRUE(reaches(Phase::succeeded));
  world.pass(1s);
  EXPECT_EQ(world.pods(), Names{});
}

TEST_F(JobLife, RemembersASuccessThoughThePodIsGoneBeforeTheOthersFinish) {
  start();
  world.end(1, 0, 0);
  world.pass(1s);
  world.vanish(1, 0);
  world.pass(5s);
  EXPECT_TRUE(world.is_phase(Phase::running));
  world.end(1, 1, 0);
  EXPECT_TRUE(reaches(Phase::succeeded));
}

TEST_F(JobLife, WaitsWithAnEditUntilTheNextAttempt) {
  start();
  world.edit({{"training", {{"batchSize", 7}}}});
  ASSERT_TRUE(world.run_until([&] { return has_condition(plan::condition_spec_pending); }));
  EXPECT_EQ(world.status().attempt, 1);
  world.vanish(1, 0);
  ASSERT_TRUE(runs(2));
  EXPECT_FALSE(has_condition(plan::condition_spec_pending));
  const json pod = *world.api.get(kube::pods, "research", world.pod_name(2, 0));
  EXPECT_NE(pod.dump().find("batchSize\\\":7"), std::string::npos);
}

TEST_F(JobLife, TakesAnEditThatReachesNoPodAtOnce) {
  start();
  world.edit({{"restart", {{"application", {{"max", 0}}}}}});
  world.pass(1s);
  EXPECT_FALSE(has_condition(plan::condition_spec_pending));
  EXPECT_EQ(world.status().attempt_generation, 2);
  world.end(1, 0, 1);
  EXPECT_TRUE(reaches(Phase::failed));
}

TEST_F(JobLife, LetsTheGroupOfADeletedPodSaveBeforeTheNextAttempt) {
  world.kubelet.set_stubborn([](const json&) { return true; });
  start(a_job().checkpoint());
  world.delete_pod(1, 0);
  world.pass(10s);
  EXPECT_EQ(world.status().attempt, 1);
  EXPECT_EQ(world.status().message, "pod 0 is being deleted; the group may save a checkpoint first");
  world.end(1, 1, 91, R"({"exitCode": 91, "reason": "Preempted"})");
  world.end(1, 0, 91, R"({"exitCode": 91, "reason": "Preempted"})");
  ASSERT_TRUE(runs(2));
  EXPECT_EQ(world.status().attempts[0].cause, api::Cause::deleted);
  EXPECT_EQ(world.status().attempts[0].rank, 0);
}

TEST_F(JobLife, ShowsProgressAndWhatIsWrongWithIt) {
  start(a_job().checkpoint());
  world.report({.attempt = 1, .waiting_for = "rank 1 of 2 has not come (12 s)"});
  world.pass(1s);
  EXPECT_EQ(world.status().message, "rank 1 of 2 has not come (12 s)");
  EXPECT_FALSE(has_condition(plan::condition_training));

  world.report({.attempt = 1, .epoch = 1, .step = 5, .total_steps = 200, .loss = 0.4});
  world.pass(1s);
  EXPECT_EQ(world.status().step_text, "5/200");
  EXPECT_EQ(world.status().progress->loss, 0.4);
  EXPECT_TRUE(has_condition(plan::condition_training));

  world.report(
      {.attempt = 1, .epoch = 1, .step = 6, .total_steps = 200, .loss = std::numeric_limits<double>::quiet_NaN()});
  world.pass(1s);
  EXPECT_FALSE(world.status().progress->loss);
  EXPECT_TRUE(has_condition(plan::condition_non_finite_loss));

  world.report({.attempt = 1, .step = 6, .loss = 0.5, .unavailable_because = "connection refused"});
  world.pass(1s);
  EXPECT_FALSE(has_condition(plan::condition_non_finite_loss));
  EXPECT_TRUE(has_condition(plan::condition_progress_unavailable));

  world.vanish(1, 0);
  ASSERT_TRUE(runs(2));
  EXPECT_FALSE(has_condition(plan::condition_training)) << "the report is of the attempt before";
}

TEST_F(JobLife, TakesTheLastStepFromRankZerosLastWords) {
  start();
  world.report({.attempt = 1, .step = 190, .total_steps = 200});
  world.pass(1s);
  world.end(1, 0, 0, R"({"reason": "Done", "exitCode": 0, "progress": {"step": 200, "totalSteps": 200}})");
  world.end(1, 1, 0);
  ASSERT_TRUE(reaches(Phase::succeeded));
  EXPECT_EQ(world.status().step_text, "200/200");
}

TEST_F(JobLife, TriesAvoidedNodesAgainWhereThereIsNoOtherRoom) {
  start();
  world.lose_node(1);
  world.kubelet.hold([](const json& pod) { return pod.at("spec").contains("affinity"); }, "0/2 nodes are available");
  ASSERT_TRUE(world.run_until([&] { return world.status().reason == "Unschedulable"; }));
  EXPECT_EQ(world.status().attempt, 2);
  EXPECT_EQ(world.status().avoided_nodes, (Names{"node-1"}));
  ASSERT_TRUE(world.api.remove(kube::nodes, "", "node-1"));
  ASSERT_TRUE(runs(3));
  EXPECT_EQ(world.status().avoided_nodes, Names{});
  EXPECT_EQ(world.status().restarts.infrastructure, 1) << "nobody is charged for the second thought";
}

TEST_F(JobLife, StaysAsItEnded) {
  start();
  world.end(1, 0, 93);
  ASSERT_TRUE(reaches(Phase::failed));
  world.edit({{"training", {{"batchSize", 7}}}, {"suspend", true}});
  world.pass(60s);
  world.edit({{"suspend", false}});
  world.pass(60s);
  EXPECT_TRUE(world.is_phase(Phase::failed));
  EXPECT_EQ(world.status().attempt, 1);
}

TEST(LargeJob, IsFormedByConcurrentCreatesWithEveryPodOnce) {
  Simulation world{{.pod_calls_at_once_max = 16}};
  world.apply(a_job().replicas(64).manifest());
  ASSERT_TRUE(world.run_until([&] { return world.is_phase(Phase::running); }));
  EXPECT_EQ(world.live_pods().size(), 64U);
  EXPECT_EQ(world.twins(), Names{});
}

TEST(LargeJob, StopsCreatingAtTheFirstRefusal) {
  Simulation world{{.pod_calls_at_once_max = 16}};
  world.faulty.set_schedule([](const ApiCall& call) -> std::optional<Fault> {
    if (call.verb != "create" || call.plural != "pods" || call.is_dry_run || call.name.ends_with("-0"))
      return std::nullopt;
    return Fault{.error = {ErrorKind::forbidden, "exceeded quota: small"}};
  });
  world.apply(a_job().replicas(64).manifest());
  ASSERT_TRUE(world.run_until([&] { return world.status().reason == "QuotaExceeded"; }));
  EXPECT_LT(world.faulty.calls(), 40);
}

}  // namespace
}  // namespace trainyard::simulation
