#include "checkpoint/run/liveness.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "checkpoint/format/sealed_json.hpp"
#include "common/logging.hpp"
#include "tests/checkpoint/run/test_run.hpp"
#include "tests/fakes/faulty_store.hpp"
#include "tests/fakes/gate.hpp"

namespace trainyard::checkpoint {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

TEST(AliveFor, IsMeasuredFromTheLastSignUnlessTheProcessItselfIsSeen) {
  constexpr Time sign{1h};
  struct Row {
    std::string_view name;
    std::optional<bool> is_running;
    Time now;
    std::optional<std::chrono::milliseconds> expected;
  };
  const Row rows[] = {
      {"just now", {}, sign, sign_valid_for},
      {"a while ago", {}, sign + 50s, 40s},
      {"for the last moment", {}, sign + sign_valid_for - 1ms, 1ms},
      {"no longer", {}, sign + sign_valid_for, std::nullopt},
      {"by a clock that is ahead of this one", {}, sign - 10s, sign_valid_for + 10s},
      {"its process runs, though its signs stopped", true, sign + 24h, sign_valid_for},
      {"its process is gone, though it gave a sign just now", false, sign, std::nullopt},
  };
  for (const Row& row : rows)
    EXPECT_EQ(alive_for({.last_sign = sign, .is_running = row.is_running}, row.now), row.expected) << row.name;
}

TEST(AliveFor, TakesAnyNumberThatAFileMayHave) {
  constexpr Time now{24h * 365 * 56};
  EXPECT_EQ(alive_for({.last_sign = Time::min(), .is_running = {}}, now), std::nullopt);
  EXPECT_EQ(alive_for({.last_sign = Time::max(), .is_running = {}}, now), 24h * 365 + sign_valid_for);
}

TEST(IsRunning, KnowsThisMachinesProcessesAlone) {
  const std::string own = this_process();
  ASSERT_NE(own, "");
  EXPECT_EQ(is_running(own), true);
  {
    const std::string more_memory(std::size_t{64} << 20, 'x');
    ASSERT_EQ(more_memory.back(), 'x');
    EXPECT_EQ(this_process(), own) << "what changes while a process runs does not name it";
  }
  EXPECT_EQ(is_running(own + "1"), false) << "another process has its number now";
  EXPECT_EQ(is_running("another boot" + own.substr(own.find('/'))), std::nullopt);
  for (const std::string& other : {std::string{}, std::string{"x"}, own.substr(0, own.rfind('/')),
                                   own.substr(0, own.rfind("]/") + 2) + "../1/2"}) {
    EXPECT_EQ(is_running(other), std::nullopt) << other;
  }
}

TEST(IsRunning, SeesThatAProcessHasEnded) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string name = this_process();
    ::_exit(::write(ends[1], name.data(), name.size()) == static_cast<ssize_t>(name.size()) ? 0 : 1);
  }
  std::string name(256, '\0');
  name.resize(static_cast<std::size_t>(::read(ends[0], name.data(), name.size())));
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  ::close(ends[0]);
  ::close(ends[1]);
  EXPECT_EQ(is_running(name), false);
}

class ARunByHand : public testing::Test {
 protected:
  // The process runs on a machine that this one knows nothing of.
  void begin(TestRun& run) {
    run.identity = {.job = "local", .job_uid = "", .attempt = 1, .fingerprint = "fashion"};
    run.process = "another machine's";
  }
  void SetUp() override {
    begin(first);
    ASSERT_TRUE(first.restore());
    ASSERT_TRUE(first.save(10));
    begin(second);
  }

  fakes::MemoryObjects objects;
  TestRun first{objects};
  TestRun second{objects};
};

TEST_F(ARunByHand, KeepsASecondOneOfTheSameModelAndDataOffWhileItLives) {
  second.clock.advance(20s);
  const auto restored = second.restore();
  ASSERT_FALSE(restored);
  EXPECT_EQ(restored.error().kind, ErrorKind::invalid);
  EXPECT_THAT(restored.error().message, HasSubstr("memory:// is in use by run local of generation 1"));
  EXPECT_THAT(restored.error().message, HasSubstr("begin again in 70 s"));
  EXPECT_THAT(restored.error().message, HasSubstr("an empty object at memory://generations/1.end"));
  EXPECT_TRUE(first.save(20)) << "nobody has fenced it";
}

