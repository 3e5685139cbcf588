#include "worker/launcher/supervisor.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <functional>

#include "api/contract.hpp"
#include "tests/worker/launcher/a_group.hpp"

namespace trainyard::launcher {
namespace {

using namespace std::chrono_literals;
using SupervisorActions = std::vector<Supervisor::Action>;
using SendSignal = Supervisor::SendSignal;
using TellRank = Supervisor::TellRank;

SupervisorSettings supervisor_settings(std::int64_t first_rank, std::int64_t rank_count) {
  return {.first_rank = first_rank, .rank_count = rank_count};
}

rank::RankProgress at_step(std::int64_t step) {
  rank::RankProgress progress;
  progress.phase = "Training";
  progress.step = step;
  return progress;
}

/// Calls on_time() in small steps, as the launcher's loop does.
void pass(Supervisor& supervisor, Instant from, Instant to) {
  for (Instant now = from; now <= to; now += 100ms) supervisor.on_time(now);
}

TEST(Supervisor, EndsWellWhenAllItsRanksDo) {
  Supervisor supervisor{supervisor_settings(4, 2), group_start};
  supervisor.on_death(0, {.exit_code = 0}, group_start + 1s);
  EXPECT_EQ(supervisor.end(), std::nullopt);
  supervisor.on_death(1, {.exit_code = 0}, group_start + 2s);
  EXPECT_EQ(supervisor.end(), (rank::RankEnd{.exit_code = 0, .reason = "Completed", .message = "", .culprit = {}}));
  EXPECT_EQ(supervisor.own_failure(), std::nullopt);
}

TEST(Supervisor, TakesAnExitBeforeTheTrainingIsCompleteForAFailureOfARankThatUsesItsLink) {
  struct Row {
    std::string_view name;
    std::function<void(Supervisor&)> happen;
    std::string reason = {};  // empty: the rank ended without a failure
  };
  const Row rows[] = {
      {"a program that knows nothing of its launcher", [](Supervisor&) {}},
      {"it only lived", [](Supervisor& supervisor) { supervisor.on_message(0, rank::Alive{}, group_start); },
       "EndedEarly"},
      {"it trained", [](Supervisor& supervisor) { supervisor.on_message(0, at_step(7), group_start); }, "EndedEarly"},
      {"it has said its last words",
       [](Supervisor& supervisor) {
         supervisor.on_message(0, at_step(7), group_start);
         supervisor.on_message(0, rank::RankEnd{.reason = "Completed"}, group_start);
       }},
      {"it has reported that it is done",
       [](Supervisor& supervisor) { supervisor.on_message(0, rank::RankProgress{.phase = "Done"}, group_start); }},
  };
  for (const Row& row : rows) {
    Supervisor supervisor{supervisor_settings(3, 1), group_start};
    row.happen(supervisor);
    supervisor.on_death(0, {.exit_code = 0}, group_start + 1s);
    EXPECT_EQ(supervisor.own_failure() ? supervisor.own_failure()->reason : "", row.reason) << row.name;
    EXPECT_EQ(supervisor.end().has_value(), row.reason.empty()) << row.name;
  }
  Supervisor supervisor{supervisor_settings(3, 1), group_start};
  supervisor.on_message(0, at_step(7), group_start);
  supervisor.on_death(0, {.exit_code = 0}, group_start + 1s);
  EXPECT_EQ(supervisor.own_failure(),
            (GroupFailure{.culprit = 3,
                          .exit_code = contract::exit_failure,
                          .reason = "EndedEarly",
                          .message = "rank 3 ended with exit code 0, but had not said that its training is complete; "
                                     "last seen in phase Training, after step 7: look for a call of exit() in its "
                                     "program"}));
}

TEST(Supervisor, ReportsTheFirstFailureAndEndsOnceTheGroupHasItsVerdict) {
  Supervisor supervisor{supervisor_settings(0, 1), group_start};
  supervisor.on_message(0, rank::RankEnd{.exit_code = 93, .reason = "InvalidData", .message = "no data", .culprit = {}},
                        group_start);
  supervisor.on_death(0, {.exit_code = 93}, group_start + 1s);
  EXPECT_EQ(supervisor.end(), std::nullopt);
  ASSERT_TRUE(supervisor.own_failure());
  supervisor.on_verdict(*supervisor.own_failure(), group_start + 1s);
  EXPECT_EQ(supervisor.end(),
            (rank::RankEnd{.exit_code = 93, .reason = "InvalidData", .message = "rank 0: no data", .culprit = {}}));
  EXPECT_EQ(supervisor.culprit_or_first_rank(), 0);
}

TEST(Supervisor, EndsAsPeerLostWhenTheVerdictNamesAnother) {
  Supervisor supervisor{supervisor_settings(1, 1), group_start};
  supervisor.on_death(0, {.exit_code = 1}, group_start + 1s);  // A script that failed because the connection broke.
  supervisor.on_verdict(killed(0), group_start + 1s);
  EXPECT_EQ(supervisor.end(), (rank::RankEnd{.exit_code = contract::exit_peer_lost,
                                             .reason = "PeerLost",
                                             .message = "rank 0 was killed by signal 9 (SIGKILL)",
                                             .culprit = 0,
                                             .culprit_exit_code = 137}));
}

TEST(Supervisor, SendsItsRanksTheVerdictThenKillsThem) {
  Supervisor supervisor{supervisor_settings(0, 3), group_start};
  supervisor.on_message(0, rank::Alive{}, group_start);
  supervisor.on_death(1, {.exit_code = 0}, group_start);
  supervisor.on_verdict(killed(7), group_start);
  // Rank 2 has never used its link: only SIGTERM reaches it.
  EXPECT_EQ(supervisor.take_actions(),
            (SupervisorActions{TellRank{0, end_of_others(killed(7))}, SendSignal{2, SIGTERM}}));
  pass(supervisor, group_start, group_start + 900ms);
  EXPECT_EQ(supervisor.take_actions(), SupervisorActions{});
  pass(supervisor, group_start + 1s, group_start + 5s);
  EXPECT_EQ(supervisor.take_actions(), (SupervisorActions{SendSignal{0, SIGKILL}, SendSignal{2, SIGKILL}}));
}

TEST(Supervisor, DoesNotTakeTheStopThatItSentItselfForAWishOfTheUser) {
  Supervisor supervisor{supervisor_settings(1, 1), group_start};
  supervisor.on_verdict(killed(0), group_start);
  EXPECT_EQ(supervisor.take_actions(), (SupervisorActions{SendSignal{0, SIGTERM}}));
  supervisor.on_death(0, {.exit_code = contract::exit_preempted}, group_start);
  EXPECT_EQ(supervisor.end()->exit_code, contract::exit_peer_lost);
}

TEST(Supervisor, EndsTheOtherRanksOfThePodWithTheOneThatFailed) {
  Supervisor supervisor{supervisor_settings(0, 2), group_start};
  supervisor.on_message(1, rank::Alive{}, group_start);
  supervisor.on_death(0, {.signal = SIGSEGV}, group_start);
  supervisor.on_verdict(*supervisor.own_failure(), group_start);
  EXPECT_EQ(supervisor.take_actions(), (SupervisorActions{TellRank{1, end_of_others(*supervisor.own_failure())}}));
  supervisor.on_death(1, {.exit_code = contract::exit_peer_lost}, group_start + 10ms);
  ASSERT_TRUE(supervisor.end());
  EXPECT_EQ(supervisor.end()->exit_code, 139);
  EXPECT_EQ(supervisor.end()->reason, "Crashed");
}

TEST(Supervisor, WaitsForTheCauseWhenARankOnlyLostAPeer) {
  Supervisor supervisor{supervisor_settings(1, 1), group_start};
  supervisor.on_death(0, {.exit_code = contract::exit_peer_lost}, group_start);
  pass(supervisor, group_start, group_start + 1400ms);
  EXPECT_EQ(supervisor.own_failure(), std::nullopt);
  supervisor.on_verdict(killed(0), group_start + 1400ms);
  EXPECT_EQ(supervisor.end()->culprit, 0);
  pass(supervisor, group_start + 1400ms, group_start + 5s);
  EXPECT_EQ(supervisor.own_failure(), std::nullopt) << "the verdict has named the cause";
}

TEST(Supervisor, ReportsPeerLostItselfWhenNobodyKnowsTheCause) {
  Supervisor supervisor{supervisor_settings(1, 1), group_start};
  supervisor.on_message(
      0, rank::RankEnd{.exit_code = 90, .reason = "PeerLost", .message = "connection reset", .culprit = {}},
      group_start);
  supervisor.on_death(0, {.exit_code = contract::exit_peer_lost}, group_start);
  pass(supervisor, group_start, group_start + 2s);
  EXPECT_EQ(supervisor.own_failure(),
            (GroupFailure{.culprit = {},
                          .exit_code = contract::exit_peer_lost,
                          .reason = "PeerLost",
                          .message = "rank 1 lost a peer, but no launcher reported a failure: connection reset"}));
}

TEST(Supervisor, KillsARankWhoseProcessFallsSilent) {
  Supervisor supervisor{supervisor_settings(2, 1), group_start};
  supervisor.on_message(0, at_step(120), group_start);
  pass(supervisor, group_start, group_start + 9'900ms);
  EXPECT_EQ(supervisor.own_failure(), std::nullopt);
  pass(supervisor, group_start + 9'900ms, group_start + 10s);
  EXPECT_EQ(supervisor.take_actions(), (SupervisorActions{SendSignal{0, SIGKILL}}));
  EXPECT_EQ(supervisor.own_failure(),
            (GroupFailure{
                .culprit = 2,
                .exit_code = contract::exit_hang,
                .reason = "Hang",
                .message = "rank 2 has not been heard from for 10 s: its process is stopped or gets no processor; last "
                           "seen in phase Training, after step 120"}));
  pass(supervisor, group_start + 10s, group_start + 30s);
  EXPECT_EQ(supervisor.take_actions(), SupervisorActions{}) << "it is killed once";
  // This launcher caused the death that follows: it is no new failure.
  supervisor.on_death(0, {.signal = SIGKILL}, group_start + 11s);
  EXPECT_EQ(supervisor.own_failure()->exit_code, contract::exit_hang);
}

TEST(Supervisor, SaysWhereARankWasLastSeen) {
  for (const auto& [progress, seen] :
       {std::pair{std::optional<rank::RankProgress>{}, "before its first report"},
        std::pair{std::optional{rank::RankProgress{.phase = "Loading"}}, "in phase Loading"},
        std::pair{std::optional{at_step(7)}, "in phase Training, after step 7"}}) {
    Supervisor supervisor{supervisor_settings(0, 1), group_start};
    supervisor.on_message(0, rank::Alive{}, group_start);
    if (progress) supervisor.on_message(0, *progress, group_start);
    pass(supervisor, group_start, group_start + 10s);
    ASSERT_TRUE(supervisor.own_failure());
    EXPECT_TRUE(supervisor.own_failure()->message.ends_with(std::string{"; last seen "} + seen))
        << supervisor.own_failure()->message;
  }
}

TEST(Supervisor, ExpectsNothingOfARankThatHasEndedOrThatAVerdictEnds) {
  Supervisor supervisor{supervisor_settings(0, 2), group_start};
  supervisor.on_message(0, at_step(7), group_start);
  supervisor.on_message(0, rank::RankEnd{.reason = "Completed"}, group_start);
  supervisor.on_death(0, {.exit_code = 0}, group_start);
  pass(supervisor, group_start, group_start + 700s);
  EXPECT_EQ(supervisor.take_actions(), SupervisorActions{});
  EXPECT_EQ(supervisor.own_failure(), std::nullopt);

  Supervisor broken{supervisor_settings(0, 1), group_start};
  broken.on_message(0, at_step(7), group_start);
  broken.on_verdict(killed(7), group_start);
  pass(broken, group_start, group_start + 30s);
  EXPECT_EQ(broken.take_actions(), (SupervisorActions{TellRank{0, end_of_others(killed(7))}, SendSignal{0, SIGKILL}}));
  EXPECT_EQ(broken.own_failure(), std::nullopt) << "the group knows why it has ended";
}

TEST(Supervisor, KillsARankThatLivesButMakesNoProgress) {
  Supervisor supervisor{supervisor_settings(0, 1), group_start};
  supervisor.on_message(0, rank::Beat{}, group_start);
  for (Instant now = group_start; now < group_start + 600s; now += 1s) {
    supervisor.on_message(0, rank::Alive{}, now);
    supervisor.on_time(now);
    ASSERT_EQ(supervisor.own_failure(), std::nullopt);
  }
  supervisor.on_message(0, rank::Alive{}, group_start + 600s);
  supervisor.on_time(group_start + 600s);
  ASSERT_TRUE(supervisor.own_failure());
  EXPECT_EQ(supervisor.own_failure()->message, "rank 0 made no progress for 600 s; last seen before its first report");
}

TEST(Supervisor, KillsARankThatMakesNoProgressInValidation) {
  Supervisor supervisor{supervisor_settings(0, 1), group_start};
  supervisor.on_message(0, rank::RankProgress{.phase = "Validating"}, group_start);
  for (Instant now = group_start; now <= group_start + 600s; now += 4s) {
    supervisor.on_message(0, rank::Alive{}, now);
    supervisor.on_time(now);
  }
  ASSERT_TRUE(supervisor.own_failure());
  EXPECT_EQ(supervisor.own_failure()->message, "rank 0 made no progress for 600 s; last seen in phase Validating");
}

TEST(Supervisor, GivesPhasesThatMoveDataOrWaitForOthersTheTimeTheyNeed) {
  for (const char* phase : {"Rendezvous", "Loading", "Saving", "Done"}) {
    Supervisor supervisor{supervisor_settings(0, 1), group_start};
    rank::RankProgress progress;
    progress.phase = phase;
    supervisor.on_message(0, progress, group_start);
    for (Instant now = group_start; now <= group_start + 3600s; now += 4s) {
      supervisor.on_message(0, rank::Alive{}, now);
      supervisor.on_time(now);
    }
    EXPECT_EQ(supervisor.own_failure(), std::nullopt) << phase;
  }
}

TEST(Supervisor, LeavesAloneAProgramThatHasNeverUsedItsLink) {
  Supervisor supervisor{supervisor_settings(0, 1), group_start};
  for (Instant now = group_start; now < group_start + 3600s; now += 4s) supervisor.on_time(now);
  // A sleep of the launcher's own is no sign of life of the program.
  pass(supervisor, group_start + 7200s, group_start + 7220s);
  EXPECT_EQ(supervisor.take_actions(), SupervisorActions{});
}

TEST(Supervisor, JudgesSilenceAlthoughItLooksOnlyTwiceWithinTheDeadline) {
  Supervisor supervisor{supervisor_settings(0, 1), group_start};
  supervisor.on_message(0, rank::Alive{}, group_start);
  supervisor.on_time(group_start + 5s);
  EXPECT_EQ(supervisor.own_failure(), std::nullopt);
  supervisor.on_time(group_start + 10s);
  EXPECT_TRUE(supervisor.own_failure());
}

TEST(Supervisor, BlamesNobodyForTheTimeInWhichItSleptItself) {
  Supervisor supervisor{supervisor_settings(0, 1), group_start};
  supervisor.on_message(0, rank::Alive{}, group_start);
  supervisor.on_time(group_start);
  supervisor.on_time(group_start + 3600s);
  EXPECT_EQ(supervisor.own_failure(), std::nullopt);
  pass(supervisor, group_start + 3600s, group_start + 3611s);
  EXPECT_TRUE(supervisor.own_failure());
}

TEST(Supervisor, DoesNotCountTheTimeInWhichItSleptItselfAsTimeWithoutProgress) {
  Supervisor supervisor{supervisor_settings(0, 1), group_start};
  supervisor.on_message(0, at_step(120), group_start);
  const auto live = [&](Instant from, Instant to) {
    for (Instant now = from; now < to; now += 1s) {
      supervisor.on_message(0, rank::Alive{}, now);
      supervisor.on_time(now);
    }
  };
  live(group_start, group_start + 300s);
  live(group_start + 3900s, group_start + 4199s);
  EXPECT_EQ(supervisor.own_failure(), std::nullopt) << "not yet 600 s of its own have passed";
  live(group_start + 4199s, group_start + 4203s);
  ASSERT_TRUE(supervisor.own_failure());
  EXPECT_EQ(supervisor.own_failure()->reason, "Hang");
}

TEST(Supervisor, ForwardsAStopAndEndsPreempted) {
  Supervisor supervisor{supervisor_settings(0, 2), group_start};
  supervisor.on_stop(group_start);
  EXPECT_EQ(supervisor.take_actions(), (SupervisorActions{SendSignal{0, SIGTERM}, SendSignal{1, SIGTERM}}));
  const rank::RankEnd said{
      .exit_code = contract::exit_preempted, .reason = "Preempted", .message = "saved step 12", .culprit = {}};
  supervisor.on_message(1, said, group_start + 1s);
  supervisor.on_death(1, {.exit_code = contract::exit_preempted}, group_start + 1s);
  supervisor.on_death(0, {.exit_code = contract::exit_success}, group_start + 2s);
  EXPECT_EQ(supervisor.end(), said);
}

TEST(Supervisor, KillsWhatHasNotStoppedWithinTheGracePeriod) {
  Supervisor supervisor{supervisor_settings(3, 1), group_start};
  supervisor.on_stop(group_start);
  EXPECT_EQ(supervisor.take_actions(), (SupervisorActions{SendSignal{0, SIGTERM}}));
  pass(supervisor, group_start, group_start + 24'900ms);
  EXPECT_EQ(supervisor.take_actions(), SupervisorActions{});
  pass(supervisor, group_start + 25s, group_start + 30s);
  EXPECT_EQ(supervisor.take_actions(), (SupervisorActions{SendSignal{0, SIGKILL}}));
  supervisor.on_death(0, {.signal = SIGKILL}, group_start + 25s);
  EXPECT_EQ(supervisor.own_failure(),
            (GroupFailure{.culprit = 3,
                          .exit_code = 143,
                          .reason = "GraceExpired",
                          .message = "rank 3 was asked to stop, had not ended 25 s later, and was killed"}));
}

TEST(Supervisor, KeepsItsDeadlinesToTheMoment) {
  Supervisor told{supervisor_settings(0, 1), group_start};
  told.on_verdict(killed(7), group_start);
  told.on_verdict(killed(8), group_start + 500ms);  // The first one is the group's.
  EXPECT_EQ(told.take_actions(), (SupervisorActions{SendSignal{0, SIGTERM}}));
  told.on_time(group_start + 999ms);
  EXPECT_EQ(told.take_actions(), SupervisorActions{});
  told.on_time(group_start + 1s);
  EXPECT_EQ(told.take_actions(), (SupervisorActions{SendSignal{0, SIGKILL}}));

  Supervisor stopped{supervisor_settings(0, 2), group_start};
  stopped.on_death(0, {.exit_code = 0}, group_start);
  stopped.on_stop(group_start);
  EXPECT_EQ(stopped.take_actions(), (SupervisorActions{SendSignal{1, SIGTERM}})) << "rank 0 has ended already";
  stopped.on_time(group_start + 24'999ms);
  EXPECT_EQ(stopped.take_actions(), SupervisorActions{});
  stopped.on_time(group_start + 25s);
  EXPECT_EQ(stopped.take_actions(), (SupervisorActions{SendSignal{1, SIGKILL}}));
}

TEST(Supervisor, KnowsWhenARankMakesNoStepAnyMore) {
  struct Row {
    std::string_view name;
    std::function<void(Supervisor&)> happen;
    bool is_over;
  };
  const Row rows[] = {
      {"nothing was heard", [](Supervisor&) {}, false},
      {"it trains", [](Supervisor& supervisor) { supervisor.on_message(0, at_step(1), group_start); }, false},
      {"it is asked to stop", [](Supervisor& supervisor) { supervisor.on_stop(group_start); }, false},
      {"the other rank is done", [](Supervisor& supervisor) { supervisor.on_death(1, {.exit_code = 0}, group_start); },
       false},
      {"it is done",
       [](Supervisor& supervisor) { supervisor.on_message(0, rank::RankProgress{.phase = "Done"}, group_start); },
       true},
      {"it has said its last words",
       [](Supervisor& supervisor) { supervisor.on_message(0, rank::RankEnd{.exit_code = 91}, group_start); }, true},
      {"it has died", [](Supervisor& supervisor) { supervisor.on_death(0, {.signal = SIGKILL}, group_start); }, true},
      {"the group is broken", [](Supervisor& supervisor) { supervisor.on_verdict(killed(7), group_start); }, true},
  };
  for (const Row& row : rows) {
    Supervisor supervisor{supervisor_settings(0, 2), group_start};
    row.happen(supervisor);
    EXPECT_EQ(supervisor.is_training_over(0), row.is_over) << row.name;
  }
}

TEST(Supervisor, KillsAtOnceWhenAskedToStopTwice) {
  Supervisor supervisor{supervisor_settings(0, 1), group_start};
  supervisor.on_stop(group_start);
  supervisor.on_stop(group_start + 1s);
  EXPECT_EQ(supervisor.take_actions(), (SupervisorActions{SendSignal{0, SIGTERM}, SendSignal{0, SIGKILL}}));
  supervisor.on_death(0, {.signal = SIGKILL}, group_start + 1s);
  EXPECT_EQ(supervisor.own_failure(), (GroupFailure{.culprit = 0,
                                                    .exit_code = 143,
                                                    .reason = "Terminated",
                                                    .message = "rank 0 was asked to stop twice, and was killed"}));
}

}  // namespace
}  // namespace trainyard::launcher
