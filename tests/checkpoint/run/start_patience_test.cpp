#include "checkpoint/run/start_patience.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/fakes/fake_clock.hpp"

namespace trainyard::checkpoint {
namespace {

using namespace std::chrono_literals;

TEST(MayPassAtAStart, IsTrueForFaultsThatMinutesMayMend) {
  const std::set<ErrorKind> passing = {ErrorKind::unauthorized, ErrorKind::forbidden, ErrorKind::throttled,
                                       ErrorKind::unavailable, ErrorKind::timeout};
  for (int kind = 0; kind <= static_cast<int>(ErrorKind::internal); ++kind) {
    const auto each = static_cast<ErrorKind>(kind);
    EXPECT_EQ(may_pass_at_a_start(StartCall::state, each), passing.contains(each)) << to_string(each);
    EXPECT_EQ(may_pass_at_a_start(StartCall::probe, each), passing.contains(each) || each == ErrorKind::not_found)
        << to_string(each);
  }
}

/// A storage that refuses for a while.
struct Refusal {
  Result<int> ask(std::chrono::milliseconds duration, std::chrono::seconds lasts) {
    const Instant end = clock.instant() + lasts;
    const StartPatience patience{.duration = duration,
                                 .wait = [this](std::chrono::milliseconds pause, const Error& error) {
                                   pauses.push_back(pause);
                                   told = error.message;
                                   clock.advance(pause);
                                   return !is_broken;
                                 }};
    return ask_patiently(patience, clock, StartCall::state, [&]() -> Result<int> {
      ++calls;
      if (clock.instant() < end) return fail(kind, "no");
      return 7;
    });
  }

  ErrorKind kind = ErrorKind::forbidden;
  bool is_broken = false;
  fakes::FakeClock clock;
  std::vector<std::chrono::milliseconds> pauses;
  std::string told;
  int calls = 0;
};

TEST(AskPatiently, TriesAgainWithGrowingPausesUntilItSucceeds) {
  Refusal refusal;
  EXPECT_EQ(refusal.ask(default_start_patience, 40s), 7);
  EXPECT_EQ(refusal.pauses, (std::vector<std::chrono::milliseconds>{1s, 2s, 4s, 8s, 15s, 15s}));
  EXPECT_EQ(refusal.told, "no");
}

TEST(AskPatiently, EndsWithTheLastErrorOnceItsPatienceIsSpent) {
  Refusal refusal;
  const auto answer = refusal.ask(default_start_patience, 1h);
  EXPECT_EQ(answer, (tl::unexpected(Error{ErrorKind::forbidden, "no", std::nullopt})));
  EXPECT_LE(refusal.clock.instant() - Instant{}, default_start_patience);
  EXPECT_GE(refusal.clock.instant() - Instant{}, default_start_patience - 15s);
}

TEST(AskPatiently, AsksOnceForWhatCannotPassWithoutPatienceAndInABrokenGroup) {
  Refusal wrong{.kind = ErrorKind::invalid};
  EXPECT_FALSE(wrong.ask(default_start_patience, 1s));
  EXPECT_EQ(wrong.calls, 1);
  Refusal impatient;
  EXPECT_FALSE(impatient.ask(0s, 1s));
  EXPECT_EQ(impatient.calls, 1);
  Refusal broken{.is_broken = true};
  EXPECT_FALSE(broken.ask(default_start_patience, 1h));
  EXPECT_EQ(broken.calls, 1);
}

}  // namespace
}  // namespace trainyard::checkpoint