TEST_F(ARunByHand, IsTakenForAliveByItsLastSign) {
  const std::string sign =
      R"({"timeMilliseconds":)" + std::to_string((first.clock.now() + 1h).time_since_epoch().count()) + "}";
  ASSERT_TRUE(storage::put_text(first.store(), "generations/1.alive", seal(nlohmann::json::parse(sign))));
  second.clock.advance(1h + sign_valid_for - 1s);
  EXPECT_THAT(second.restore().error().message, HasSubstr("begin again in 1 s"));
  second.clock.advance(1s);
  EXPECT_EQ(second.restore().value()->step, 10);
}

TEST_F(ARunByHand, IsNotFollowedWhileItsLastSignCannotBeRead) {
  const std::string sign =
      R"({"timeMilliseconds":)" + std::to_string((first.clock.now() + 1h).time_since_epoch().count()) + "}";
  ASSERT_TRUE(storage::put_text(first.store(), "generations/1.alive", seal(nlohmann::json::parse(sign))));
  TestRun beside{std::make_unique<fakes::FaultyStore>(
      std::make_unique<fakes::MemoryStore>(objects),
      [](std::string_view /*call*/, std::string_view key, auto) -> std::optional<Error> {
        if (!key.ends_with(".alive")) return std::nullopt;
        return Error{ErrorKind::unavailable, "the store is away", std::nullopt};
      })};
  begin(beside);
  beside.clock.advance(1h);
  const auto restored = beside.restore();
  ASSERT_FALSE(restored) << "the run may be alive";
  EXPECT_THAT(restored.error().message, HasSubstr("the store is away"));
  EXPECT_TRUE(first.save(20));
}

TEST_F(ARunByHand, IsTakenForAliveByItsClaimWhereASignIsOlder) {
  // The sign is left over from a run that had the same generation before somebody emptied the prefix.
  const std::string sign =
      R"({"timeMilliseconds":)" + std::to_string((first.clock.now() - 24h).time_since_epoch().count()) + "}";
  ASSERT_TRUE(storage::put_text(first.store(), "generations/1.alive", seal(nlohmann::json::parse(sign))));
  second.clock.advance(20s);
  const auto restored = second.restore();
  ASSERT_FALSE(restored);
  EXPECT_THAT(restored.error().message, HasSubstr("begin again in 70 s"));
}

/// Lets `waiting` wait for up to two minutes, by its clock. `on_wait` is called in each wait, from 1 on.
void make_patient(TestRun& waiting, std::function<void(int)> on_wait) {
  auto waits = std::make_shared<int>(0);
  waiting.patience = {.duration = 2min,
                      .wait = [&waiting, waits, on_wait = std::move(on_wait)](auto pause, const Error& error) {
                        EXPECT_THAT(error.message, HasSubstr("in use by run local of generation 1"));
                        waiting.clock.advance(pause);
                        on_wait(++*waits);
                        return true;
                      }};
}

TEST_F(ARunByHand, ThatWasKilledElsewhereIsFollowedWhenItsLastSignHasRunOut) {
  int waits = 0;
  make_patient(second, [&](int number) { waits = number; });
  second.clock.advance(25s);
  const auto restored = second.restore();
  ASSERT_TRUE(restored) << restored.error().message;
  EXPECT_EQ(restored.value()->step, 10);
  EXPECT_EQ(waits, 7) << "65 s, looking every 10 s";
}

TEST_F(ARunByHand, ThatGivesAnotherSignIsNotWaitedFor) {
  int waits = 0;
  make_patient(second, [&](int number) {
    waits = number;
    if (number != 2) return;
    const auto now = second.clock.now().time_since_epoch().count();
    ASSERT_TRUE(storage::put_text(first.store(), "generations/1.alive", seal({{"timeMilliseconds", now}})));
  });
  second.clock.advance(20s);
  EXPECT_THAT(second.restore().error().message, HasSubstr("begin again in 90 s"));
  EXPECT_EQ(waits, 2);
  EXPECT_TRUE(first.save(20)) << "nobody has fenced it";
}

