#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "tests/simulation/author.hpp"
#include "tests/simulation/intruder.hpp"
#include "tests/simulation/random_faults.hpp"
#include "tests/simulation/stories.hpp"

// Random faults of the API while a hostile author, a hostile pod or a lying worker acts, or several of them: no
// schedule may freeze another job, make the operator loop, or make it delete what is not its own.

namespace trainyard::simulation {
namespace {

using namespace std::chrono_literals;

constexpr int acts_max = 25;

/// The hostile actors of a run.
struct Actors {
  bool has_author = false;
  bool has_intruder = false;
};

/// A world with faults and hostile actors.
class HostileWorld {
 public:
  HostileWorld(std::uint64_t seed, const Actors& actors)
      : world{{.lag_seed = seed}},
        author_{world, 3 * seed, actors.has_author ? acts_max : 0},
        intruder_{world, 3 * seed + 1, actors.has_intruder ? acts_max : 0} {
    world.faulty.set_schedule([this, faults = random_faults_and_outages(3 * seed + 2, world.clock)](const auto& call) {
      auto fault = faults(call);
      if (fault) ++faults_;
      return fault;
    });
    world.set_intruder([this] {
      author_.act();
      intruder_.act();
    });
  }

  /// Ends all disturbance, and checks what must hold from then on. `calls` are those of the same story without any.
  void expect_calm(std::int64_t calls) {
    world.faulty.set_schedule({});
    world.set_intruder({});
    world.pass(60s);
    expect_sound(world);
    EXPECT_LE(world.faulty.calls(), calls + std::int64_t{10} * (acts() + faults_))
        << "somebody keeps the operator busy";
    const auto before = world.faulty.calls();
    world.pass(60s);
    // A pod of the author's may have been saving until now, and its job then begins another attempt.
    EXPECT_LE(world.faulty.calls(), before + 20) << "somebody keeps the operator busy";
  }

  [[nodiscard]] int acts() const { return author_.acts() + intruder_.acts(); }
  [[nodiscard]] int faults() const { return faults_; }

  Simulation world;

 private:
  Author author_;
  Intruder intruder_;
  int faults_ = 0;
};

TEST(HostileFaults, ChangeNoStorysEnd) {
  constexpr std::uint64_t seeds = 60;
  const auto stories = all_stories();
  const auto undisturbed = play_undisturbed(stories);
  int acts = 0;
  int faults = 0;
  for (std::uint64_t seed = 1; seed <= seeds && !testing::Test::HasFailure(); ++seed) {
    const std::size_t index = seed % stories.size();
    SCOPED_TRACE(fmt::format("seed {}, story '{}'", seed, stories[index].name));
    HostileWorld hostile{seed, {.has_author = seed % 3 != 0, .has_intruder = seed % 3 != 1}};
    stories[index].tell(hostile.world);
    hostile.expect_calm(undisturbed[index].calls);
    EXPECT_EQ(outcome_of(hostile.world), undisturbed[index].outcome);
    acts += hostile.acts();
    faults += hostile.faults();
  }
  EXPECT_GT(acts, 1'000) << "the schedules are to do something";
  EXPECT_GT(faults, 800) << "the schedules are to do something";
}

TEST(HostileFaults, AndLiesWedgeNoJob) {
  for (std::uint64_t seed = 1; seed <= 12 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    HostileWorld hostile{seed, {.has_author = seed % 4 >= 2, .has_intruder = seed % 4 % 2 != 0}};
    live_with_lies(hostile.world, seed);
    hostile.expect_calm(100);
    EXPECT_EQ(hostile.world.status().attempt, 3);
  }
}

}  // namespace
}  // namespace trainyard::simulation
