#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cctype>

#include "tests/simulation/stories.hpp"

namespace trainyard::simulation {
namespace {

using fakes::ApiCall;
using fakes::Fault;

// Each story is played once for each of its calls and each fault. Under a sanitizer, where that takes ten times as
// long, it is played for some of the calls only, which differ by story.
#ifdef __SANITIZE_ADDRESS__
constexpr std::int64_t stride = 5;
#else
constexpr std::int64_t stride = 1;
#endif

std::int64_t first_call(const Story& story) {
  return 1 + static_cast<std::int64_t>(story.name.size()) % stride;
}

class EveryStory : public testing::TestWithParam<Story> {};

TEST_P(EveryStory, EndsTheSameWhenTheOperatorIsKilledAtAnyCall) {
  std::int64_t calls = 0;
  const Outcome expected = outcome_undisturbed(GetParam(), &calls);
  ASSERT_GT(calls, 5);
  for (const Fault::Kind kind : {Fault::Kind::dies_before, Fault::Kind::dies_after}) {
    for (std::int64_t number = first_call(GetParam()); number <= calls; number += stride) {
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
  for (std::int64_t number = first_call(GetParam()); number <= calls; number += stride) {
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
    for (std::int64_t number = first_call(GetParam()); number <= calls; number += stride) {
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

}  // namespace
}  // namespace trainyard::simulation
