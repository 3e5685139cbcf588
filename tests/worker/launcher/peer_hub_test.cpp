#include "worker/launcher/peer_hub.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "api/contract.hpp"
#include "tests/worker/launcher/a_group.hpp"

namespace trainyard::launcher {
namespace {

using namespace std::chrono_literals;
using HubActions = std::vector<PeerHub::Action>;

PeerHub a_hub(std::int64_t world_size = 3) {
  return PeerHub{PeerSettings{.self = hello(0, world_size)}, group_start};
}

void come(PeerHub& hub, PeerHub::ConnectionId id, const Hello& who, Instant now = group_start) {
  hub.on_open(id, "10.0.0." + std::to_string(id), now);
  hub.on_message(id, who, now);
}

PeerHub a_full_hub() {
  PeerHub hub = a_hub();
  come(hub, 1, hello(1));
  come(hub, 2, hello(2));
  std::ignore = hub.take_actions();
  return hub;
}

TEST(PeerHub, SaysWhoHasNotComeUntilAllHave) {
  PeerHub hub = a_hub();
  EXPECT_EQ(hub.waiting_for(group_start + 12s), "ranks 1 and 2 of 3 have not come (12 s)");
  come(hub, 1, hello(2));
  EXPECT_EQ(hub.waiting_for(group_start + 13s), "rank 1 of 3 has not come (13 s)");
  EXPECT_EQ(hub.take_actions(), (HubActions{PeerHub::Send{1, Welcome{}}, PeerHub::Send{1, PeerBeat{{1}}}}));
  come(hub, 2, hello(1));
  EXPECT_EQ(hub.waiting_for(group_start + 14s), "");
  EXPECT_EQ(hub.take_actions(),
            (HubActions{PeerHub::Send{2, Welcome{}}, PeerHub::Send{2, PeerBeat{}}, PeerHub::Send{1, PeerBeat{}}}));
}

TEST(PeerHub, WaitsForEveryRankOfAPodThatHasSeveral) {
  Hello self = hello(0, 6);
  self.rank_count = 2;
  PeerHub hub{PeerSettings{.self = self}, group_start};
  Hello other = self;
  other.first_rank = 4;
  come(hub, 1, other);
  EXPECT_EQ(hub.waiting_for(group_start), "ranks 2 and 3 of 6 have not come (0 s)");
}

TEST(PeerHub, RefusesStrangersByName) {
  struct Case {
    Hello stranger;
    std::string sentence;
  };
  const auto with = [](auto change) {
    Hello stranger = hello(1);
    change(stranger);
    return stranger;
  };
  const std::vector<Case> cases{
      {with([](Hello& h) { h.attempt = 1; }),
       "rank 1 of job mnist (u), attempt 1 has come to job mnist (u), attempt 2"},
      {with([](Hello& h) { h.job_uid = "v"; }),
       "rank 1 of job mnist (v), attempt 2 has come to job mnist (u), attempt 2"},
      {with([](Hello& h) { h.world_size = 4; }),
       "rank 1 has WORLD_SIZE 4 and 1 ranks in its pod, but rank 0 has 3 and 1"},
      {with([](Hello& h) { h.first_rank = 0; }), "rank 0 cannot be in a group of 3"},
      {with([](Hello& h) { h.first_rank = 3; }), "rank 3 cannot be in a group of 3"},
      {with([](Hello& h) { h.first_rank = 2; }), "rank 2 has connected already: give each process its own RANK"},
  };
  for (const auto& [stranger, sentence] : cases) {
    PeerHub hub = a_hub();
    come(hub, 1, hello(2));
    std::ignore = hub.take_actions();
    come(hub, 9, stranger);
    EXPECT_EQ(
        hub.take_actions(),
        (HubActions{PeerHub::Send{9, Refusal{.job_uid = "u", .attempt = 2, .message = sentence}}, PeerHub::Close{9}}));
    hub.on_message(9, hello(1), group_start);
    EXPECT_EQ(hub.take_actions(), HubActions{}) << "who was refused is not heard again on that connection";
    EXPECT_EQ(hub.waiting_for(group_start), "rank 1 of 3 has not come (0 s)");
    hub.on_close(9, "closed", group_start);
    EXPECT_EQ(hub.verdict(), std::nullopt) << "a stranger's end is no loss";
  }
}

TEST(PeerHub, RefusesPodsOfAnotherSizeAndPlace) {
  struct Case {
    std::function<void(Hello&)> change;
    std::string sentence;
  };
  const std::vector<Case> cases{
      {[](Hello& h) { h.rank_count = 1; }, "rank 2 has WORLD_SIZE 6 and 1 ranks in its pod, but rank 0 has 6 and 2"},
      {[](Hello& h) { h.first_rank = 3; }, "ranks 3 to 4 cannot be in a group of 6"},
      {[](Hello& h) { h.job_uid = ""; }, "ranks 2 to 3 of job mnist, attempt 2 has come to job mnist (u), attempt 2"},
  };
  Hello self = hello(0, 6);
  self.rank_count = 2;
  for (const auto& [change, sentence] : cases) {
    PeerHub hub{PeerSettings{.self = self}, group_start};
    Hello stranger = self;
    stranger.first_rank = 2;
    change(stranger);
    come(hub, 1, stranger);
    EXPECT_EQ(
        hub.take_actions(),
        (HubActions{PeerHub::Send{1, Refusal{.job_uid = "u", .attempt = 2, .message = sentence}}, PeerHub::Close{1}}));
  }
}

TEST(PeerHub, TellsTheOthersThatAllHaveComeOnlyOnceTheyHave) {
  PeerHub hub = a_hub(4);
  hub.on_open(9, "10.0.0.9", group_start);  // It does not greet, and hears nothing.
  come(hub, 1, hello(1, 4));
  come(hub, 2, hello(2, 4));
  EXPECT_EQ(hub.take_actions(), (HubActions{PeerHub::Send{1, Welcome{}}, PeerHub::Send{1, PeerBeat{{2, 3}}},
                                            PeerHub::Send{2, Welcome{}}, PeerHub::Send{2, PeerBeat{{3}}}}));
  come(hub, 3, hello(3, 4));
  EXPECT_EQ(hub.take_actions(), (HubActions{PeerHub::Send{3, Welcome{}}, PeerHub::Send{3, PeerBeat{}},
                                            PeerHub::Send{1, PeerBeat{}}, PeerHub::Send{2, PeerBeat{}}}));
}

TEST(PeerHub, TellsNothingToWhoHasNotGreetedAndDoesNotMissIt) {
  PeerHub hub = a_full_hub();
  hub.on_open(9, "10.0.0.9", group_start);
  hub.on_time(group_start + 1s);
  EXPECT_EQ(hub.take_actions(), (HubActions{PeerHub::Send{1, PeerBeat{}}, PeerHub::Send{2, PeerBeat{}}}));
  hub.report_failure(a_failure(0), group_start + 1s);
  EXPECT_EQ(hub.take_actions(),
            (HubActions{PeerHub::Send{1, FailureReport{a_failure(0)}}, PeerHub::Send{2, FailureReport{a_failure(0)}}}));

  PeerHub other = a_full_hub();
  other.on_open(9, "10.0.0.9", group_start);
  other.on_open(10, "10.0.0.10", group_start);
  other.on_close(10, "closed by the other side", group_start);
  EXPECT_EQ(other.verdict(), std::nullopt);
  other.report_done(group_start);
  EXPECT_EQ(other.take_actions(), (HubActions{PeerHub::Send{1, Done{}}, PeerHub::Send{2, Done{}}}));
}

TEST(PeerHub, RefusesWhoDoesNotGreetFirst) {
  PeerHub hub = a_hub();
  hub.on_open(1, "10.0.0.1", group_start);
  hub.on_message(1, FailureReport{a_failure(1)}, group_start);
  EXPECT_EQ(hub.verdict(), std::nullopt);
  EXPECT_EQ(hub.take_actions().size(), 2U);
}

TEST(PeerHub, DropsAConnectionThatNeverSaysAnything) {
  PeerHub hub = a_hub();
  hub.on_open(1, "10.0.0.1", group_start);
  for (Instant now = group_start; now <= group_start + 30s; now += 1s) hub.on_time(now);
  EXPECT_EQ(hub.take_actions(), (HubActions{PeerHub::Close{1}})) << "once";
  EXPECT_EQ(hub.verdict(), std::nullopt);
}

TEST(PeerHub, SendsEverybodyTheFirstFailureAndNoOther) {
  PeerHub hub = a_full_hub();
  hub.on_message(2, FailureReport{a_failure(2)}, group_start);
  hub.on_message(1, FailureReport{a_failure(1)}, group_start);
  hub.report_failure(a_failure(0), group_start);
  EXPECT_EQ(hub.take_actions(),
            (HubActions{PeerHub::Send{1, FailureReport{a_failure(2)}}, PeerHub::Send{2, FailureReport{a_failure(2)}}}));
  EXPECT_EQ(hub.verdict(), a_failure(2));
}

TEST(PeerHub, SendsTheFailureToLaunchersThatComeAfterIt) {
  PeerHub hub = a_hub();
  hub.report_failure(a_failure(0), group_start);
  come(hub, 1, hello(1));
  EXPECT_EQ(hub.take_actions(), (HubActions{PeerHub::Send{1, Welcome{}}, PeerHub::Send{1, PeerBeat{{2}}},
                                            PeerHub::Send{1, FailureReport{a_failure(0)}}}));
}

TEST(PeerHub, TakesAConnectionThatEndsWithoutAWordForALoss) {
  PeerHub hub = a_full_hub();
  hub.on_close(2, "Connection reset by peer", group_start);
  EXPECT_EQ(hub.verdict(), (GroupFailure{.culprit = 2,
                                         .exit_code = contract::exit_peer_lost,
                                         .reason = "PeerLost",
                                         .message = "rank 2 is lost: the connection to its launcher at 10.0.0.2 ended "
                                                    "without a word (Connection reset by peer)"}));
}

TEST(PeerHub, MissesWhoHasBeatenButNotSaidThatItsRanksHaveEnded) {
  PeerHub hub = a_full_hub();
  hub.on_message(2, PeerBeat{}, group_start);
  hub.on_close(2, "Connection reset by peer", group_start);
  ASSERT_TRUE(hub.verdict());
  EXPECT_EQ(hub.verdict()->culprit, 2);
}

TEST(PeerHub, TakesSilenceForALossOnceTheDeadlineHasPassed) {
  PeerHub hub = a_full_hub();
  for (Instant now = group_start; now < group_start + 10s; now += 500ms) {
    hub.on_message(1, PeerBeat{}, now);
    hub.on_time(now);
  }
  EXPECT_EQ(hub.verdict(), std::nullopt);
  hub.on_time(group_start + 10s);
  ASSERT_TRUE(hub.verdict());
  EXPECT_EQ(hub.verdict()->culprit, 2);
  EXPECT_EQ(hub.verdict()->message, "rank 2 is lost: nothing was heard from its launcher at 10.0.0.2 for 10 s");
}

TEST(PeerHub, MeasuresSilenceFromTheGreetingOfALauncherThatConnectedEarlier) {
  PeerHub hub = a_hub(2);
  hub.on_open(1, "10.0.0.1", group_start);
  for (Instant now = group_start; now < group_start + 9s; now += 1s) hub.on_time(now);
  hub.on_message(1, hello(1, 2), group_start + 9s);
  for (Instant now = group_start + 9s; now < group_start + 19s; now += 1s) hub.on_time(now);
  EXPECT_EQ(hub.verdict(), std::nullopt);
  hub.on_time(group_start + 19s);
  EXPECT_TRUE(hub.verdict());
}

TEST(PeerHub, BlamesNobodyForTheTimeInWhichItSleptItself) {
  PeerHub hub = a_full_hub();
  hub.on_time(group_start + 3600s);
  EXPECT_EQ(hub.verdict(), std::nullopt);
}

TEST(PeerHub, JudgesSilenceAlthoughItLooksOnlyTwiceWithinTheDeadline) {
  PeerHub hub = a_full_hub();
  hub.on_time(group_start + 5s);
  EXPECT_EQ(hub.verdict(), std::nullopt);
  hub.on_time(group_start + 10s);
  ASSERT_TRUE(hub.verdict());
  EXPECT_EQ(hub.verdict()->reason, "PeerLost");
}

TEST(PeerHub, BlamesNobodyAfterASleepOfItsOwnThatIsShorterThanTheDeadline) {
  PeerHub hub = a_full_hub();
  hub.on_time(group_start + 4s);
  hub.on_time(group_start + 10s);
  EXPECT_EQ(hub.verdict(), std::nullopt);
}

TEST(PeerHub, LetsThoseGoWhoseRanksHaveEndedAsMeant) {
  PeerHub hub = a_full_hub();
  hub.on_message(1, Done{}, group_start);
  hub.on_close(1, "closed by the other side", group_start);
  EXPECT_EQ(hub.verdict(), std::nullopt);
  EXPECT_EQ(hub.waiting_for(group_start), "") << "who has ended has come";
  hub.report_done(group_start);
  EXPECT_EQ(hub.take_actions(), (HubActions{PeerHub::Send{2, Done{}}}));
  hub.on_message(2, FailureReport{a_failure(2)}, group_start);
  EXPECT_EQ(hub.take_actions(), HubActions{}) << "a training that is complete is broken by nobody";
  hub.on_close(2, "closed by the other side", group_start);
  EXPECT_EQ(hub.verdict(), std::nullopt);
}

TEST(PeerHub, MissesNobodyWhoFallsSilentAfterItsRanksHaveEndedAsMeant) {
  PeerHub hub = a_full_hub();
  hub.on_message(1, Done{}, group_start);
  for (Instant now = group_start; now <= group_start + 30s; now += 500ms) {
    hub.on_message(2, PeerBeat{}, now);
    hub.on_time(now);
  }
  EXPECT_EQ(hub.verdict(), std::nullopt);
}

TEST(PeerHub, BeatsOnceASecondWithTheRanksThatAreMissing) {
  PeerHub hub = a_hub();
  come(hub, 1, hello(1));
  std::ignore = hub.take_actions();
  hub.on_time(group_start + 900ms);
  EXPECT_EQ(hub.take_actions(), HubActions{});
  hub.on_time(group_start + 1s);
  EXPECT_EQ(hub.take_actions(), (HubActions{PeerHub::Send{1, PeerBeat{{2}}}}));
  hub.on_time(group_start + 1900ms);
  EXPECT_EQ(hub.take_actions(), HubActions{});
  hub.on_time(group_start + 2s);
  EXPECT_EQ(hub.take_actions(), (HubActions{PeerHub::Send{1, PeerBeat{{2}}}}));
}

TEST(PeerHub, GivesUpWhenSomeHaveNotComeBeforeTheDeadline) {
  PeerHub hub = a_hub();
  come(hub, 1, hello(1));
  for (Instant now = group_start; now < group_start + 600s; now += 1s) {
    hub.on_message(1, PeerBeat{}, now);
    hub.on_time(now);
    ASSERT_EQ(hub.verdict(), std::nullopt);
  }
  hub.on_time(group_start + 600s);
  EXPECT_EQ(hub.verdict(),
            (GroupFailure{
                .culprit = {},
                .exit_code = contract::exit_rendezvous,
                .reason = "Rendezvous",
                .message = "the group did not come together in time: waiting for rank 2 of 3 has not come (600 s)"}));
}

}  // namespace
}  // namespace trainyard::launcher
