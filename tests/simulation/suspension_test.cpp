#include "tests/simulation/job_life.hpp"

namespace trainyard::simulation {
namespace {

using builders::a_job;
using resource::Phase;
using namespace std::chrono_literals;

TEST_F(JobLife, MayBeginSuspended) {
  world.apply(a_job().suspended().manifest());
  ASSERT_TRUE(reaches(Phase::suspended));
  EXPECT_TRUE(has_condition(plan::condition_suspended));
  EXPECT_EQ(world.pods(), Names{});
  world.edit({{"suspend", false}, {"replicas", 3}});
  ASSERT_TRUE(runs(1));
  EXPECT_EQ(world.status().ready, "3/3");
  EXPECT_FALSE(has_condition(plan::condition_suspended));
}

TEST_F(JobLife, StandsStillForTheDeadlineWhileSuspended) {
  start(a_job().deadline(60s));
  world.pass(40s);
  world.edit({{"suspend", true}});
  ASSERT_TRUE(reaches(Phase::suspended));
  world.pass(300s);
  EXPECT_TRUE(world.is_phase(Phase::suspended));
  world.edit({{"suspend", false}});
  ASSERT_TRUE(runs(2));
  world.pass(50s);
  EXPECT_TRUE(world.is_phase(Phase::running));
  world.pass(11s);
  EXPECT_TRUE(world.is_phase(Phase::failed));
  EXPECT_EQ(world.status().reason, "DeadlineExceeded");
}

TEST_F(JobLife, DoesNotMissItsDeadlineWhilePodsSaveToBeSuspended) {
  world.kubelet.set_stubborn([](const json&) { return true; });
  start(a_job().checkpoint().deadline(60s));
  world.pass(50s);
  world.edit({{"suspend", true}});
  world.pass(60s);
  EXPECT_TRUE(world.is_phase(Phase::suspending));
  world.edit({{"suspend", false}});
  ASSERT_TRUE(runs(2));
  world.pass(50s);
  EXPECT_TRUE(world.is_phase(Phase::running)) << "the clock began anew";
}

TEST_F(JobLife, IsSuspendedAlthoughAPodOnALostNodeNeverEnds) {
  world.kubelet.set_stubborn([&](const json& pod) { return pod.at("metadata").at("name") == world.pod_name(1, 1); });
  start();
  world.edit({{"suspend", true}});
  ASSERT_TRUE(reaches(Phase::suspending));
  world.lose_node(1);
  ASSERT_TRUE(world.run_until([&] { return world.is_phase(Phase::suspended); }, 10s));
}

TEST_F(JobLife, MayResumeWhilePodsStillLeave) {
  world.kubelet.set_stubborn([](const json&) { return true; });
  start();
  world.edit({{"suspend", true}});
  ASSERT_TRUE(reaches(Phase::suspending));
  world.edit({{"suspend", false}});
  ASSERT_TRUE(runs(2));
  EXPECT_EQ(world.status().restarts, resource::RestartCounts{});
}

TEST_F(JobLife, EndsWellWhenAllRanksFinishWhileBeingSuspended) {
  world.kubelet.set_stubborn([](const json&) { return true; });
  start();
  world.edit({{"suspend", true}});
  ASSERT_TRUE(reaches(Phase::suspending));
  for (const std::int64_t rank : {0, 1}) world.end(1, rank, 0, R"({"reason": "Completed", "exitCode": 0})");
  EXPECT_TRUE(reaches(Phase::succeeded));
}

TEST_F(JobLife, IsSuspendedThoughContainersThatKnowNothingOfItEndWithZero) {
  world.kubelet.set_stubborn([](const json&) { return true; });
  start(a_job().without_training().container());
  world.edit({{"suspend", true}});
  ASSERT_TRUE(reaches(Phase::suspending));
  world.finish(1);
  ASSERT_TRUE(reaches(Phase::suspended));
  world.edit({{"suspend", false}});
  EXPECT_TRUE(runs(2));
}

}  // namespace
}  // namespace trainyard::simulation
