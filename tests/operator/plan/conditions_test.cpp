#include "operator/plan/conditions.hpp"

#include <gtest/gtest.h>

#include "tests/builders/a_job.hpp"

namespace trainyard::plan {
namespace {

using builders::start;
using namespace std::chrono_literals;

TEST(Conditions, KeepTheTimeAtWhichTheyBecameTrue) {
  api::TrainingJobStatus status;
  raise_condition(status, condition_failed, "A", "first", start);
  raise_condition(status, condition_failed, "B", "second", start + 5s);
  ASSERT_EQ(status.conditions.size(), 1U);
  EXPECT_EQ(status.conditions[0].message, "second");
  EXPECT_EQ(status.conditions[0].last_transition, start);
  clear_condition(status, condition_failed, "C", start + 9s);
  EXPECT_FALSE(is_condition_true(status, condition_failed));
  EXPECT_EQ(status.conditions[0].last_transition, start + 9s);
}

TEST(Conditions, ThatWereNeverRaisedAreNotListed) {
  api::TrainingJobStatus status;
  clear_condition(status, condition_training, "A", start);
  EXPECT_TRUE(status.conditions.empty());
}

}  // namespace
}  // namespace trainyard::plan
