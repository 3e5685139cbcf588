#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "operator/manifest/names.hpp"
#include "operator/plan/request_status.hpp"
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
  constexpr std::uint64_t seeds = 120;
  const auto stories = all_stories();
  std::vector<Outcome> expected;
  std::vector<std::int64_t> calls(stories.size());
  for (std::size_t index = 0; index < stories.size(); ++index)
    expected.push_back(outcome_undisturbed(stories[index], &calls[index]));
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
    EXPECT_EQ(outcome_of(simulation), expected[index]);
    EXPECT_EQ(intruder.deleted_by_operator(), std::vector<std::string>{});
    if (seed % 2 != 0) {
      // The intruder's own job costs calls too, and so does each pod of an attempt that never began.
      EXPECT_LE(simulation.faulty.calls(), calls[index] + 30 * intruder.acts()) << "somebody keeps the operator busy";
    }
    acts += intruder.acts();
  }
  EXPECT_GT(acts, 2'000) << "the schedules are to do something";
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

/// Answers and termination messages that a container which is not Trainyard's worker may give.
json a_lie(std::mt19937_64& random) {
  const auto text = [&] { return std::string(random() % 50'000, 'x'); };
  const auto number = [&]() -> json {
    switch (random() % 5) {
      case 0:
        return INT64_MAX;
      case 1:
        return -1;
      case 2:
        return 1.7e308;
      case 3:
        return UINT64_MAX;
      default:
        return random() % 100;
    }
  };
  json lie{{"step", random() % 100}, {"totalSteps", number()}, {"loss", number()}, {"samplesPerSecond", number()}};
  lie["checkpointError"] = text();
  lie["waitingFor"] = text();
  lie["etaSeconds"] = number();
  lie["checkpoint"] = {
      {"step", random() % 100}, {"uri", text()}, {"time", "0000-01-01T00:00:00+23:59"}, {"bytes", number()}};
  lie["checkpointRequest"] = {{"id", random() % 2 == 0 ? "lunch" : "suspend-2"},
                              {"state", random() % 2 == 0 ? "Done" : "Failed"},
                              {"step", number()},
                              {"uri", text()},
                              {"message", text()}};
  return lie;
}

TEST(LyingWorker, WedgesNoJob) {
  for (std::uint64_t seed = 1; seed <= 20 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937_64 random{seed};
    Simulation world{{.lag_seed = seed % 2 == 0 ? seed : 0}};
    world.apply(a_job().checkpoint().manifest());
    const auto runs = [&](std::int64_t attempt) {
      return world.run_until([&] { return world.is_phase(Phase::running) && world.status().attempt == attempt; });
    };
    const auto tell_lies = [&](std::int64_t attempt) {
      for (int lie = 0; lie < 4; ++lie) {
        // Sometimes for another attempt.
        world.report(
            plan::read_progress_report(a_lie(random), attempt + (random() % 4 == 0 ? 1 : 0), world.clock.now()));
        world.pass(11s);
        EXPECT_FALSE(plan::is_condition_true(world.status(), plan::condition_status_refused));
      }
    };
    const auto last_lie = [&] {
      return json{{"exitCode", 1},
                  {"reason", std::string(9'000, 'r')},
                  {"message", std::string(9'000, 'm')},
                  {"culprit", UINT64_MAX},
                  {"progress", a_lie(random)}}
          .dump();
    };
    ASSERT_TRUE(runs(1));
    world.annotate(std::string{plan::checkpoint_request_annotation}, "lunch");
    tell_lies(1);
    world.end(1, static_cast<std::int64_t>(random() % 2), 1, last_lie());
    ASSERT_TRUE(runs(2)) << world.status().message;
    tell_lies(2);
    world.edit({{"suspend", true}});
    ASSERT_TRUE(world.run_until([&] { return world.is_phase(Phase::suspended); })) << world.status().message;
    world.edit({{"suspend", false}});
    ASSERT_TRUE(runs(3)) << world.status().message;
    tell_lies(3);
    world.end(3, 1, 0, last_lie());
    world.end(3, 0, 0, last_lie());
    ASSERT_TRUE(world.run_until([&] { return world.is_phase(Phase::succeeded); })) << world.status().message;
    world.pass(10s);
    expect_sound(world);
    EXPECT_FALSE(plan::is_condition_true(world.status(), plan::condition_status_refused));
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
