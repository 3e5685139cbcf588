#include "operator/reconcile/memory.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <utility>
#include <vector>

namespace trainyard::reconcile {
namespace {

using namespace std::chrono_literals;

const control::ObjectKey key{.name_space = "research", .name = "smoke"};
const Time noon{std::chrono::sys_days{std::chrono::year{2026} / 11 / 21} + 12h};

TEST(Memory, CountsRefusalsOfOneKindInARow) {
  const std::vector<std::pair<ErrorKind, std::int64_t>> kinds_and_counts{
      {ErrorKind::forbidden, 1}, {ErrorKind::forbidden, 2}, {ErrorKind::invalid, 1}, {ErrorKind::forbidden, 1}};
  Memory memory;
  for (const auto& [kind, count] : kinds_and_counts) {
    memory.note_refusal(key, "first", {kind, "no"}, noon);
    EXPECT_EQ(memory.recall(key, "first").refusal,
              (plan::Refusal{.kind = kind, .message = "no", .count = count, .last = noon}));
  }
  memory.note_creation(key, "first");
  EXPECT_FALSE(memory.recall(key, "first").refusal);
}

TEST(Memory, CountsFailuresFromTheFirstInARow) {
  Memory memory;
  memory.note_failure(key, "first", {ErrorKind::unavailable, "no connection"}, noon);
  memory.note_failure(key, "first", {ErrorKind::unavailable, "no answer"}, noon + 1min);
  EXPECT_EQ(memory.recall(key, "first").create_failure, (plan::CreateFailure{.message = "no answer", .since = noon}));
  memory.note_refusal(key, "first", {ErrorKind::forbidden, "no"}, noon + 2min);
  EXPECT_FALSE(memory.recall(key, "first").create_failure) << "an answer is no failure";
  memory.note_failure(key, "first", {ErrorKind::unavailable, "no connection"}, noon + 3min);
  EXPECT_EQ(memory.recall(key, "first").create_failure->since, noon + 3min);
  memory.note_no_failure(key, "first");
  EXPECT_FALSE(memory.recall(key, "first").create_failure);
}

TEST(Memory, ForgetsARefusalOnceADryRunSucceeds) {
  Memory memory;
  memory.note_refusal(key, "first", {ErrorKind::forbidden, "no"}, noon);
  memory.note_acceptance(key, "first", 2);
  EXPECT_FALSE(memory.recall(key, "first").refusal);
}

TEST(Memory, KnowsTheVersionAndTheTimeOfTheLastWrite) {
  Memory memory;
  memory.note_write(key, "first", "17", noon);
  EXPECT_EQ(memory.recall(key, "first").written_version, "17");
  EXPECT_EQ(memory.recall(key, "first").written, noon);
  memory.note_version(key, "first", "18");
  EXPECT_EQ(memory.recall(key, "first").written_version, "18");
  EXPECT_EQ(memory.recall(key, "first").written, noon) << "that write was not the status";
}

TEST(Memory, KeepsNothingOfAJobForTheNextOneOfItsName) {
  Memory memory;
  memory.note_refusal(key, "first", {ErrorKind::forbidden, "no"}, noon);
  memory.note_acceptance(key, "second", 1);
  EXPECT_FALSE(memory.recall(key, "second").refusal);
  EXPECT_EQ(memory.recall(key, "second").accepted_spec_generation, 1);
  EXPECT_EQ(memory.recall(key, "first").accepted_spec_generation, -1);
}

}  // namespace
}  // namespace trainyard::reconcile
