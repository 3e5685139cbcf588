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

TEST(Conditions, AreOfTheGenerationOfTheirLastChange) {
  api::TrainingJobStatus status;
  status.observed_generation = 2;
  raise_condition(status, condition_failed, "A", "first", start);
  status.observed_generation = 3;
  clear_condition(status, condition_training, "C", start + 1s);
  EXPECT_EQ(status.conditions.at(0).observed_generation, 2);
  raise_condition(status, condition_failed, "B", "second", start + 5s);
  EXPECT_EQ(status.conditions.at(0).observed_generation, 3);
  status.observed_generation = 4;
  clear_condition(status, condition_failed, "C", start + 9s);
  const api::Condition cleared{.type = std::string{condition_failed},
                               .is_true = false,
                               .reason = "C",
                               .last_transition = start + 9s,
                               .observed_generation = 4};
  EXPECT_EQ(status.conditions, std::vector<api::Condition>{cleared});
  clear_condition(status, condition_failed, "D", start + 20s);
  EXPECT_EQ(status.conditions, std::vector<api::Condition>{cleared}) << "it was false before";
  raise_condition(status, condition_failed, "E", "again", start + 30s);
  EXPECT_EQ(condition_since(status, condition_failed), start + 30s);
  EXPECT_EQ(condition_since(status, condition_training), std::nullopt);
}

TEST(Conditions, ThatWereNeverRaisedAreNotListed) {
  api::TrainingJobStatus status;
  clear_condition(status, condition_training, "A", start);
  EXPECT_TRUE(status.conditions.empty());
}

}  // namespace
}  // namespace trainyard::plan
