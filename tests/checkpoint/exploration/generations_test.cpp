// Every order of calls of two and of three writers of one prefix, with faults, over the real Run.
#include <gtest/gtest.h>

#include <iostream>

#include "common/logging.hpp"
#include "tests/checkpoint/exploration/explorer.hpp"

namespace trainyard::checkpoint::exploration {
namespace {

const std::map<std::string, std::string> users_files{{"notes.txt", "mine"}, {"step-1/g-1/notes.txt", "mine"}};

Scenario writers(const std::vector<int>& saves, bool has_conditional_create = true) {
  Scenario scenario{.writers = {}, .crashes_max = 0, .objects = users_files};
  for (const int count : saves) {
    const auto attempt = static_cast<std::int64_t>(scenario.writers.size()) + 1;
    scenario.writers.push_back({identity_of_attempt(attempt), count, has_conditional_create});
  }
  return scenario;
}

void expect_invariants(const Scenario& scenario) {
  logging::set_up(logging::Format::text, logging::Level::error);  // Nobody reads the warnings of a million states.
  const Findings found = explore(scenario);
  EXPECT_EQ(found.violation, "");
  EXPECT_GT(found.reports, 0U);
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  std::cout << test->name() << ": " << found.states << " states, " << found.transitions << " transitions, up to "
            << found.depth_max << " calls and faults\n";
}

/// Two attempts of a job: the older one, which everybody believes dead, and the newer one.
Scenario two_writers() {
  return writers({1, 1});
}

Scenario bounded(Scenario scenario, int preemptions_max) {
  scenario.preemptions_max = preemptions_max;
  return scenario;
}

TEST(Generations, TwoWritersInEveryOrderOfTheirCallsWithADeathALostReplyAndALatePut) {
  Scenario scenario = two_writers();
  scenario.crashes_max = 1;
  scenario.lost_replies_max = 1;
  scenario.late_changes_max = 1;
  expect_invariants(scenario);
}

TEST(Generations, TwoWritersInEveryOrderOfTheirCallsWithAListThatLagsBehind) {
  Scenario scenario = two_writers();
  scenario.stale_lists_max = 1;
  expect_invariants(scenario);
}

TEST(Generations, WithoutConditionalCreateIfNoRunPausesBetweenReadingAndPutting) {
  Scenario scenario = writers({1, 1}, /*has_conditional_create=*/false);
  scenario.crashes_max = 1;
  expect_invariants(scenario);
}

TEST(Generations, TwoWritersThatSaveSeveralTimes) {
  expect_invariants(bounded(writers({3, 3}), 2));
}

// Each job resumes from the other's last checkpoint once the other has ended; both keep two of their own.
TEST(Generations, TwoJobsThatFollowEachOther) {
  Scenario scenario = bounded(writers({3, 3}), 1);
  scenario.writers.front().identity = identity_of_attempt(1, "b");
  expect_invariants(scenario);
}

TEST(Generations, ThreeWriters) {
  expect_invariants(bounded(writers({1, 1, 1}), 2));
}

TEST(Generations, TwoOfThreeWritersMayDieAtAnyChange) {
  Scenario scenario = bounded(writers({2, 1, 1}), 1);
  scenario.crashes_max = 2;
  expect_invariants(scenario);
}

TEST(Generations, AWriterThatSavesTwiceMayLoseAReplyOrSeeListsThatLagBehind) {
  Scenario scenario = bounded(writers({2, 1}), 2);
  scenario.lost_replies_max = 1;
  scenario.stale_lists_max = 2;
  expect_invariants(scenario);
}

}  // namespace
}  // namespace trainyard::checkpoint::exploration
