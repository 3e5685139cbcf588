#include "worker/train/step_agreement.hpp"

#include <gtest/gtest.h>

#include <exception>
#include <stdexcept>

#include "tests/worker/fakes/broken_group.hpp"
#include "tests/worker/fakes/plain_wait.hpp"
#include "tests/worker/fakes/rank_threads.hpp"

namespace trainyard::train {
namespace {

using fakes::plain_wait;

TEST(StepAgreement, GivesAllRanksWhatOneAsksFor) {
  fakes::run_ranks(3, [](fakes::RankThread& rank) {
    StepAgreement agreement{rank.process_group, plain_wait};
    const auto agree = [&](const StepFlags& mine) {
      agreement.begin(mine);
      return agreement.finish().value();
    };
    EXPECT_EQ(agree({}), StepFlags{});
    EXPECT_EQ(agree({.is_stop_asked = rank.rank == 1}), (StepFlags{.is_stop_asked = true}));
    EXPECT_EQ(agree({.is_checkpoint_due = rank.rank == 0}), (StepFlags{.is_checkpoint_due = true}));
    EXPECT_EQ(agree({.is_checkpoint_asked = rank.rank == 0}), (StepFlags{.is_checkpoint_asked = true}));
    EXPECT_EQ(agree({.is_copy_due = rank.rank == 0}), (StepFlags{.is_copy_due = true}));
    EXPECT_EQ(agree({.is_end_asked = rank.rank == 1}), (StepFlags{.is_end_asked = true}));
    EXPECT_EQ(agree({.is_saving = rank.rank == 2}), (StepFlags{.is_saving = true}));
    EXPECT_EQ(agree({}), StepFlags{});
  });
}

TEST(StepAgreement, FailsWhenARankHasGone) {
  fakes::run_ranks(2, [](fakes::RankThread& rank) {
    if (rank.rank == 1) return;
    StepAgreement agreement{rank.process_group, plain_wait};
    agreement.begin({});
    const auto flags = agreement.finish();
    ASSERT_FALSE(flags.has_value());
    EXPECT_EQ(flags.error().kind, ErrorKind::unavailable);
  });
}

TEST(StepAgreement, FailsWhenItsFlagsCannotBeSent) {
  StepAgreement agreement{
      c10::make_intrusive<fakes::BrokenGroup>(std::make_exception_ptr(std::runtime_error{"connection reset"})),
      plain_wait};
  agreement.begin({});
  const auto flags = agreement.finish();
  ASSERT_FALSE(flags.has_value());
  EXPECT_EQ(flags.error().kind, ErrorKind::unavailable);
  EXPECT_EQ(flags.error().message, "sending the step's flags: connection reset");
}

}  // namespace
}  // namespace trainyard::train
