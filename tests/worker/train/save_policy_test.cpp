#include "worker/train/save_policy.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <string_view>

namespace trainyard::train {
namespace {

using api::WhenBusy;

TEST(ChooseSave, FollowsTheTable) {
  struct Row {
    std::string_view name;
    SaveSituation situation;
    SaveAction action;
  };
  const Row rows[] = {
      {"nothing is due", {}, SaveAction::none},
      {"nothing is due while one is written", {.is_saving = true}, SaveAction::none},
      {"due, and none is written", {.is_due = true}, SaveAction::begin},
      {"due while one is written", {.is_due = true, .is_saving = true}, SaveAction::skip},
      {"due while one is written, and none may be left out",
       {.is_due = true, .is_saving = true, .when_busy = WhenBusy::wait},
       SaveAction::wait_and_begin},
      {"due with nothing to wait for", {.is_due = true, .when_busy = WhenBusy::wait}, SaveAction::begin},
      {"somebody asks", {.is_asked = true}, SaveAction::begin},
      {"somebody asks while one is written: after the step that finds none",
       {.is_asked = true, .is_saving = true},
       SaveAction::none},
      {"somebody asks while one is written, and none may be left out",
       {.is_asked = true, .is_saving = true, .when_busy = WhenBusy::wait},
       SaveAction::none},
      {"due and asked for", {.is_due = true, .is_asked = true}, SaveAction::begin},
      {"due and asked for while one is written",
       {.is_due = true, .is_asked = true, .is_saving = true},
       SaveAction::skip},
      {"due and asked for while one is written, and none may be left out",
       {.is_due = true, .is_asked = true, .is_saving = true, .when_busy = WhenBusy::wait},
       SaveAction::wait_and_begin},
      {"a copy is due", {.is_copy_due = true}, SaveAction::begin_copies},
      {"a copy is due while a checkpoint is written", {.is_copy_due = true, .is_saving = true}, SaveAction::none},
      {"a copy is due while copies are written",
       {.is_copy_due = true, .is_saving = true, .is_saving_copies = true, .when_busy = WhenBusy::wait},
       SaveAction::none},
      {"a copy and a checkpoint are due", {.is_due = true, .is_copy_due = true}, SaveAction::begin},
      {"a copy is due and somebody asks", {.is_copy_due = true, .is_asked = true}, SaveAction::begin},
      {"due while copies are written",
       {.is_due = true, .is_saving = true, .is_saving_copies = true},
       SaveAction::postpone},
      {"due while copies are written, and none may be left out",
       {.is_due = true, .is_saving = true, .is_saving_copies = true, .when_busy = WhenBusy::wait},
       SaveAction::wait_and_begin},
      {"somebody asks while copies are written: after the step that finds none",
       {.is_asked = true, .is_saving = true, .is_saving_copies = true},
       SaveAction::none},
      {"due after the last copies were written", {.is_due = true, .is_saving_copies = true}, SaveAction::begin},
      {"asked to stop while copies are written",
       {.is_stop_asked = true, .is_saving = true, .is_saving_copies = true},
       SaveAction::save_and_wait},
      {"asked to stop", {.is_stop_asked = true}, SaveAction::save_and_wait},
      {"asked to stop while one is written", {.is_stop_asked = true, .is_saving = true}, SaveAction::save_and_wait},
      {"asked to stop when one is due while one is written",
       {.is_due = true, .is_stop_asked = true, .is_saving = true},
       SaveAction::save_and_wait},
  };
  for (const Row& row : rows) EXPECT_EQ(choose_save(row.situation), row.action) << row.name;
}

TEST(OwedSave, IsDueAfterAFailureWithGrowingPausesUntilOneSucceeds) {
  using namespace std::chrono_literals;
  OwedSave owed;
  Instant now{};
  EXPECT_FALSE(owed.is_due(now + 1h)) << "nothing has failed";
  for (const auto pause : {5s, 10s, 20s, 30s, 30s}) {
    owed.failed(now);
    EXPECT_FALSE(owed.is_due(now + pause - 1ms));
    EXPECT_TRUE(owed.is_due(now + pause));
    now += pause;
    owed.begun();
    EXPECT_FALSE(owed.is_due(now + 1h)) << "one is under way";
  }
  owed.saved();
  EXPECT_FALSE(owed.is_due(now + 1h));
  owed.failed(now);
  EXPECT_TRUE(owed.is_due(now + 5s)) << "the pauses begin anew";
}

TEST(OwedSave, IsDueAtOnceWhereOneWasHeldUp) {
  OwedSave owed;
  owed.held_up();
  owed.saved();
  EXPECT_TRUE(owed.is_due({}));
  owed.begun();
  EXPECT_FALSE(owed.is_due({}));
}

TEST(OwedSave, WaitsAfterAFailureEvenWhereOthersWereLeftOut) {
  using namespace std::chrono_literals;
  OwedSave owed;
  owed.held_up();
  owed.failed({});
  EXPECT_FALSE(owed.is_due({}));
  EXPECT_TRUE(owed.is_due(Instant{} + 5s));
}

TEST(MayGoOn, IsTrueOnlyIfAnotherSaveMaySucceed) {
  const std::set<ErrorKind> passing = {ErrorKind::not_found, ErrorKind::gone,      ErrorKind::unauthorized,
                                       ErrorKind::forbidden, ErrorKind::throttled, ErrorKind::unavailable,
                                       ErrorKind::timeout,   ErrorKind::corrupt,   ErrorKind::io};
  for (int kind = 0; kind <= static_cast<int>(ErrorKind::internal); ++kind) {
    const auto each = static_cast<ErrorKind>(kind);
    EXPECT_EQ(may_go_on(each), passing.contains(each)) << to_string(each);
  }
}

}  // namespace
}  // namespace trainyard::train
