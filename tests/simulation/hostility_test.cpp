#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "operator/manifest/names.hpp"
#include "tests/simulation/intruder.hpp"
#include "tests/simulation/job_life.hpp"
#include "tests/simulation/stories.hpp"

// Nothing that a hostile author, a hostile pod or a lying worker does may freeze a job, make the operator loop, or make
// it delete what is not its own.

namespace trainyard::simulation {
namespace {

using api::Phase;
using builders::a_job;
using namespace std::chrono_literals;

TEST(Intruders, ChangeNoStorysEnd) {
  constexpr std::uint64_t seeds = 80;
  const auto stories = all_stories();
  const auto undisturbed = play_undisturbed(stories);
  int acts = 0;
  for (std::uint64_t seed = 1; seed <= seeds && !testing::Test::HasFailure(); ++seed) {
    const std::size_t index = seed % stories.size();
    SCOPED_TRACE(fmt::format("seed {}, story '{}'", seed, stories[index].name));
    // Every second run has caches that lag.
    Simulation simulation{{.lag_seed = seed % 2 == 0 ? seed : 0}};
    Intruder intruder{simulation, seed, 40};
    simulation.set_intruder([&] { intruder.act(); });
    stories[index].tell(simulation);
    simulation.pass(60s);
    expect_sound(simulation);
    EXPECT_EQ(outcome_of(simulation), undisturbed[index].outcome);
    if (seed % 2 != 0) {
      // Each pod of an attempt that never began costs calls.
      EXPECT_LE(simulation.faulty.calls(), undisturbed[index].calls + std::int64_t{30} * intruder.acts())
          << "somebody keeps the operator busy";
    }
    acts += intruder.acts();
  }
  EXPECT_GT(acts, 1'300) << "the schedules are to do something";
}

/// Single forgeries.
class Forgery : public JobLife {
 protected:
  void forge(const std::string& name_space, const std::string& name, bool is_held = true) {
    json pod{{"metadata", manifest::owned_metadata(*world.job(), name)}};
    pod["metadata"]["namespace"] = name_space;
    pod["metadata"]["labels"][intruder_label] = "true";
    if (is_held) pod["metadata"]["finalizers"] = {"intruder.example/hold"};
    pod["spec"]["containers"] = json::array({{{"name", "worker"}, {"image", "evil"}}});
    ASSERT_TRUE(world.api.create(kube::pods, name_space, pod));
    world.settle();
  }
  /// Loses a rank, and expects that the operator replaces it as usual.
  void expect_not_frozen(std::int64_t attempt) {
    world.delete_pod(attempt, 1);
    EXPECT_TRUE(runs(attempt + 1)) << world.status().message;
    world.finish(attempt + 1);
    EXPECT_TRUE(reaches(Phase::succeeded));
    world.pass(10s);
    expect_sound(world);
  }
};

TEST_F(Forgery, OfALaterAttemptInAnotherNamespaceDoesNotFreezeTheJob) {
  start();
  forge("zz", world.pod_name(9, 9));
  expect_not_frozen(1);
}

TEST_F(Forgery, OfALaterAttemptInTheJobsNamespaceDoesNotFreezeTheJob) {
  start();
  forge("research", world.pod_name(9, 9));
  expect_not_frozen(1);
}

TEST_F(Forgery, OfRanksThatEndedWellInAnotherNamespaceDoesNotCompleteTheJob) {
  start();
  for (const std::int64_t rank : {0, 1}) {
    forge("zz", world.pod_name(1, rank));
    world.kubelet.end("zz", world.pod_name(1, rank), 0);
  }
  world.pass(30s);
  EXPECT_EQ(world.status().phase, Phase::running);
  expect_not_frozen(1);
}

TEST_F(Forgery, OfARankThatSaysTheFinalWordInAnotherNamespaceDoesNotFailTheJob) {
  start();
  forge("zz", world.pod_name(1, 0));
  world.kubelet.end("zz", world.pod_name(1, 0), 93, R"({"exitCode": 93})");
  world.pass(30s);
  EXPECT_EQ(world.status().phase, Phase::running);
  expect_not_frozen(1);
}

TEST_F(Forgery, OfAnAttemptThatNeverWasIsNotDeletedAgainAndAgain) {
  start();
  forge("zz", world.pod_name(0, 0));
  forge("research", "x-0-0", false);
  forge("research", world.pod_name(0, 0));
  world.end(1, 1, 1, "boom");
  ASSERT_TRUE(runs(2));
  const std::int64_t calls = world.faulty.calls();
  world.pass(60s);
  EXPECT_EQ(world.faulty.calls(), calls);
  EXPECT_TRUE(world.is_at_rest());
  expect_not_frozen(2);
}

TEST_F(Forgery, DuringAnOutageDoesNotLengthenItsJobsPause) {
  start();
  world.faulty.set_schedule([](const fakes::ApiCall&) {
    return std::optional{fakes::Fault{.error = {ErrorKind::unavailable, "etcdserver: leader changed"}}};
  });
  world.end(1, 1, 1, "boom");
  for (int number = 0; number < 12; ++number) forge("research", fmt::format("x-{}-0", number));
  world.faulty.set_schedule({});
  EXPECT_TRUE(world.run_until([&] { return world.status().attempt == 2; }, 1s));
}

TEST(LyingWorker, WedgesNoJob) {
  for (std::uint64_t seed = 1; seed <= 16 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Simulation world{{.lag_seed = seed % 2 == 0 ? seed : 0}};
    live_with_lies(world, seed);
    expect_sound(world);
  }
}

/// Each attempt saves the step from which it began, and fails: there is no progress.
TEST_F(JobLife, EndsInNoProgressWhereEachAttemptSavesTheSameStep) {
  start(a_job().checkpoint());
  for (std::int64_t attempt = 1; attempt <= 3; ++attempt) {
    ASSERT_TRUE(runs(attempt)) << "attempt " << attempt;
    world.report({.attempt = attempt,
                  .step = 50,
                  .checkpoint = api::CheckpointStatus{.step = 50, .uri = "s3://models/smoke/step-50/g-1"}});
    world.pass(15s);
    world.end(attempt, 0, 1, "Traceback");
  }
  ASSERT_TRUE(reaches(Phase::failed));
  EXPECT_EQ(world.status().reason, "NoProgress");
}

}  // namespace
}  // namespace trainyard::simulation
