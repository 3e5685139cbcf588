// How a launcher explains the deaths of its ranks, and how it ends itself.
#include <gtest/gtest.h>

#include <csignal>
#include <functional>

#include "api/contract.hpp"
#include "tests/worker/launcher/a_group.hpp"
#include "worker/launcher/supervisor.hpp"

namespace trainyard::launcher {
namespace {

using namespace std::chrono_literals;

/// A launcher of `rank_count` ranks, the first of which is rank 4.
Supervisor a_supervisor(std::int64_t rank_count) {
  return Supervisor{SupervisorSettings{.first_rank = 4, .rank_count = rank_count}, group_start};
}

TEST(SupervisorsEnd, ExplainsTheDeathOfARank) {
  struct Row {
    std::string_view name;
    std::function<void(Supervisor&)> happen;
    Death death;
    std::optional<GroupFailure> failure;
  };
  const auto nothing = [](Supervisor&) {};
  const auto live = [](Supervisor& supervisor) { supervisor.on_message(0, rank::Alive{}, group_start); };
  const auto stop = [](Supervisor& supervisor) { supervisor.on_stop(group_start); };
  const auto crashed = failure_of(4, {.signal = SIGSEGV}, {});
  const auto failed = failure_of(4, {.exit_code = 7}, {});
  const Row rows[] = {
      {"an error of a rank that uses its link", live, {.exit_code = 7}, failed},
      {"a crash of a rank that uses its link", live, {.signal = SIGSEGV}, crashed},
      {"it stops by itself, as a request asked", live, {.exit_code = contract::exit_preempted}, std::nullopt},
      {"SIGTERM of another's", nothing, {.signal = SIGTERM}, failure_of(4, {.signal = SIGTERM}, {})},
      {"a stop that it does not catch",
       stop,
       {.signal = SIGTERM},
       GroupFailure{4, 143, "Terminated", "rank 4 was asked to stop and ended without saving (SIGTERM)"}},
      {"a crash during the stop", stop, {.signal = SIGSEGV}, crashed},
      {"an error during the stop", stop, {.exit_code = 7}, failed},
      {"the end of a broken group",
       [](Supervisor& supervisor) { supervisor.on_verdict(killed(0), group_start); },
       {.signal = SIGKILL},
       std::nullopt},
  };
  for (const Row& row : rows) {
    Supervisor supervisor = a_supervisor(1);
    row.happen(supervisor);
    supervisor.on_death(0, row.death, group_start + 1s);
    EXPECT_EQ(supervisor.own_failure(), row.failure) << row.name;
  }
}

TEST(SupervisorsEnd, ReportsALostPeerInTheWordsOfTheRankThatLostItFirst) {
  struct Row {
    std::string_view name;
    std::optional<rank::RankEnd> said;
    std::optional<std::int64_t> culprit;
    std::string why;
  };
  const rank::RankEnd words{.exit_code = 90, .reason = "PeerLost", .message = "rank 9 is gone", .culprit = 9};
  const Row rows[] = {{"it names the peer", words, 9, "rank 9 is gone"},
                      {"it says nothing", {}, {}, "the connection to another rank was lost"}};
  for (const Row& row : rows) {
    Supervisor supervisor = a_supervisor(4);
    supervisor.on_death(0, {.exit_code = 0}, group_start);
    if (row.said) supervisor.on_message(2, *row.said, group_start);
    supervisor.on_death(2, {.exit_code = contract::exit_peer_lost}, group_start);
    supervisor.on_death(3, {.exit_code = contract::exit_peer_lost}, group_start + 1s);
    supervisor.on_time(group_start + 1499ms);
    EXPECT_EQ(supervisor.own_failure(), std::nullopt) << row.name;
    supervisor.on_time(group_start + 1500ms);
    EXPECT_EQ(supervisor.own_failure(),
              (GroupFailure{row.culprit, contract::exit_peer_lost, "PeerLost",
                            "rank 6 lost a peer, but no launcher reported a failure: " + row.why}))
        << row.name;
  }
}

TEST(SupervisorsEnd, ComesOnlyOnceAllRanksHaveEnded) {
  Supervisor supervisor = a_supervisor(2);
  supervisor.on_death(0, {.exit_code = 1}, group_start);
  supervisor.on_verdict(killed(4), group_start);
  EXPECT_FALSE(supervisor.have_all_ended());
  EXPECT_EQ(supervisor.end(), std::nullopt) << "rank 5 still runs";
  supervisor.on_death(1, {.signal = SIGKILL}, group_start);
  EXPECT_TRUE(supervisor.have_all_ended());
  EXPECT_TRUE(supervisor.end());
}

TEST(SupervisorsEnd, IsToldInTheWordsOfItsRanks) {
  const rank::RankEnd completed{.exit_code = 0, .reason = "Completed", .message = "trained 12 steps", .culprit = {}};
  const rank::RankEnd preempted{
      .exit_code = contract::exit_preempted, .reason = "Preempted", .message = "stopped as asked", .culprit = {}};
  Supervisor well = a_supervisor(2);
  well.on_message(0, completed, group_start);
  for (const std::int64_t local_rank : {0, 1}) well.on_death(local_rank, {.exit_code = 0}, group_start);
  EXPECT_EQ(well.end(), completed);

  Supervisor silent = a_supervisor(2);
  silent.on_stop(group_start);
  silent.on_death(0, {.exit_code = 0}, group_start);
  silent.on_death(1, {.exit_code = contract::exit_preempted}, group_start);
  EXPECT_EQ(silent.end(), preempted) << "no rank has said anything";

  Supervisor asked = a_supervisor(1);
  asked.on_death(0, {.exit_code = contract::exit_preempted}, group_start);
  EXPECT_EQ(asked.end(), preempted) << "a request for a checkpoint told it to save and end";

  Supervisor late = a_supervisor(1);
  late.on_verdict(killed(0), group_start);
  late.on_message(0, completed, group_start);
  late.on_death(0, {.exit_code = 0}, group_start);
  EXPECT_EQ(late.end(), completed) << "a training that is complete is broken by nobody";

  Supervisor stopped = a_supervisor(1);
  stopped.on_stop(group_start);
  stopped.on_verdict(killed(0), group_start);
  stopped.on_death(0, {.exit_code = contract::exit_preempted}, group_start);
  EXPECT_EQ(stopped.end(), preempted) << "it was asked to stop, and did";
}

TEST(SupervisorsEnd, IsThatOfTheCulpritOnlyWhereTheCulpritIsItsOwn) {
  struct Row {
    std::optional<std::int64_t> culprit;
    int exit_code;
    std::int64_t named;
  };
  for (const Row& row : {Row{3, 90, 4}, Row{4, 137, 4}, Row{5, 137, 5}, Row{6, 90, 4}, Row{std::nullopt, 137, 4}}) {
    Supervisor supervisor = a_supervisor(2);
    EXPECT_EQ(supervisor.culprit_or_first_rank(), 4) << "no verdict yet";
    GroupFailure verdict = killed(4);
    verdict.culprit = row.culprit;
    supervisor.on_verdict(verdict, group_start);
    for (const std::int64_t local_rank : {0, 1}) supervisor.on_death(local_rank, {.signal = SIGKILL}, group_start);
    ASSERT_TRUE(supervisor.end());
    EXPECT_EQ(supervisor.end()->exit_code, row.exit_code) << row.named;
    EXPECT_EQ(supervisor.culprit_or_first_rank(), row.named);
  }
}

}  // namespace
}  // namespace trainyard::launcher
