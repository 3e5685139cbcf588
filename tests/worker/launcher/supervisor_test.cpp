#include "worker/launcher/supervisor.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <functional>

#include "common/contract.hpp"

namespace trainyard::launcher {
namespace {

using namespace std::chrono_literals;
using Actions = std::vector<Supervisor::Action>;
using SendSignal = Supervisor::SendSignal;
using TellRank = Supervisor::TellRank;

constexpr Instant start{};

SupervisorSettings settings(std::int64_t first_rank, std::int64_t rank_count) {
  return {.first_rank = first_rank, .rank_count = rank_count};
}

RankProgress at_step(std::int64_t step) {
  RankProgress progress;
  progress.phase = "Training";
  progress.step = step;
  return progress;
}

GroupFailure killed(std::int64_t rank) {
  return failure_of(rank, {.signal = SIGKILL}, {});
}

/// Lets time pass as the loop does, in small steps.
void pass(Supervisor& supervisor, Instant from, Instant to) {
  for (Instant now = from; now <= to; now += 100ms) supervisor.on_time(now);
}

TEST(Supervisor, EndsWellWhenAllItsRanksDo) {
  Supervisor supervisor{settings(4, 2), start};
  supervisor.on_death(0, {.exit_code = 0}, start + 1s);
  EXPECT_EQ(supervisor.end(), std::nullopt);
  supervisor.on_death(1, {.exit_code = 0}, start + 2s);
  EXPECT_EQ(supervisor.end(), (RankEnd{.exit_code = 0, .reason = "Completed", .message = "", .culprit = {}}));
  EXPECT_EQ(supervisor.own_failure(), std::nullopt);
}

TEST(Supervisor, ReportsTheFirstFailureAndEndsOnceTheGroupHasItsVerdict) {
  Supervisor supervisor{settings(0, 1), start};
  supervisor.on_message(0, RankEnd{.exit_code = 93, .reason = "InvalidData", .message = "no data", .culprit = {}},
                        start);
  supervisor.on_death(0, {.exit_code = 93}, start + 1s);
  EXPECT_EQ(supervisor.end(), std::nullopt);
  ASSERT_TRUE(supervisor.own_failure());
  supervisor.on_verdict(*supervisor.own_failure(), start + 1s);
  EXPECT_EQ(supervisor.end(),
            (RankEnd{.exit_code = 93, .reason = "InvalidData", .message = "rank 0: no data", .culprit = {}}));
  EXPECT_EQ(supervisor.speaker(), 0);
}

TEST(Supervisor, EndsAsPeerLostWhenTheVerdictNamesAnother) {
  Supervisor supervisor{settings(1, 1), start};
  supervisor.on_death(0, {.exit_code = 1}, start + 1s);  // A script that fell over the broken connection.
  supervisor.on_verdict(killed(0), start + 1s);
  EXPECT_EQ(supervisor.end(), (RankEnd{.exit_code = contract::exit_peer_lost,
                                       .reason = "PeerLost",
                                       .message = "rank 0 was killed by signal 9 (SIGKILL)",
                                       .culprit = 0,
                                       .culprit_exit_code = 137}));
}

TEST(Supervisor, TellsItsRanksOfTheVerdictThenKillsThem) {
  Supervisor supervisor{settings(0, 3), start};
  supervisor.on_message(0, Alive{}, start);
  supervisor.on_death(1, {.exit_code = 0}, start);
  supervisor.on_verdict(killed(7), start);
  // Rank 2 has never used its link: SIGTERM is all that reaches it.
  EXPECT_EQ(supervisor.take_actions(), (Actions{TellRank{0, end_of_others(killed(7))}, SendSignal{2, SIGTERM}}));
  pass(supervisor, start, start + 900ms);
  EXPECT_EQ(supervisor.take_actions(), Actions{});
  pass(supervisor, start + 1s, start + 5s);
  EXPECT_EQ(supervisor.take_actions(), (Actions{SendSignal{0, SIGKILL}, SendSignal{2, SIGKILL}}));
}

TEST(Supervisor, DoesNotTakeTheStopThatItSentItselfForAWishOfTheUser) {
  Supervisor supervisor{settings(1, 1), start};
  supervisor.on_verdict(killed(0), start);
  EXPECT_EQ(supervisor.take_actions(), (Actions{SendSignal{0, SIGTERM}}));
  supervisor.on_death(0, {.exit_code = contract::exit_preempted}, start);
  EXPECT_EQ(supervisor.end()->exit_code, contract::exit_peer_lost);
}

TEST(Supervisor, EndsTheOtherRanksOfThePodWithTheOneThatFailed) {
  Supervisor supervisor{settings(0, 2), start};
  supervisor.on_message(1, Alive{}, start);
  supervisor.on_death(0, {.signal = SIGSEGV}, start);
  supervisor.on_verdict(*supervisor.own_failure(), start);
  EXPECT_EQ(supervisor.take_actions(), (Actions{TellRank{1, end_of_others(*supervisor.own_failure())}}));
  supervisor.on_death(1, {.exit_code = contract::exit_peer_lost}, start + 10ms);
  ASSERT_TRUE(supervisor.end());
  EXPECT_EQ(supervisor.end()->exit_code, 139);
  EXPECT_EQ(supervisor.end()->reason, "Crashed");
}

TEST(Supervisor, WaitsForTheCauseWhenARankOnlyLostAPeer) {
  Supervisor supervisor{settings(1, 1), start};
  supervisor.on_death(0, {.exit_code = contract::exit_peer_lost}, start);
  pass(supervisor, start, start + 1400ms);
  EXPECT_EQ(supervisor.own_failure(), std::nullopt);
  supervisor.on_verdict(killed(0), start + 1400ms);
  EXPECT_EQ(supervisor.end()->culprit, 0);
}

TEST(Supervisor, ReportsPeerLostItselfWhenNobodyKnowsTheCause) {
  Supervisor supervisor{settings(1, 1), start};
  supervisor.on_message(0, RankEnd{.exit_code = 90, .reason = "PeerLost", .message = "connection reset", .culprit = {}},
                        start);
  supervisor.on_death(0, {.exit_code = contract::exit_peer_lost}, start);
  pass(supervisor, start, start + 2s);
  EXPECT_EQ(supervisor.own_failure(),
            (GroupFailure{.culprit = {},
                          .exit_code = contract::exit_peer_lost,
                          .reason = "PeerLost",
                          .message = "rank 1 lost a peer, but no launcher reports a death: connection reset"}));
}

TEST(Supervisor, KillsARankWhoseProcessFallsSilent) {
  Supervisor supervisor{settings(2, 1), start};
  supervisor.on_message(0, at_step(120), start);
  pass(supervisor, start, start + 9'900ms);
  EXPECT_EQ(supervisor.own_failure(), std::nullopt);
  pass(supervisor, start + 9'900ms, start + 10s);
  EXPECT_EQ(supervisor.take_actions(), (Actions{SendSignal{0, SIGKILL}}));
  EXPECT_EQ(supervisor.own_failure(),
            (GroupFailure{
                .culprit = 2,
                .exit_code = contract::exit_hang,
                .reason = "Hang",
                .message = "rank 2 has not been heard from for 10 s: its process is stopped or gets no processor; last "
                           "seen in phase Training, after step 120"}));
  // The death that follows is ours, not news.
  supervisor.on_death(0, {.signal = SIGKILL}, start + 11s);
  EXPECT_EQ(supervisor.own_failure()->exit_code, contract::exit_hang);
}

TEST(Supervisor, KillsARankThatLivesButMakesNoProgress) {
  Supervisor supervisor{settings(0, 1), start};
  supervisor.on_message(0, Beat{}, start);
  for (Instant now = start; now < start + 600s; now += 1s) {
    supervisor.on_message(0, Alive{}, now);
    supervisor.on_time(now);
    ASSERT_EQ(supervisor.own_failure(), std::nullopt);
  }
  supervisor.on_message(0, Alive{}, start + 600s);
  supervisor.on_time(start + 600s);
  ASSERT_TRUE(supervisor.own_failure());
  EXPECT_EQ(supervisor.own_failure()->message, "rank 0 made no progress for 600 s; last seen before its first report");
}

TEST(Supervisor, GivesTheTimeItTakesToWhatMovesDataOrWaitsForOthers) {
  for (const char* phase : {"Rendezvous", "Loading", "Saving"}) {
    Supervisor supervisor{settings(0, 1), start};
    RankProgress progress;
    progress.phase = phase;
    supervisor.on_message(0, progress, start);
    for (Instant now = start; now <= start + 3600s; now += 4s) {
      supervisor.on_message(0, Alive{}, now);
      supervisor.on_time(now);
    }
    EXPECT_EQ(supervisor.own_failure(), std::nullopt) << phase;
  }
}

TEST(Supervisor, LeavesAloneAProgramThatHasNeverUsedItsLink) {
  Supervisor supervisor{settings(0, 1), start};
  for (Instant now = start; now < start + 3600s; now += 4s) supervisor.on_time(now);
  EXPECT_EQ(supervisor.take_actions(), Actions{});
}

TEST(Supervisor, BlamesNobodyForTheTimeInWhichItSleptItself) {
  Supervisor supervisor{settings(0, 1), start};
  supervisor.on_message(0, Alive{}, start);
  supervisor.on_time(start);
  supervisor.on_time(start + 3600s);
  EXPECT_EQ(supervisor.own_failure(), std::nullopt);
  pass(supervisor, start + 3600s, start + 3611s);
  EXPECT_TRUE(supervisor.own_failure());
}

TEST(Supervisor, ForwardsAStopAndEndsPreempted) {
  Supervisor supervisor{settings(0, 2), start};
  supervisor.on_stop(start);
  EXPECT_EQ(supervisor.take_actions(), (Actions{SendSignal{0, SIGTERM}, SendSignal{1, SIGTERM}}));
  const RankEnd said{
      .exit_code = contract::exit_preempted, .reason = "Preempted", .message = "saved step 12", .culprit = {}};
  supervisor.on_message(1, said, start + 1s);
  supervisor.on_death(1, {.exit_code = contract::exit_preempted}, start + 1s);
  supervisor.on_death(0, {.exit_code = contract::exit_success}, start + 2s);
  EXPECT_EQ(supervisor.end(), said);
}

TEST(Supervisor, KillsWhatHasNotStoppedWithinTheGracePeriod) {
  Supervisor supervisor{settings(3, 1), start};
  supervisor.on_stop(start);
  EXPECT_EQ(supervisor.take_actions(), (Actions{SendSignal{0, SIGTERM}}));
  pass(supervisor, start, start + 24'900ms);
  EXPECT_EQ(supervisor.take_actions(), Actions{});
  pass(supervisor, start + 25s, start + 30s);
  EXPECT_EQ(supervisor.take_actions(), (Actions{SendSignal{0, SIGKILL}}));
  supervisor.on_death(0, {.signal = SIGKILL}, start + 25s);
  EXPECT_EQ(supervisor.own_failure(),
            (GroupFailure{.culprit = 3,
                          .exit_code = 143,
                          .reason = "GraceExpired",
                          .message = "rank 3 was asked to stop, had not ended 25 s later, and was killed"}));
}

TEST(Supervisor, KnowsWhenARankMakesNoStepAnyMore) {
  struct Row {
    std::string_view name;
    std::function<void(Supervisor&)> happen;
    bool is_over;
  };
  const Row rows[] = {
      {"nothing was heard", [](Supervisor&) {}, false},
      {"it trains", [](Supervisor& supervisor) { supervisor.on_message(0, at_step(1), start); }, false},
      {"it is asked to stop", [](Supervisor& supervisor) { supervisor.on_stop(start); }, false},
      {"the other rank is done", [](Supervisor& supervisor) { supervisor.on_death(1, {.exit_code = 0}, start); },
       false},
      {"it is done", [](Supervisor& supervisor) { supervisor.on_message(0, RankProgress{.phase = "Done"}, start); },
       true},
      {"it has said its last words",
       [](Supervisor& supervisor) { supervisor.on_message(0, RankEnd{.exit_code = 91}, start); }, true},
      {"it has died", [](Supervisor& supervisor) { supervisor.on_death(0, {.signal = SIGKILL}, start); }, true},
      {"the group is broken", [](Supervisor& supervisor) { supervisor.on_verdict(killed(7), start); }, true},
  };
  for (const Row& row : rows) {
    Supervisor supervisor{settings(0, 2), start};
    row.happen(supervisor);
    EXPECT_EQ(supervisor.is_training_over(0), row.is_over) << row.name;
  }
}

TEST(Supervisor, KillsAtOnceWhenAskedToStopTwice) {
  Supervisor supervisor{settings(0, 1), start};
  supervisor.on_stop(start);
  supervisor.on_stop(start + 1s);
  EXPECT_EQ(supervisor.take_actions(), (Actions{SendSignal{0, SIGTERM}, SendSignal{0, SIGKILL}}));
}

TEST(Supervisor, SaysThatAProgramEndedByTheStopWithoutSaving) {
  Supervisor supervisor{settings(0, 1), start};
  supervisor.on_stop(start);
  supervisor.on_death(0, {.signal = SIGTERM}, start);
  EXPECT_EQ(supervisor.own_failure()->reason, "Terminated");
  EXPECT_EQ(supervisor.own_failure()->exit_code, 143);
}

}  // namespace
}  // namespace trainyard::launcher
