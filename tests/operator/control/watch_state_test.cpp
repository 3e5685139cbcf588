#include "operator/control/watch_state.hpp"

#include <gtest/gtest.h>

namespace trainyard::control {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Phase = WatchState::Phase;

const WatchState watching{.phase = Phase::watching, .continue_token = {}, .resource_version = "7", .failures = 0};

kube::ListPage page(std::string continue_token) {
  return {.items = {}, .resource_version = "7", .continue_token = std::move(continue_token)};
}

TEST(WatchState, ListsPageByPageAndThenWatchesFromTheListsVersion) {
  WatchState state;
  state = after_page(state, page("second"));
  EXPECT_EQ(state, (WatchState{.phase = Phase::listing, .continue_token = "second"}));
  state.failures = 3;
  EXPECT_EQ(after_page(state, page("third")).failures, 0);
  state = after_page(state, page(""));
  EXPECT_EQ(state, watching);
}

TEST(WatchState, AsksForTheSamePageAgainUnlessItsTokenExpiredOrIsRefused) {
  const WatchState second{.phase = Phase::listing, .continue_token = "second", .resource_version = {}, .failures = 1};
  WatchState after = second;
  after.failures = 2;
  EXPECT_EQ(after_list_failure(second, {ErrorKind::unavailable, "", {}}), after);
  for (const ErrorKind kind : {ErrorKind::throttled, ErrorKind::forbidden, ErrorKind::unauthorized, ErrorKind::timeout})
    EXPECT_EQ(after_list_failure(second, {kind, "", {}}), after) << to_string(kind);
  after.continue_token.clear();
  for (const ErrorKind kind : {ErrorKind::gone, ErrorKind::invalid, ErrorKind::corrupt, ErrorKind::internal})
    EXPECT_EQ(after_list_failure(second, {kind, "", {}}), after) << to_string(kind) << " will be said of it for ever";
}

TEST(WatchState, FollowsTheVersionOfEventsAndBookmarks) {
  WatchState failing = watching;
  failing.failures = 3;
  const WatchState after = after_event(failing, "9");
  EXPECT_EQ(after.resource_version, "9");
  EXPECT_EQ(after.failures, 0);
  EXPECT_EQ(after_event(watching, "").resource_version, "7") << "an event without a version moves nothing";
}

TEST(WatchState, KnowsWhatEachEndOfAWatchMeans) {
  struct Row {
    ErrorKind kind;
    std::int64_t failures_before;
    Phase next;
  };
  for (const Row& row :
       {Row{ErrorKind::gone, 0, Phase::listing}, Row{ErrorKind::unavailable, 0, Phase::watching},
        Row{ErrorKind::unavailable, 50, Phase::watching}, Row{ErrorKind::throttled, 0, Phase::watching},
        Row{ErrorKind::unauthorized, 0, Phase::watching}, Row{ErrorKind::forbidden, 0, Phase::watching},
        Row{ErrorKind::timeout, 0, Phase::watching}, Row{ErrorKind::timeout, 1, Phase::watching},
        Row{ErrorKind::timeout, 2, Phase::listing}, Row{ErrorKind::cancelled, 0, Phase::watching},
        Row{ErrorKind::not_found, 0, Phase::listing}, Row{ErrorKind::internal, 0, Phase::listing},
        Row{ErrorKind::corrupt, 0, Phase::listing}, Row{ErrorKind::invalid, 0, Phase::listing}}) {
    WatchState before = watching;
    before.failures = row.failures_before;
    const WatchState after = after_watch(before, fail(row.kind, "no"), seconds{60}, true);
    EXPECT_EQ(after.phase, row.next) << to_string(row.kind);
    EXPECT_EQ(after.failures, row.failures_before + 1);
    EXPECT_EQ(after.resource_version, row.next == Phase::watching ? "7" : "");
  }
}

TEST(WatchState, WatchesOnAtOnceAfterACleanEnd) {
  const WatchState after = after_watch(watching, {}, seconds{300}, false);
  EXPECT_EQ(after, watching);
  EXPECT_EQ(delay_before_next(after, {}, {}, 0.5), milliseconds{0});
}

TEST(WatchState, SlowsDownWhenTheServerEndsEveryWatchAtOnce) {
  WatchState state = watching;
  for (int round = 0; round < 3; ++round) state = after_watch(state, {}, milliseconds{5}, false);
  EXPECT_EQ(state.failures, 3);
  EXPECT_GT(delay_before_next(state, {}, {}, 0.5), milliseconds{100});
  EXPECT_EQ(after_watch(watching, {}, milliseconds{5}, true).failures, 0) << "one with events is no such circle";
  EXPECT_EQ(after_watch(watching, {}, milliseconds{999}, false).failures, 1);
  EXPECT_EQ(after_watch(state, {}, seconds{1}, false).failures, 0) << "one of a second is long enough";
}

TEST(WatchState, WaitsAsLongAsTheServerSaid) {
  WatchState state = watching;
  state.failures = 1;
  EXPECT_EQ(delay_before_next(state, {}, fail(ErrorKind::throttled, "", seconds{9}), 0.5), seconds{9});
  state.failures = 50;
  const Backoff backoff{.initial = milliseconds{200}, .max = seconds{15}};
  EXPECT_GT(delay_before_next(state, backoff, fail(ErrorKind::throttled, "", seconds{1}), 0.5), seconds{10})
      << "and no shorter than after so many failures";
}

}  // namespace
}  // namespace trainyard::control
