#include "worker/launcher/collective_mismatch.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "api/contract.hpp"
#include "tests/worker/launcher/a_group.hpp"
#include "worker/launcher/peer_hub.hpp"
#include "worker/launcher/peer_link.hpp"
#include "worker/launcher/peer_spoke.hpp"
#include "worker/launcher/supervisor.hpp"

namespace trainyard::launcher {
namespace {

using namespace std::chrono_literals;
using Waits = std::vector<LongWait>;

constexpr auto mismatch_deadline = 60s;

LongWait wait_in(std::string collective, std::int64_t first_rank, std::int64_t ranks = 1) {
  return {.collective = std::move(collective), .ranks = ranks, .first_rank = first_rank};
}

TEST(AddRank, CountsRanksByCollective) {
  Waits waits;
  add_rank(waits, 4, "a");
  add_rank(waits, 5, "b");
  add_rank(waits, 6, "a");
  EXPECT_EQ(waits, (Waits{wait_in("a", 4, 2), wait_in("b", 5)}));
}

TEST(AddRank, LosesNoRankOfMoreCollectivesThanAMessageCarries) {
  Waits waits;
  for (std::int64_t rank = 0; rank < 10; ++rank) add_rank(waits, rank, std::to_string(rank));
  ASSERT_EQ(waits.size(), long_waits_max);
  EXPECT_EQ(waits.back(), wait_in("7", 7, 3));
}

TEST(MismatchOf, IsThereOnceAllRanksWaitInDifferentCollectives) {
  struct Row {
    std::string_view name;
    Waits waits;
    std::int64_t world_size = 0;
    std::string who = {};  // empty: no mismatch
  };
  const Row rows[] = {
      {"nobody waits", {}, 2},
      {"one computes", {wait_in("a", 0)}, 2},
      {"all wait in the same one: the network is slow", {wait_in("a", 0), wait_in("a", 1)}, 2},
      {"two collectives, but one rank computes", {wait_in("a", 0), wait_in("b", 1)}, 3},
      {"two ranks", {wait_in("b", 0), wait_in("a", 1)}, 2, "rank 0 in b, rank 1 in a"},
      {"all members of a process set exchange for long, and the others wait for them",
       {wait_in("all_gather of the process set \"a\" (2 ranks)", 0, 1),
        wait_in("all_gather of the process set \"a\" (2 ranks)", 2, 1), wait_in("b", 1)},
       3},
      {"one member of a process set has come",
       {wait_in("all_gather of the process set \"a\" (2 ranks)", 0), wait_in("b", 1, 2)},
       3,
       "rank 0 in all_gather of the process set \"a\" (2 ranks), 2 ranks (the first is 1) in b"},
      {"several launchers, in any order",
       {wait_in("a", 6, 2), wait_in("a", 2, 2), wait_in("b", 4, 1), wait_in("a", 5, 1), wait_in("b", 0, 2)},
       8,
       "3 ranks (the first is 0) in b, 5 ranks (the first is 2) in a"},
      {"more than a sentence names",
       {wait_in("a", 0), wait_in("b", 1), wait_in("c", 2), wait_in("d", 3), wait_in("e", 4), wait_in("f", 5)},
       6,
       "rank 0 in a, rank 1 in b, rank 2 in c, rank 3 in d, and in 2 more"},
      {"a count that cannot be", {wait_in("a", 0, 3), wait_in("b", 1, -1)}, 2},
      {"a count that would overflow", {wait_in("a", 0, std::numeric_limits<std::int64_t>::max()), wait_in("b", 1)}, 2},
  };
  for (const Row& row : rows) {
    const auto failure = mismatch_of(row.waits, row.world_size);
    ASSERT_EQ(failure.has_value(), !row.who.empty()) << row.name;
    if (!failure) continue;
    EXPECT_EQ(*failure,
              (GroupFailure{.culprit = {},
                            .exit_code = contract::exit_hang,
                            .reason = "CollectiveMismatch",
                            .message = "all ranks wait for each other in different collectives: " + row.who +
                                       ". Every rank must call the same collectives in the same order: look "
                                       "for one that only some ranks call, such as all_gather() or log() "
                                       "under a condition. Rarely the network between two of them is broken"}))
        << row.name;
  }
}

/// The time from `begin` at which `watch` gives `failure`, of looks each second until `end`.
std::optional<Instant> first_failure(MismatchWatch& watch, const GroupFailure& failure, Instant begin, Instant end) {
  for (Instant now = begin; now <= end; now += 1s) {
    if (watch.look(failure, now, 15s)) return now;
  }
  return std::nullopt;
}

TEST(MismatchWatch, WantsAMismatchWithoutABreak) {
  MismatchWatch watch;
  const GroupFailure failure = a_failure(1);
  EXPECT_EQ(first_failure(watch, failure, group_start, group_start + 14s), std::nullopt);
  EXPECT_EQ(watch.look({}, group_start + 15s, 15s), std::nullopt);
  EXPECT_EQ(first_failure(watch, failure, group_start + 16s, group_start + 60s), group_start + 31s);
}

TEST(MismatchWatch, BeginsAnewWhereNobodyLookedForAWhile) {
  MismatchWatch watch;
  const GroupFailure failure = a_failure(1);
  EXPECT_EQ(first_failure(watch, failure, group_start, group_start + 14s), std::nullopt);
  EXPECT_EQ(first_failure(watch, failure, group_start + 17s, group_start + 60s), group_start + 32s);
}

/// Rank 0's launcher, with the launchers of ranks 1 and 2 on connections 1 and 2.
PeerHub hub_of_three() {
  PeerHub hub{PeerSettings{.self = hello(0)}, group_start};
  for (const std::int64_t rank : {1, 2}) {
    hub.on_open(rank, "10.0.0." + std::to_string(rank), group_start);
    hub.on_message(rank, hello(rank), group_start);
  }
  return hub;
}

/// Lets `hub` hear what ranks 1 and 2 wait in, twice a second, as its own rank waits in a sum.
void hear(PeerHub& hub, const std::string& of_1, const std::string& of_2, Instant from, Instant to) {
  for (Instant now = from; now <= to; now += 500ms) {
    hub.report_long_waits({wait_in("a sum", 0)}, now);
    hub.on_message(1, PeerBeat{.missing = {}, .long_waits = {wait_in(of_1, 1)}}, now);
    if (!of_2.empty()) hub.on_message(2, PeerBeat{.missing = {}, .long_waits = {wait_in(of_2, 2)}}, now);
    hub.on_time(now);
  }
}

TEST(PeerHub, EndsAGroupWhoseRanksWaitInDifferentCollectives) {
  PeerHub hub = hub_of_three();
  hear(hub, "a gather", "a sum", group_start, group_start + mismatch_deadline - 500ms);
  EXPECT_EQ(hub.verdict(), std::nullopt);
  std::ignore = hub.take_actions();
  hear(hub, "a gather", "a sum", group_start + mismatch_deadline, group_start + mismatch_deadline);
  ASSERT_TRUE(hub.verdict());
  EXPECT_EQ(hub.verdict()->reason, "CollectiveMismatch");
  const auto actions = hub.take_actions();
  for (const PeerHub::ConnectionId id : {1, 2})
    EXPECT_NE(
        std::find(actions.begin(), actions.end(), PeerHub::Action{PeerHub::Send{id, FailureReport{*hub.verdict()}}}),
        actions.end());
}

TEST(PeerHub, LeavesAGroupAloneThatWaitsForOneOfItsRanks) {
  PeerHub hub = hub_of_three();
  hear(hub, "a gather", "a sum", group_start, group_start + 40s);
  hub.on_message(2, PeerBeat{}, group_start + 40s);  // It has gone on.
  hub.on_time(group_start + 40s);
  hear(hub, "a gather", "a sum", group_start + 41s, group_start + 80s);
  EXPECT_EQ(hub.verdict(), std::nullopt);
}

TEST(PeerHub, DoesNotBelieveOldWordsOfASilentLauncher) {
  PeerSettings settings{.self = hello(0)};
  settings.silence_deadline = 1h;  // As for a debugger.
  PeerHub hub{settings, group_start};
  for (const std::int64_t rank : {1, 2}) {
    hub.on_open(rank, "10.0.0.1", group_start);
    hub.on_message(rank, hello(rank), group_start);
  }
  hear(hub, "a gather", "a sum", group_start, group_start);
  hear(hub, "a gather", "", group_start + 500ms, group_start + 300s);
  EXPECT_EQ(hub.verdict(), std::nullopt);
}

TEST(PeerSpoke, TellsTheHubWhatItsRanksWaitIn) {
  PeerSpoke spoke{PeerSettings{.self = hello(1)}, "master:29502", group_start};
  spoke.on_time(group_start);
  spoke.on_open(group_start);
  spoke.on_message(Welcome{}, group_start);
  std::ignore = spoke.take_actions();
  spoke.report_long_waits({wait_in("a sum", 1)}, group_start);
  spoke.on_time(group_start + 1s);
  const PeerBeat beat{.missing = {}, .long_waits = {wait_in("a sum", 1)}};
  EXPECT_EQ(spoke.take_actions(), (std::vector<PeerSpoke::Action>{PeerSpoke::Send{beat}}));
  spoke.report_long_waits({}, group_start + 1s);
  spoke.on_time(group_start + 2s);
  EXPECT_EQ(spoke.take_actions(), (std::vector<PeerSpoke::Action>{PeerSpoke::Send{PeerBeat{}}}));
}

TEST(OpenPeerLink, GivesAGroupOfOneLauncherThatEndsWhenItsRanksWaitInDifferentCollectives) {
  rank::GroupEnvironment environment;
  environment.world_size = 2;
  Hello self = hello(0, 2);
  self.rank_count = 2;
  const auto link = open_peer_link(environment, PeerSettings{.self = self}, group_start);
  ASSERT_TRUE(link) << link.error().message;
  PeerGroup& group = (*link)->group();
  const Waits waits{wait_in("a sum", 0), wait_in("a gather", 1)};
  for (auto waited = 0s; waited < mismatch_deadline; waited += 1s) group.report_long_waits(waits, group_start + waited);
  EXPECT_EQ(group.verdict(), std::nullopt);
  group.report_long_waits(waits, group_start + mismatch_deadline);
  ASSERT_TRUE(group.verdict());
  EXPECT_EQ(group.verdict()->reason, "CollectiveMismatch");
}

TEST(Supervisor, KnowsTheLongWaitsOfItsRunningRanks) {
  Supervisor supervisor{{.first_rank = 4, .rank_count = 3}, group_start};
  const auto all_say = [&](const std::string& collective, Instant now) {
    for (const std::int64_t rank : {0, 1, 2}) supervisor.on_message(rank, rank::Beat{.long_wait = collective}, now);
  };
  all_say("a sum", group_start);
  EXPECT_EQ(supervisor.long_waits(group_start + 4s), (Waits{wait_in("a sum", 4, 3)}));
  EXPECT_EQ(supervisor.long_waits(group_start + 5s), Waits{}) << "a rank that waits says so again and again";
  supervisor.on_message(0, rank::RankProgress{.phase = "Training"}, group_start + 5s);
  EXPECT_EQ(supervisor.long_waits(group_start + 5s), Waits{}) << "a report says nothing of waits";
  all_say("a sum", group_start + 6s);
  supervisor.on_message(0, rank::Beat{}, group_start + 6s);
  EXPECT_EQ(supervisor.long_waits(group_start + 6s), (Waits{wait_in("a sum", 5, 2)})) << "rank 4 has gone on";
  supervisor.on_death(1, {.exit_code = 1}, group_start + 6s);
  EXPECT_EQ(supervisor.long_waits(group_start + 6s), (Waits{wait_in("a sum", 6)})) << "rank 5 has ended";
}

}  // namespace
}  // namespace trainyard::launcher