TEST_F(ARunByHand, OfThisMachineIsNotWaitedForWhileItRuns) {
  fakes::MemoryObjects fresh;
  TestRun living{fresh};
  begin(living);
  living.process = this_process();
  ASSERT_TRUE(living.restore());
  TestRun beside{fresh};
  begin(beside);
  make_patient(beside, [](int) { ADD_FAILURE() << "waited"; });
  EXPECT_THAT(beside.restore().error().message, HasSubstr("started by hand and is alive"));
}

TEST_F(ARunByHand, WhosePlaceIsNotOursIsNotWaitedFor) {
  make_patient(second, [](int) { ADD_FAILURE() << "waited"; });
  second.identity.fingerprint = "digits";
  const auto restored = second.restore();
  ASSERT_FALSE(restored);
  EXPECT_THAT(restored.error().message, HasSubstr("started by hand and is alive"));
}

TEST_F(ARunByHand, IsNotWaitedForAgainAndAgainWhileItsSignsCreepOn) {
  int waits = 0;
  make_patient(second, [&](int number) {
    waits = number;
    const auto creeping = (first.clock.now() + number * 6s).time_since_epoch().count();
    ASSERT_TRUE(storage::put_text(first.store(), "generations/1.alive", seal({{"timeMilliseconds", creeping}})));
  });
  const auto restored = second.restore();
  ASSERT_FALSE(restored);
  EXPECT_EQ(restored.error().kind, ErrorKind::invalid);
  EXPECT_EQ(waits, 3) << "the third sign is 18 s after the first one, more than half of the time between signs";
}

TEST_F(ARunByHand, ThatWasWaitedForLeavesAllTriesToClaim) {
  int waits = 0;
  int refusals = 0;
  TestRun late{std::make_unique<fakes::FaultyStore>(
      std::make_unique<fakes::MemoryStore>(objects),
      [&](std::string_view call, std::string_view key, auto) -> std::optional<Error> {
        // Others claim first, ten times.
        if (call != "put" || key != claim_key(2) || ++refusals > 10) return std::nullopt;
        return Error{ErrorKind::already_exists, "another was first", std::nullopt};
      })};
  begin(late);
  make_patient(late, [&](int number) { waits = number; });
  const auto restored = late.restore();
  ASSERT_TRUE(restored) << restored.error().message;
  EXPECT_EQ(waits, 9);
  EXPECT_EQ(restored.value()->step, 10);
}

TEST_F(ARunByHand, IsNotWaitedForLongerThanTheStartsPatience) {
  make_patient(second, [](int) { ADD_FAILURE() << "waited"; });
  second.patience.duration = 89s;
  EXPECT_EQ(second.restore().error().kind, ErrorKind::invalid);
}

TEST_F(ARunByHand, IsWaitedForByAllRanksOfItsSuccessor) {
  std::atomic<int> waits = 0;
  on_every_rank(3, objects, [&](TestRun& run) {
    begin(run);
    make_patient(run, [&](int) { ++waits; });
    const auto restored = run.restore();
    EXPECT_TRUE(restored) << restored.error().message;
  });
  EXPECT_EQ(waits, 9) << "rank 0 alone waits";
}

TEST_F(ARunByHand, ThatWasKilledIsFollowedWhenItsSignsAreOld) {
  second.clock.advance(sign_valid_for);
  EXPECT_EQ(second.restore().value()->step, 10);
  EXPECT_EQ(first.save(20).error().kind, ErrorKind::conflict) << "it lived after all";
}

TEST_F(ARunByHand, ThatHasEndedOrIsSaidToHaveEndedIsFollowedAtOnce) {
  ASSERT_TRUE(storage::put_text(first.store(), "generations/1.end", ""));
  EXPECT_EQ(second.restore().value()->step, 10);
}

