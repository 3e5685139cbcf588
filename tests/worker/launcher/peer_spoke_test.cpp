#include "worker/launcher/peer_spoke.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "api/contract.hpp"
#include "tests/worker/launcher/a_group.hpp"

namespace trainyard::launcher {
namespace {

using namespace std::chrono_literals;
using SpokeActions = std::vector<PeerSpoke::Action>;

PeerSpoke a_spoke() {
  return PeerSpoke{PeerSettings{.self = hello(1)}, "master:29502", group_start};
}

PeerSpoke a_joined_spoke() {
  PeerSpoke spoke = a_spoke();
  spoke.on_time(group_start);
  spoke.on_open(group_start);
  spoke.on_message(Welcome{}, group_start);
  spoke.on_message(PeerBeat{}, group_start);
  std::ignore = spoke.take_actions();
  return spoke;
}

TEST(PeerSpoke, KeepsTryingWithGrowingPausesAndSaysWhatItWaitsFor) {
  PeerSpoke spoke = a_spoke();
  spoke.on_time(group_start);
  EXPECT_EQ(spoke.take_actions(), SpokeActions{PeerSpoke::Connect{}});
  EXPECT_EQ(spoke.waiting_for(group_start + 1s), "rank 0's launcher at master:29502 (1 s)");
  spoke.on_close("the name master does not resolve (Name or service not known)", group_start);
  EXPECT_EQ(spoke.waiting_for(group_start + 3s),
            "rank 0's launcher at master:29502 (3 s): the name master does not resolve (Name or service not known)");
  std::vector<Instant> tries;
  for (Instant now = group_start; now < group_start + 60s; now += 10ms) {
    spoke.on_time(now);
    if (spoke.take_actions() != SpokeActions{PeerSpoke::Connect{}}) continue;
    tries.push_back(now);
    spoke.on_close("Connection refused", now);
  }
  ASSERT_GT(tries.size(), 20U);
  EXPECT_EQ(tries[0], group_start + 50ms);
  EXPECT_EQ(tries[tries.size() - 1] - tries[tries.size() - 2], 2s);
}

TEST(PeerSpoke, GreetsAndHearsWhoIsMissing) {
  PeerSpoke spoke = a_spoke();
  spoke.on_open(group_start);
  EXPECT_EQ(spoke.take_actions(), SpokeActions{PeerSpoke::Send{hello(1)}});
  spoke.on_message(Welcome{}, group_start);
  spoke.on_message(PeerBeat{{2}}, group_start);
  EXPECT_EQ(spoke.waiting_for(group_start + 4s), "rank 2 of 3 has not come (4 s)");
  spoke.on_message(PeerBeat{}, group_start);
  EXPECT_EQ(spoke.waiting_for(group_start + 4s), "");
}

TEST(PeerSpoke, BeatsOnceASecond) {
  PeerSpoke spoke = a_joined_spoke();
  spoke.on_time(group_start + 999ms);
  EXPECT_EQ(spoke.take_actions(), SpokeActions{});
  spoke.on_time(group_start + 1s);
  EXPECT_EQ(spoke.take_actions(), SpokeActions{PeerSpoke::Send{PeerBeat{}}});
  spoke.on_time(group_start + 1999ms);
  EXPECT_EQ(spoke.take_actions(), SpokeActions{});
  spoke.on_time(group_start + 2s);
  EXPECT_EQ(spoke.take_actions(), SpokeActions{PeerSpoke::Send{PeerBeat{}}});
}

TEST(PeerSpoke, TakesAnEndWithoutAWordForTheLossOfRank0) {
  PeerSpoke spoke = a_joined_spoke();
  spoke.on_close("Connection reset by peer", group_start);
  EXPECT_EQ(spoke.verdict(), (GroupFailure{.culprit = 0,
                                           .exit_code = contract::exit_peer_lost,
                                           .reason = "PeerLost",
                                           .message = "rank 0 is lost: the connection to its launcher at master:29502 "
                                                      "ended without a word (Connection reset by peer)"}));
}

TEST(PeerSpoke, TakesSilenceForTheLossOfRank0OnceTheDeadlineHasPassed) {
  PeerSpoke spoke = a_joined_spoke();
  for (Instant now = group_start; now < group_start + 10s; now += 1s) spoke.on_time(now);
  EXPECT_EQ(spoke.verdict(), std::nullopt);
  spoke.on_time(group_start + 10s);
  EXPECT_EQ(spoke.verdict()->culprit, 0);
  EXPECT_EQ(spoke.verdict()->message, "rank 0 is lost: nothing was heard from its launcher at master:29502 for 10 s");
}

TEST(PeerSpoke, JudgesSilenceAlthoughItLooksOnlyTwiceWithinTheDeadline) {
  PeerSpoke spoke = a_joined_spoke();
  spoke.on_time(group_start + 5s);
  EXPECT_EQ(spoke.verdict(), std::nullopt);
  spoke.on_time(group_start + 10s);
  ASSERT_TRUE(spoke.verdict());
  EXPECT_EQ(spoke.verdict()->culprit, 0);
}

TEST(PeerSpoke, BlamesNobodyForTheTimeInWhichItSleptItself) {
  PeerSpoke spoke = a_joined_spoke();
  spoke.on_time(group_start + 3600s);
  EXPECT_EQ(spoke.verdict(), std::nullopt);
}

TEST(PeerSpoke, BlamesNobodyAfterASleepOfItsOwnThatIsShorterThanTheDeadline) {
  PeerSpoke spoke = a_joined_spoke();
  spoke.on_time(group_start + 4s);
  spoke.on_time(group_start + 10s);
  EXPECT_EQ(spoke.verdict(), std::nullopt);
  for (Instant now = group_start + 11s; now <= group_start + 20s; now += 1s) spoke.on_time(now);
  EXPECT_EQ(spoke.verdict()->culprit, 0) << "silence is measured from the end of the sleep";
}

TEST(PeerSpoke, ForgetsRank0OnceItHasEndedAsMeant) {
  PeerSpoke spoke = a_joined_spoke();
  spoke.on_message(Done{}, group_start);
  spoke.on_close("closed by the other side", group_start);
  EXPECT_EQ(spoke.verdict(), std::nullopt);
  spoke.report_failure(a_failure(1), group_start);
  EXPECT_EQ(spoke.verdict(), a_failure(1)) << "nobody is left to ask";
}

TEST(PeerSpoke, DoesNothingMoreOnceItHasLeft) {
  struct Row {
    std::string_view name;
    std::function<void(PeerSpoke&)> leave;
  };
  const Row rows[] = {
      {"rank 0 has ended as meant", [](PeerSpoke& spoke) { spoke.on_message(Done{}, group_start); }},
      {"its own ranks have ended as meant", [](PeerSpoke& spoke) { spoke.report_done(group_start); }},
      {"rank 0 is lost", [](PeerSpoke& spoke) { spoke.on_close("Connection reset by peer", group_start); }},
      {"rank 0 is silent",
       [](PeerSpoke& spoke) {
         for (Instant now = group_start; now <= group_start + 10s; now += 1s) spoke.on_time(now);
       }},
      {"its place is wrong",
       [](PeerSpoke& spoke) { spoke.on_message(Refusal{.job_uid = "u", .attempt = 2, .message = "no"}, group_start); }},
      {"a newer attempt is there",
       [](PeerSpoke& spoke) { spoke.on_message(Refusal{.job_uid = "u", .attempt = 3, .message = "no"}, group_start); }},
  };
  for (const Row& row : rows) {
    PeerSpoke spoke = a_joined_spoke();
    row.leave(spoke);
    std::ignore = spoke.take_actions();
    const auto verdict = spoke.verdict();
    spoke.on_message(PeerBeat{{2}}, group_start + 10s);  // The hub may have sent it before it knew.
    EXPECT_EQ(spoke.waiting_for(group_start + 10s), "") << row.name;
    for (Instant now = group_start + 11s; now <= group_start + 700s; now += 1s) spoke.on_time(now);
    spoke.on_close("closed by the other side", group_start + 700s);
    spoke.on_time(group_start + 701s);
    EXPECT_EQ(spoke.take_actions(), SpokeActions{}) << row.name;
    EXPECT_EQ(spoke.verdict(), verdict) << row.name;
  }
}

TEST(PeerSpoke, SaysThatItIsDoneWhereTheHubCanHearIt) {
  PeerSpoke joined = a_joined_spoke();
  joined.report_done(group_start);
  EXPECT_EQ(joined.take_actions(), SpokeActions{PeerSpoke::Send{Done{}}});
  PeerSpoke unconnected = a_spoke();
  unconnected.report_done(group_start);
  EXPECT_EQ(unconnected.take_actions(), SpokeActions{});
}

TEST(PeerSpoke, SaysThatItIsDoneEvenBeforeItIsWelcomed) {
  PeerSpoke spoke = a_spoke();
  spoke.on_open(group_start);
  spoke.report_done(group_start);
  EXPECT_EQ(spoke.take_actions(), (SpokeActions{PeerSpoke::Send{hello(1)}, PeerSpoke::Send{Done{}}}));
}

TEST(PeerSpoke, HoldsTheHubsWordAboveItsOwn) {
  PeerSpoke spoke = a_joined_spoke();
  spoke.report_failure(a_failure(1), group_start);
  EXPECT_EQ(spoke.take_actions(), SpokeActions{PeerSpoke::Send{FailureReport{a_failure(1)}}});
  EXPECT_EQ(spoke.verdict(), std::nullopt);
  spoke.on_message(FailureReport{a_failure(2)}, group_start);
  EXPECT_EQ(spoke.verdict(), a_failure(2));
}

TEST(PeerSpoke, ReportsItsFirstFailureOnceAndNoneAfterTheHubsWord) {
  PeerSpoke spoke = a_joined_spoke();
  spoke.report_failure(a_failure(1), group_start);
  spoke.report_failure(a_failure(2), group_start);
  spoke.on_message(PeerBeat{}, group_start);
  EXPECT_EQ(spoke.take_actions(), SpokeActions{PeerSpoke::Send{FailureReport{a_failure(1)}}});

  PeerSpoke told = a_joined_spoke();
  told.on_message(FailureReport{a_failure(2)}, group_start);
  told.report_failure(a_failure(1), group_start);
  told.on_message(FailureReport{a_failure(3)}, group_start);
  EXPECT_EQ(told.take_actions(), SpokeActions{});
  EXPECT_EQ(told.verdict(), a_failure(2));
}

TEST(PeerSpoke, HoldsItsOwnFailureWhenTheHubDoesNotAnswer) {
  PeerSpoke spoke = a_joined_spoke();
  const Instant failed = group_start + 100s;
  spoke.report_failure(a_failure(1), failed);
  spoke.on_time(failed + 1s);
  EXPECT_EQ(spoke.verdict(), std::nullopt);
  spoke.on_time(failed + 1500ms);
  EXPECT_EQ(spoke.verdict(), a_failure(1));
}

TEST(PeerSpoke, ReportsItsFailureWhenItJoinsLate) {
  for (const bool fails_before_it_greets : {true, false}) {
    PeerSpoke spoke = a_spoke();
    if (fails_before_it_greets) spoke.report_failure(a_failure(1), group_start);
    spoke.on_open(group_start + 1s);
    if (!fails_before_it_greets) spoke.report_failure(a_failure(1), group_start + 1s);
    EXPECT_EQ(spoke.take_actions(), SpokeActions{PeerSpoke::Send{hello(1)}}) << "the hub would not take it yet";
    spoke.on_message(Welcome{}, group_start + 1s);
    EXPECT_EQ(spoke.take_actions(), SpokeActions{PeerSpoke::Send{FailureReport{a_failure(1)}}});
  }
}

TEST(PeerSpoke, ReportsItsFailureAlsoWhereItIsWelcomedAfterItHasGivenUpWaiting) {
  PeerSpoke spoke = a_spoke();
  spoke.report_failure(a_failure(1), group_start);
  spoke.on_open(group_start + 1s);
  spoke.on_time(group_start + 1500ms);
  ASSERT_EQ(spoke.verdict(), a_failure(1));
  std::ignore = spoke.take_actions();
  spoke.on_message(Welcome{}, group_start + 1500ms);
  EXPECT_EQ(spoke.take_actions(), SpokeActions{PeerSpoke::Send{FailureReport{a_failure(1)}}});
}

TEST(PeerSpoke, EndsWhenANewerAttemptOfItsJobIsThere) {
  PeerSpoke spoke = a_spoke();
  spoke.on_open(group_start);
  spoke.on_message(Refusal{.job_uid = "u", .attempt = 3, .message = "no"}, group_start);
  EXPECT_EQ(spoke.verdict(),
            (GroupFailure{.culprit = {},
                          .exit_code = contract::exit_fenced,
                          .reason = "Superseded",
                          .message = "this is attempt 2, but attempt 3 of the same job is running at master:29502"}));
}

TEST(PeerSpoke, EndsWhenItsPlaceInTheGroupIsWrong) {
  PeerSpoke spoke = a_spoke();
  spoke.on_open(group_start);
  spoke.on_message(Refusal{.job_uid = "u", .attempt = 2, .message = "rank 1 has connected already"}, group_start);
  EXPECT_EQ(spoke.verdict()->exit_code, contract::exit_do_not_restart);
  EXPECT_EQ(spoke.verdict()->message,
            "rank 0's launcher at master:29502 refused this one: rank 1 has connected already");
}

TEST(PeerSpoke, OutwaitsAnOlderAttemptAndAnotherJob) {
  for (const Refusal& refusal : {Refusal{.job_uid = "u", .attempt = 1, .message = "old"},
                                 Refusal{.job_uid = "v", .attempt = 2, .message = "old"},
                                 Refusal{.job_uid = "v", .attempt = 9, .message = "old"}}) {
    PeerSpoke spoke = a_spoke();
    spoke.on_open(group_start);
    std::ignore = spoke.take_actions();
    spoke.on_message(refusal, group_start);
    EXPECT_EQ(spoke.verdict(), std::nullopt);
    EXPECT_EQ(spoke.take_actions(), SpokeActions{PeerSpoke::Close{}});
    EXPECT_EQ(spoke.waiting_for(group_start + 5s),
              "rank 0's launcher at master:29502 (5 s): refused, because another group is still there: old");
    spoke.on_time(group_start + 1s);
    EXPECT_EQ(spoke.take_actions(), SpokeActions{PeerSpoke::Connect{}});
  }
}

TEST(PeerSpoke, GivesUpAtTheDeadlineAndSaysWhy) {
  PeerSpoke spoke = a_spoke();
  for (Instant now = group_start; now < group_start + 600s; now += 1s) {
    spoke.on_time(now);
    if (!spoke.take_actions().empty()) spoke.on_close("Connection refused", now);
    ASSERT_EQ(spoke.verdict(), std::nullopt);
  }
  spoke.on_time(group_start + 600s);
  EXPECT_EQ(spoke.verdict(), (GroupFailure{.culprit = {},
                                           .exit_code = contract::exit_rendezvous,
                                           .reason = "Rendezvous",
                                           .message = "the group did not come together in time: waiting for rank 0's "
                                                      "launcher at master:29502 (600 s): Connection refused"}));
}

TEST(PeerSpoke, LooksTheNameUpAfreshWhereNobodyAnswersTheConnection) {
  PeerSpoke spoke = a_spoke();
  spoke.on_time(group_start);
  EXPECT_EQ(spoke.take_actions(), SpokeActions{PeerSpoke::Connect{}});
  spoke.on_time(group_start + 4s);
  EXPECT_EQ(spoke.take_actions(), SpokeActions{});
  spoke.on_time(group_start + 5s);
  EXPECT_EQ(spoke.take_actions(), SpokeActions{PeerSpoke::Close{}});
  EXPECT_EQ(spoke.waiting_for(group_start + 5s), "rank 0's launcher at master:29502 (5 s): no answer within 5 s");
  spoke.on_time(group_start + 6s);
  EXPECT_EQ(spoke.take_actions(), SpokeActions{PeerSpoke::Connect{}});
}

TEST(PeerSpoke, GivesEveryTryAndEveryGreetingItsOwnTime) {
  PeerSpoke spoke = a_spoke();
  for (Instant now = group_start; now < group_start + 60s; now += 1s) {
    spoke.on_time(now);
    if (!spoke.take_actions().empty()) spoke.on_close("Connection refused", now);
  }
  // The pause before the next try is at most 2 s.
  Instant tried = group_start + 60s;
  for (spoke.on_time(tried); spoke.take_actions().empty(); spoke.on_time(tried)) {
    tried += 1s;
    ASSERT_LT(tried, group_start + 65s);
  }
  spoke.on_time(tried + 4s);
  EXPECT_EQ(spoke.take_actions(), SpokeActions{}) << "this try has 5 s, however long the others took";
  PeerSpoke unanswered = spoke;
  unanswered.on_time(tried + 5s);
  EXPECT_EQ(unanswered.take_actions(), SpokeActions{PeerSpoke::Close{}});

  const Instant greeted = tried + 4s;
  spoke.on_open(greeted);
  EXPECT_EQ(spoke.take_actions(), SpokeActions{PeerSpoke::Send{hello(1)}});
  for (Instant now = greeted; now < greeted + 10s; now += 1s) spoke.on_time(now);
  EXPECT_EQ(spoke.take_actions(), SpokeActions{}) << "the hub has 10 s to answer the greeting";
  spoke.on_time(greeted + 10s);
  EXPECT_EQ(spoke.take_actions(), SpokeActions{PeerSpoke::Close{}});
}

TEST(PeerSpoke, LeavesTheDeadlineToRank0OnceItHasJoined) {
  PeerSpoke spoke = a_spoke();
  spoke.on_open(group_start);
  spoke.on_message(Welcome{}, group_start);
  for (Instant now = group_start; now <= group_start + 700s; now += 1s) {
    spoke.on_message(PeerBeat{{2}}, now);
    spoke.on_time(now);
  }
  EXPECT_EQ(spoke.verdict(), std::nullopt);
}

TEST(PeerSpoke, TriesAfreshWhenItsGreetingIsNotAnswered) {
  PeerSpoke spoke = a_spoke();
  spoke.on_open(group_start);
  std::ignore = spoke.take_actions();
  for (Instant now = group_start; now <= group_start + 10s; now += 1s) spoke.on_time(now);
  EXPECT_EQ(spoke.take_actions(), SpokeActions{PeerSpoke::Close{}});
  EXPECT_EQ(spoke.waiting_for(group_start + 10s),
            "rank 0's launcher at master:29502 (10 s): no answer to the greeting");
}

}  // namespace
}  // namespace trainyard::launcher
