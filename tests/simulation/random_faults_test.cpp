#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/simulation/stories.hpp"

namespace trainyard::simulation {
namespace {

using fakes::ApiCall;
using fakes::Fault;

/// A world in which every tenth call has a fault and caches lag.
void disturb(Simulation& simulation, std::uint64_t seed) {
  simulation.faulty.set_schedule([random = std::mt19937_64{seed}](const ApiCall&) mutable -> std::optional<Fault> {
    if (random() % 10 != 0) return std::nullopt;
    switch (random() % 7) {
      case 0:
        return Fault{.kind = Fault::Kind::dies_before};
      case 1:
        return Fault{.kind = Fault::Kind::dies_after};
      case 2:
        return Fault{.kind = Fault::Kind::reply_lost, .error = {ErrorKind::timeout, "no reply"}};
      case 3:
        return Fault{.kind = Fault::Kind::reply_lost, .error = {ErrorKind::unavailable, "reset"}};
      case 4:
        return Fault{.error = {ErrorKind::throttled, "too many requests", std::chrono::milliseconds{250}}};
      case 5:
        return Fault{.error = {ErrorKind::conflict, "somebody was faster"}};
      default:
        return Fault{.error = {ErrorKind::unavailable, "etcdserver: leader changed"}};
    }
  });
}

TEST(RandomFaults, ChangeNoStorysEnd) {
  constexpr std::uint64_t seeds = 500;
  const auto stories = all_stories();
  std::vector<Outcome> expected;
  for (const Story& story : stories) expected.push_back(outcome_undisturbed(story));
  for (std::uint64_t seed = 1; seed <= seeds && !testing::Test::HasFailure(); ++seed) {
    const std::size_t index = seed % stories.size();
    SCOPED_TRACE(fmt::format("seed {}, story '{}'", seed, stories[index].name));
    Simulation simulation{{.lag_seed = seed}};
    disturb(simulation, seed);
    stories[index].tell(simulation);
    simulation.faulty.set_schedule({});
    simulation.pass(std::chrono::seconds{60});
    expect_sound(simulation);
    ASSERT_EQ(outcome_of(simulation), expected[index]);
  }
}

}  // namespace
}  // namespace trainyard::simulation
