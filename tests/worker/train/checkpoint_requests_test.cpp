#include "worker/train/checkpoint_requests.hpp"

#include <gtest/gtest.h>

#include "tests/worker/fakes/fake_rank_link.hpp"

namespace trainyard::train {
namespace {

using contract::RequestState;
using rank::RequestRecord;
using rank::Then;

TEST(CheckpointRequests, AreAnsweredByASaveThatBeginsAfterThem) {
  fakes::FakeRankLink link;
  CheckpointRequests requests{link};
  EXPECT_FALSE(requests.is_save_asked());
  requests.begin_save();
  link.ask_for_checkpoint({.id = "a"});
  EXPECT_TRUE(requests.is_save_asked());
  requests.saved({.step = 1, .uri = "s3://m/step-1"});
  EXPECT_EQ(requests.record(), std::nullopt) << "what was begun before is older than what is asked for";
  EXPECT_TRUE(requests.is_save_asked());

  requests.begin_save();
  EXPECT_FALSE(requests.is_save_asked()) << "the save under way will answer it";
  requests.saved({.step = 2, .uri = "s3://m/step-2"});
  EXPECT_EQ(requests.record(),
            (RequestRecord{.request = {.id = "a"}, .state = RequestState::done, .step = 2, .uri = "s3://m/step-2"}));
  EXPECT_FALSE(requests.is_save_asked()) << "it is answered";
}

TEST(CheckpointRequests, EndTrainingOnlyWhileTheyWait) {
  fakes::FakeRankLink link;
  CheckpointRequests requests{link};
  link.ask_for_checkpoint({.id = "a"});
  EXPECT_FALSE(requests.is_exit_asked());
  link.ask_for_checkpoint({.id = "b", .then = Then::exit});
  EXPECT_TRUE(requests.is_exit_asked());
  requests.begin_save();
  EXPECT_TRUE(requests.is_exit_asked());
  requests.failed("the disk is full");
  EXPECT_FALSE(requests.is_exit_asked());
  EXPECT_EQ(requests.record(), (RequestRecord{.request = {.id = "b", .then = Then::exit},
                                              .state = RequestState::failed,
                                              .message = "the disk is full"}));
}

TEST(CheckpointRequests, AreNewWhenAnotherCameBetween) {
  fakes::FakeRankLink link;
  CheckpointRequests requests{link};
  for (const std::int64_t step : {1, 2, 3}) {
    link.ask_for_checkpoint({.id = step == 2 ? "b" : "a"});
    EXPECT_TRUE(requests.is_save_asked()) << step;
    requests.begin_save();
    requests.saved({.step = step, .uri = ""});
    EXPECT_EQ(requests.record()->step, step);
  }
}

TEST(CheckpointRequests, ThatStillWaitAtTheEndGetTheLastStateOrHearOfIt) {
  for (const bool is_saved : {true, false}) {
    fakes::FakeRankLink link;
    CheckpointRequests requests{link};
    link.ask_for_checkpoint({.id = "late"});
    const std::optional<SavedState> state = is_saved ? std::optional{SavedState{.step = 9, .uri = "u"}} : std::nullopt;
    requests.end(state, "stopped as asked");
    EXPECT_EQ(requests.record(),
              is_saved ? (RequestRecord{.request = {.id = "late"}, .state = RequestState::done, .step = 9, .uri = "u"})
                       : (RequestRecord{
                             .request = {.id = "late"}, .state = RequestState::failed, .message = "stopped as asked"}));
  }
}

TEST(CheckpointRequests, LeaveNoRecordWhereNobodyAsks) {
  fakes::FakeRankLink link;
  CheckpointRequests requests{link};
  requests.begin_save();
  requests.saved({.step = 9, .uri = "u"});
  requests.end({}, "trained 9 steps");
  EXPECT_EQ(requests.record(), std::nullopt);
}

}  // namespace
}  // namespace trainyard::train
