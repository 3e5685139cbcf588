#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/simulation/stories.hpp"

namespace trainyard::simulation {
namespace {

using fakes::ApiCall;
using fakes::Fault;

/// What must hold of every story, however it was disturbed.
void expect_sound(Simulation& simulation) {
  EXPECT_EQ(simulation.twins(), std::vector<std::string>{}) << "a pod was made twice in one attempt";
  EXPECT_EQ(simulation.live_pods(), std::vector<std::string>{}) << "a pod was left behind";
  EXPECT_LE(simulation.events().size(), 6U);
  EXPECT_TRUE(simulation.is_at_rest()) << "the plan's actions do not run out";
}

Outcome outcome_undisturbed(const Story& story, std::int64_t* calls = nullptr) {
  Simulation simulation;
  story.tell(simulation);
  expect_sound(simulation);
  if (calls != nullptr) *calls = simulation.faulty.calls();
  return outcome_of(simulation);
}

class EveryStory : public testing::TestWithParam<Story> {};

TEST_P(EveryStory, EndsTheSameWhenTheOperatorIsKilledAtAnyCall) {
  std::int64_t calls = 0;
  const Outcome expected = outcome_undisturbed(GetParam(), &calls);
  ASSERT_GT(calls, 5);
  for (const Fault::Kind kind : {Fault::Kind::dies_before, Fault::Kind::dies_after}) {
    for (std::int64_t number = 1; number <= calls; ++number) {
      SCOPED_TRACE(
          fmt::format("killed {} call {} of {}", kind == Fault::Kind::dies_before ? "before" : "after", number, calls));
      Simulation simulation;
      simulation.faulty.set_schedule([&](const ApiCall& call) {
        return call.number == number ? std::optional{Fault{.kind = kind}} : std::nullopt;
      });
      GetParam().tell(simulation);
      expect_sound(simulation);
      ASSERT_EQ(outcome_of(simulation), expected);
      if (HasFailure()) return;
    }
  }
}

TEST_P(EveryStory, EndsTheSameWhenTheReplyOfAnyCallIsLost) {
  std::int64_t calls = 0;
  const Outcome expected = outcome_undisturbed(GetParam(), &calls);
  for (std::int64_t number = 1; number <= calls; ++number) {
    SCOPED_TRACE(fmt::format("reply {} of {} lost", number, calls));
    Simulation simulation;
    simulation.faulty.set_schedule([&](const ApiCall& call) {
      const Fault lost{.kind = Fault::Kind::reply_lost, .error = {ErrorKind::timeout, "no reply"}};
      return call.number == number ? std::optional{lost} : std::nullopt;
    });
    GetParam().tell(simulation);
    expect_sound(simulation);
    ASSERT_EQ(outcome_of(simulation), expected);
    if (HasFailure()) return;
  }
}

TEST_P(EveryStory, EndsTheSameWhenAnyCallIsRefusedOnce) {
  std::int64_t calls = 0;
  const Outcome expected = outcome_undisturbed(GetParam(), &calls);
  for (const ErrorKind kind : {ErrorKind::unavailable, ErrorKind::conflict, ErrorKind::forbidden}) {
    for (std::int64_t number = 1; number <= calls; ++number) {
      SCOPED_TRACE(fmt::format("call {} of {} refused ({})", number, calls, to_string(kind)));
      Simulation simulation;
      simulation.faulty.set_schedule([&](const ApiCall& call) {
        return call.number == number ? std::optional{Fault{.error = {kind, "exceeded quota: small"}}} : std::nullopt;
      });
      GetParam().tell(simulation);
      expect_sound(simulation);
      ASSERT_EQ(outcome_of(simulation), expected);
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Stories, EveryStory, testing::ValuesIn(all_stories()), [](const auto& info) {
  std::string name;
  bool is_start = true;
  for (const char letter : info.param.name) {
    if (letter != ' ') name += is_start ? static_cast<char>(std::toupper(letter)) : letter;
    is_start = letter == ' ';
  }
  return name;
});

/// A world where every tenth call goes wrong somehow and caches lag behind.
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
