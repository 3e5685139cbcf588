#include "worker/launcher/peer_spoke.hpp"

#include <gtest/gtest.h>

#include "common/contract.hpp"

namespace trainyard::launcher {
namespace {

using namespace std::chrono_literals;
using Actions = std::vector<PeerSpoke::Action>;
using Connect = PeerSpoke::Connect;
using Send = PeerSpoke::Send;
using Close = PeerSpoke::Close;

constexpr Instant start{};

Hello self() {
  return {.job = "mnist", .job_uid = "u", .attempt = 2, .world_size = 3, .first_rank = 1, .rank_count = 1};
}

PeerSpoke a_spoke() {
  return PeerSpoke{PeerSettings{.self = self()}, "master:29502", start};
}

PeerSpoke a_joined_spoke() {
  PeerSpoke spoke = a_spoke();
  spoke.on_time(start);
  spoke.on_open(start);
  spoke.on_message(Welcome{}, start);
  spoke.on_message(PeerBeat{}, start);
  std::ignore = spoke.take_actions();
  return spoke;
}

GroupFailure a_failure(std::int64_t culprit) {
  return {.culprit = culprit, .exit_code = 1, .reason = "Error", .message = "it broke"};
}

TEST(PeerSpoke, KeepsTryingWithGrowingPausesAndSaysWhatItWaitsFor) {
  PeerSpoke spoke = a_spoke();
  spoke.on_time(start);
  EXPECT_EQ(spoke.take_actions(), Actions{Connect{}});
  EXPECT_EQ(spoke.waiting_for(start + 1s), "rank 0's launcher at master:29502 (1 s)");
  spoke.on_close("the name master does not resolve (Name or service not known)", start);
  EXPECT_EQ(spoke.waiting_for(start + 3s),
            "rank 0's launcher at master:29502 (3 s): the name master does not resolve (Name or service not known)");
  std::vector<Instant> tries;
  for (Instant now = start; now < start + 60s; now += 10ms) {
    spoke.on_time(now);
    if (spoke.take_actions() != Actions{Connect{}}) continue;
    tries.push_back(now);
    spoke.on_close("Connection refused", now);
  }
  ASSERT_GT(tries.size(), 20U);
  EXPECT_EQ(tries[0], start + 50ms);
  EXPECT_EQ(tries[tries.size() - 1] - tries[tries.size() - 2], 2s);
}

TEST(PeerSpoke, GreetsAndHearsWhoIsMissing) {
  PeerSpoke spoke = a_spoke();
  spoke.on_open(start);
  EXPECT_EQ(spoke.take_actions(), Actions{Send{self()}});
  spoke.on_message(Welcome{}, start);
  spoke.on_message(PeerBeat{{2}}, start);
  EXPECT_EQ(spoke.waiting_for(start + 4s), "rank 2 of 3 has not come (4 s)");
  spoke.on_message(PeerBeat{}, start);
  EXPECT_EQ(spoke.waiting_for(start + 4s), "");
}

TEST(PeerSpoke, BeatsOnceASecond) {
  PeerSpoke spoke = a_joined_spoke();
  spoke.on_time(start + 999ms);
  EXPECT_EQ(spoke.take_actions(), Actions{});
  spoke.on_time(start + 1s);
  EXPECT_EQ(spoke.take_actions(), Actions{Send{PeerBeat{}}});
}

TEST(PeerSpoke, TakesAnEndWithoutAWordForTheLossOfRank0) {
  PeerSpoke spoke = a_joined_spoke();
  spoke.on_close("Connection reset by peer", start);
  EXPECT_EQ(spoke.verdict(), (GroupFailure{.culprit = 0,
                                           .exit_code = contract::exit_peer_lost,
                                           .reason = "PeerLost",
                                           .message = "rank 0 is lost: the connection to its launcher at master:29502 "
                                                      "ended without a word (Connection reset by peer)"}));
}

TEST(PeerSpoke, TakesSilenceForTheLossOfRank0OnceTheDeadlineHasPassed) {
  PeerSpoke spoke = a_joined_spoke();
  for (Instant now = start; now < start + 10s; now += 1s) spoke.on_time(now);
  EXPECT_EQ(spoke.verdict(), std::nullopt);
  spoke.on_time(start + 10s);
  EXPECT_EQ(spoke.verdict()->culprit, 0);
  EXPECT_EQ(spoke.verdict()->message, "rank 0 is lost: nothing was heard from its launcher at master:29502 for 10 s");
}

TEST(PeerSpoke, BlamesNobodyForTheTimeInWhichItSleptItself) {
  PeerSpoke spoke = a_joined_spoke();
  spoke.on_time(start + 3600s);
  EXPECT_EQ(spoke.verdict(), std::nullopt);
}

TEST(PeerSpoke, LetsRank0GoOnceItHasEndedAsMeant) {
  PeerSpoke spoke = a_joined_spoke();
  spoke.on_message(Done{}, start);
  spoke.on_close("closed by the other side", start);
  EXPECT_EQ(spoke.verdict(), std::nullopt);
  spoke.report_failure(a_failure(1), start);
  EXPECT_EQ(spoke.verdict(), a_failure(1)) << "nobody is left to ask";
}

TEST(PeerSpoke, SaysThatItIsDoneEvenBeforeItIsWelcomed) {
  PeerSpoke spoke = a_spoke();
  spoke.on_open(start);
  spoke.report_done(start);
  EXPECT_EQ(spoke.take_actions(), (Actions{Send{self()}, Send{Done{}}}));
}

TEST(PeerSpoke, HoldsTheHubsWordAboveItsOwn) {
  PeerSpoke spoke = a_joined_spoke();
  spoke.report_failure(a_failure(1), start);
  EXPECT_EQ(spoke.take_actions(), Actions{Send{FailureReport{a_failure(1)}}});
  EXPECT_EQ(spoke.verdict(), std::nullopt);
  spoke.on_message(FailureReport{a_failure(2)}, start);
  EXPECT_EQ(spoke.verdict(), a_failure(2));
}

TEST(PeerSpoke, HoldsItsOwnFailureWhenTheHubDoesNotAnswer) {
  PeerSpoke spoke = a_joined_spoke();
  spoke.report_failure(a_failure(1), start);
  spoke.on_time(start + 1s);
  EXPECT_EQ(spoke.verdict(), std::nullopt);
  spoke.on_time(start + 1500ms);
  EXPECT_EQ(spoke.verdict(), a_failure(1));
}

TEST(PeerSpoke, TellsItsFailureWhenItJoinsLate) {
  PeerSpoke spoke = a_spoke();
  spoke.report_failure(a_failure(1), start);
  spoke.on_open(start + 1s);
  std::ignore = spoke.take_actions();
  spoke.on_message(Welcome{}, start + 1s);
  EXPECT_EQ(spoke.take_actions(), Actions{Send{FailureReport{a_failure(1)}}});
}

TEST(PeerSpoke, EndsWhenANewerAttemptOfItsJobIsThere) {
  PeerSpoke spoke = a_spoke();
  spoke.on_open(start);
  spoke.on_message(Refusal{.job_uid = "u", .attempt = 3, .message = "no"}, start);
  EXPECT_EQ(spoke.verdict(),
            (GroupFailure{.culprit = {},
                          .exit_code = contract::exit_fenced,
                          .reason = "Superseded",
                          .message = "this is attempt 2, but attempt 3 of the same job is running at master:29502"}));
}

TEST(PeerSpoke, EndsWhenItsPlaceInTheGroupIsWrong) {
  PeerSpoke spoke = a_spoke();
  spoke.on_open(start);
  spoke.on_message(Refusal{.job_uid = "u", .attempt = 2, .message = "rank 1 has come already"}, start);
  EXPECT_EQ(spoke.verdict()->exit_code, contract::exit_do_not_restart);
  EXPECT_EQ(spoke.verdict()->message, "rank 0's launcher at master:29502 refused this one: rank 1 has come already");
}

TEST(PeerSpoke, OutwaitsAnOlderAttemptAndAnotherJob) {
  for (const Refusal& refusal : {Refusal{.job_uid = "u", .attempt = 1, .message = "old"},
                                 Refusal{.job_uid = "v", .attempt = 9, .message = "old"}}) {
    PeerSpoke spoke = a_spoke();
    spoke.on_open(start);
    std::ignore = spoke.take_actions();
    spoke.on_message(refusal, start);
    EXPECT_EQ(spoke.verdict(), std::nullopt);
    EXPECT_EQ(spoke.take_actions(), Actions{Close{}});
    EXPECT_EQ(spoke.waiting_for(start + 5s),
              "rank 0's launcher at master:29502 (5 s): refused, for another group is still there: old");
    spoke.on_time(start + 1s);
    EXPECT_EQ(spoke.take_actions(), Actions{Connect{}});
  }
}

TEST(PeerSpoke, GivesUpAtTheDeadlineAndSaysWhy) {
  PeerSpoke spoke = a_spoke();
  for (Instant now = start; now < start + 600s; now += 1s) {
    spoke.on_time(now);
    if (!spoke.take_actions().empty()) spoke.on_close("Connection refused", now);
    ASSERT_EQ(spoke.verdict(), std::nullopt);
  }
  spoke.on_time(start + 600s);
  EXPECT_EQ(spoke.verdict(), (GroupFailure{.culprit = {},
                                           .exit_code = contract::exit_rendezvous,
                                           .reason = "Rendezvous",
                                           .message = "the group did not come together in time: waiting for rank 0's "
                                                      "launcher at master:29502 (600 s): Connection refused"}));
}

TEST(PeerSpoke, LooksTheNameUpAfreshWhereNobodyAnswersTheConnection) {
  PeerSpoke spoke = a_spoke();
  spoke.on_time(start);
  EXPECT_EQ(spoke.take_actions(), Actions{Connect{}});
  spoke.on_time(start + 4s);
  EXPECT_EQ(spoke.take_actions(), Actions{});
  spoke.on_time(start + 5s);
  EXPECT_EQ(spoke.take_actions(), Actions{Close{}});
  EXPECT_EQ(spoke.waiting_for(start + 5s), "rank 0's launcher at master:29502 (5 s): no answer within 5 s");
  spoke.on_time(start + 6s);
  EXPECT_EQ(spoke.take_actions(), Actions{Connect{}});
}

TEST(PeerSpoke, LeavesTheDeadlineToRank0OnceItHasJoined) {
  PeerSpoke spoke = a_spoke();
  spoke.on_open(start);
  spoke.on_message(Welcome{}, start);
  for (Instant now = start; now <= start + 700s; now += 1s) {
    spoke.on_message(PeerBeat{{2}}, now);
    spoke.on_time(now);
  }
  EXPECT_EQ(spoke.verdict(), std::nullopt);
}

TEST(PeerSpoke, TriesAfreshWhenItsGreetingIsNotAnswered) {
  PeerSpoke spoke = a_spoke();
  spoke.on_open(start);
  std::ignore = spoke.take_actions();
  for (Instant now = start; now <= start + 10s; now += 1s) spoke.on_time(now);
  EXPECT_EQ(spoke.take_actions(), Actions{Close{}});
  EXPECT_EQ(spoke.waiting_for(start + 10s), "rank 0's launcher at master:29502 (10 s): no answer to the greeting");
}

}  // namespace
}  // namespace trainyard::launcher
