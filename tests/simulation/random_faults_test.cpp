#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/simulation/random_faults.hpp"
#include "tests/simulation/stories.hpp"

namespace trainyard::simulation {
namespace {

TEST(RandomFaults, ChangeNoStorysEnd) {
  constexpr std::uint64_t seeds = 500;
  const auto stories = all_stories();
  const auto undisturbed = play_undisturbed(stories);
  for (std::uint64_t seed = 1; seed <= seeds && !testing::Test::HasFailure(); ++seed) {
    const std::size_t index = seed % stories.size();
    SCOPED_TRACE(fmt::format("seed {}, story '{}'", seed, stories[index].name));
    Simulation simulation{{.lag_seed = seed}};
    simulation.faulty.set_schedule(random_faults(seed));
    stories[index].tell(simulation);
    simulation.faulty.set_schedule({});
    simulation.pass(std::chrono::seconds{60});
    expect_sound(simulation);
    ASSERT_EQ(outcome_of(simulation), undisturbed[index].outcome);
  }
}

}  // namespace
}  // namespace trainyard::simulation