TEST_F(ARunByHand, OfThisMachineIsFollowedAtOnceWhenItsProcessIsGone) {
  const std::string own = this_process();
  fakes::MemoryObjects fresh;
  TestRun killed{fresh};
  begin(killed);
  killed.process = own + "1";
  ASSERT_TRUE(killed.restore());
  ASSERT_TRUE(killed.save(10));
  TestRun next{fresh};
  begin(next);
  next.process = own;
  EXPECT_EQ(next.restore().value()->step, 10);
  TestRun beside{fresh};
  begin(beside);
  beside.clock.advance(24h);
  EXPECT_THAT(beside.restore().error().message, HasSubstr("generation 2, which was started by hand and is alive"));
}

TEST_F(ARunByHand, ThatClaimedWhileThisOneLoadedIsNotOverwritten) {
  ASSERT_TRUE(first.end());
  TestRun beside{objects};
  begin(beside);
  std::atomic<bool> has_met = false;  // Asked by several threads.
  TestRun late{std::make_unique<fakes::FaultyStore>(
      std::make_unique<fakes::MemoryStore>(objects, false),
      [&](std::string_view call, std::string_view key, auto) -> std::optional<Error> {
        if (is_data(call, key) && !has_met.exchange(true)) {
          EXPECT_TRUE(beside.restore());
        }
        return std::nullopt;
      })};
  begin(late);
  EXPECT_THAT(late.restore().error().message, HasSubstr("in use by run local of generation 2"));
  EXPECT_TRUE(beside.save(20));
}

TEST(SignsOfLife, AreGivenAgainAndAgainAlsoWhereOneFails) {
  fakes::MemoryObjects objects;
  fakes::FakeClock clock;
  std::atomic<int> puts = 0;
  fakes::Gate third;
  fakes::FaultyStore store{std::make_unique<fakes::MemoryStore>(objects),
                           [&](std::string_view call, std::string_view key, auto) -> std::optional<Error> {
                             EXPECT_EQ(call, "put");
                             EXPECT_EQ(key, "generations/7.alive");
                             if (++puts == 2) return Error{ErrorKind::unavailable, "away", std::nullopt};
                             if (puts == 3) third.pass();
                             return std::nullopt;
                           }};
  clock.advance(5s);
  {
    SignsOfLife signs{store, clock, 7, 1ms};
    third.wait_for_arrival();
    third.open();
  }
  const Claim claim{.generation = 7, .time = Time{}, .process = "another machine's"};
  fakes::MemoryStore plain{objects};
  EXPECT_EQ(read_liveness(plain, claim).value()->last_sign, clock.now());
}

TEST(SignsOfLife, ThatFailAreLoggedOnceUntilOneSucceeds) {
  fakes::MemoryObjects objects;
  const fakes::FakeClock clock;
  std::atomic<int> puts = 0;
  fakes::Gate last;
  const std::set<int> failing{2, 4, 6, 7, 8};
  fakes::FaultyStore store{std::make_unique<fakes::MemoryStore>(objects),
                           [&](std::string_view, std::string_view, auto) -> std::optional<Error> {
                             const int put = ++puts;
                             if (put == 9) last.pass();
                             return failing.contains(put)
                                        ? std::optional{Error{ErrorKind::unavailable, "away", std::nullopt}}
                                        : std::nullopt;
                           }};
  testing::internal::CaptureStderr();
  logging::set_up(logging::Format::text, logging::Level::info);
  {
    SignsOfLife signs{store, clock, 7, 1ms};
    last.wait_for_arrival();
    last.open();
  }
  const std::string said = testing::internal::GetCapturedStderr();
  logging::set_up(logging::Format::text, logging::Level::info);
  std::size_t warnings = 0;
  for (std::size_t at = said.find("cannot show that it is alive"); at != std::string::npos;
       at = said.find("cannot show that it is alive", at + 1)) {
    ++warnings;
  }
  EXPECT_EQ(warnings, 3U) << said;
}

}  // namespace
}  // namespace trainyard::checkpoint
