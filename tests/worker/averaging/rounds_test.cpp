#include "worker/averaging/rounds.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <stdexcept>
#include <stop_token>
#include <thread>
#include <vector>

namespace trainyard::averaging {
namespace {

using namespace std::chrono_literals;

const std::stop_token never;

Instant now() {
  return std::chrono::steady_clock::now();
}

TEST(Rounds, DemandASnapshotAndThenItsSum) {
  int demands = 0;
  Rounds rounds{0ms, [&demands] { ++demands; }};
  EXPECT_EQ(rounds.demand(), Demand::end) << "before begin()";
  rounds.begin(now());
  EXPECT_EQ(rounds.demand(), Demand::none);
  EXPECT_EQ(rounds.wait_for_round(never), Wish::average);
  rounds.agree(Wish::average, now());
  EXPECT_EQ(rounds.demand(), Demand::snapshot);
  EXPECT_EQ(demands, 1);
  rounds.give_snapshot();
  EXPECT_TRUE(rounds.wait_for_snapshot(never));
  EXPECT_EQ(rounds.demand(), Demand::none) << "the sum is not there yet";
  rounds.give_sum();
  EXPECT_EQ(rounds.demand(), Demand::sum);
  EXPECT_EQ(demands, 2);
  rounds.take_sum();
  EXPECT_EQ(rounds.demand(), Demand::none);
  EXPECT_EQ(rounds.count(), 1);
}

TEST(Rounds, DemandTheSumOfTheLastRoundBeforeTheSnapshotOfTheNextAndBeforeTheEnd) {
  for (const Wish agreed : {Wish::average, Wish::leave}) {
    Rounds rounds{0ms, [] {}};
    rounds.begin(now());
    rounds.agree(Wish::average, now());
    rounds.give_snapshot();
    rounds.give_sum();
    rounds.agree(agreed, now());
    EXPECT_EQ(rounds.demand(), Demand::sum);
    rounds.take_sum();
    EXPECT_EQ(rounds.demand(), agreed == Wish::leave ? Demand::end : Demand::snapshot);
  }
}

TEST(Rounds, AreDueAnIntervalAfterTheBeginAndAfterEachOther) {
  Rounds rounds{1h, [] {}};
  const auto expect_due = [&rounds](bool is_due) {
    std::stop_source stop;
    std::promise<std::optional<Wish>> wish;
    auto found = wish.get_future();
    std::jthread thread{[&] { wish.set_value(rounds.wait_for_round(stop.get_token())); }};
    if (!is_due) stop.request_stop();
    EXPECT_EQ(found.get(), is_due ? std::optional{Wish::average} : std::nullopt);
  };
  rounds.begin(now());
  expect_due(false);
  rounds.agree(Wish::leave, now());
  rounds.begin(now() - 1h);
  expect_due(true);
  rounds.agree(Wish::average, now());
  rounds.give_snapshot();
  expect_due(false);
  rounds.agree(Wish::average, now() - 1h);
  rounds.give_snapshot();
  expect_due(true);
}

TEST(Rounds, WaitForNoIntervalWhereTheRankWantsToLeave) {
  Rounds rounds{1h, [] {}};
  rounds.begin(now());
  std::promise<std::optional<Wish>> wish;
  auto found = wish.get_future();
  std::jthread thread{[&] { wish.set_value(rounds.wait_for_round(never)); }};
  rounds.leave();
  EXPECT_EQ(found.get(), Wish::leave);
  EXPECT_EQ(rounds.demand(), Demand::none) << "until the ranks have agreed";
  rounds.agree(Wish::leave, now());
  EXPECT_EQ(rounds.demand(), Demand::end);
  EXPECT_EQ(rounds.count(), 0);
}

TEST(Rounds, BeginAnewAfterAnotherRankHasEndedThem) {
  Rounds rounds{0ms, [] {}};
  rounds.begin(now());
  rounds.agree(Wish::leave, now());  // another rank's wish
  EXPECT_EQ(rounds.demand(), Demand::end);
  rounds.leave();
  rounds.begin(now());
  EXPECT_EQ(rounds.wait_for_round(never), Wish::average);
}

TEST(Rounds, StopWhileTheyWaitForTheirBeginAndForASnapshot) {
  Rounds rounds{0ms, [] {}};
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(rounds.wait_for_round(stop.get_token()), std::nullopt);
  rounds.begin(now());
  EXPECT_EQ(rounds.wait_for_round(stop.get_token()), std::nullopt);
  rounds.agree(Wish::average, now());
  EXPECT_FALSE(rounds.wait_for_snapshot(stop.get_token()));
}

TEST(Rounds, GoNoFurtherAfterAFailure) {
  int demands = 0;
  Rounds rounds{0ms, [&demands] { ++demands; }};
  rounds.begin(now());
  EXPECT_FALSE(rounds.failure());
  rounds.fail({.error = {.kind = ErrorKind::unavailable, .message = "a peer is lost", .retry_after = {}}, .own = {}});
  EXPECT_EQ(demands, 1);
  EXPECT_EQ(rounds.demand(), Demand::failure);
  EXPECT_EQ(rounds.failure()->error.message, "a peer is lost");
  EXPECT_FALSE(rounds.failure()->own);
}

/// A rank's loop over the rounds, alone in its group, and a training thread that meets the demands. For tsan.
TEST(Rounds, AreMadeByTwoThreads) {
  std::atomic<bool> has_demand = false;
  Rounds rounds{0ms, [&] {
                  has_demand = true;
                  has_demand.notify_all();
                }};
  int parameter = 0, snapshot = 0, sum = 0;  // No lock guards them but that of the rounds.
  std::jthread thread{[&](const std::stop_token& stop) {
    while (const auto wish = rounds.wait_for_round(stop)) {
      rounds.agree(*wish, now());
      if (*wish == Wish::leave) continue;
      if (!rounds.wait_for_snapshot(stop)) return;
      sum = snapshot;
      rounds.give_sum();
    }
  }};
  for (int session = 0; session < 3; ++session) {
    rounds.begin(now());
    const std::int64_t until = rounds.count() + 10;
    bool is_left = false;
    for (Demand demand = rounds.demand(); demand != Demand::end; demand = rounds.demand()) {
      if (demand == Demand::snapshot) {
        snapshot = parameter;
        rounds.give_snapshot();
      } else if (demand == Demand::sum) {
        parameter += sum - snapshot + 1;
        rounds.take_sum();
      } else {
        has_demand.wait(false);
        has_demand = false;
      }
      if (is_left || rounds.count() < until) continue;
      rounds.leave();
      is_left = true;
    }
    EXPECT_EQ(parameter, rounds.count());
  }
}

TEST(Rounds, DemandNothingButTheFailureOnceTheyHaveFailed) {
  Rounds rounds{0ms, [] {}};
  rounds.begin(now());
  rounds.agree(Wish::average, now());
  rounds.give_snapshot();
  rounds.give_sum();
  rounds.agree(Wish::average, now());
  rounds.fail({.error = {.kind = ErrorKind::timeout, .message = "late", .retry_after = {}}, .own = {}});
  EXPECT_EQ(rounds.demand(), Demand::failure) << "a sum and a snapshot are demanded too";
  EXPECT_EQ(rounds.failure()->error.kind, ErrorKind::timeout);
}

TEST(Rounds, MayBeAskedForTheirDemandWhereItIsAnnounced) {
  std::vector<Demand> seen;
  Rounds* asked = nullptr;
  Rounds rounds{0ms, [&] { seen.push_back(asked->demand()); }};
  asked = &rounds;
  rounds.begin(now());
  EXPECT_TRUE(seen.empty()) << "the training thread begins them, and needs no announcement";
  rounds.agree(Wish::average, now());
  rounds.give_snapshot();
  rounds.give_sum();
  rounds.take_sum();
  rounds.leave();
  rounds.agree(Wish::leave, now());
  EXPECT_EQ(seen, (std::vector{Demand::snapshot, Demand::sum, Demand::end}));
}

TEST(Rounds, CountThoseThatWereAgreedOnAlsoOverSeveralAveragings) {
  Rounds rounds{0ms, [] {}};
  for (const std::int64_t count : {2, 4}) {
    rounds.begin(now());
    for (const Wish agreed : {Wish::average, Wish::average, Wish::leave}) {
      rounds.agree(agreed, now());
      rounds.give_snapshot();
    }
    EXPECT_EQ(rounds.count(), count);
  }
}

}  // namespace
}  // namespace trainyard::averaging
