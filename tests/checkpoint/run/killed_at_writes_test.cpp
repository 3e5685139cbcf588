// A run dies at any write, in a store that keeps objects whole and in one that tears them: what it leaves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "checkpoint/format/claim.hpp"
#include "checkpoint/run/run.hpp"
#include "tests/checkpoint/run/dying_store.hpp"
#include "tests/checkpoint/run/test_run.hpp"

namespace trainyard::checkpoint {
namespace {

using testing::HasSubstr;

void shape(TestRun& run) {
  // 64 KiB in all, of every placement.
  run.large_rows = 60;
  run.extend = [rank = static_cast<std::uint64_t>(run.communicator->rank()),
                world_size = static_cast<std::uint64_t>(run.communicator->world_size())](TestState& state) {
    state.add_sharded("embedding", "F32", {16, 32}, 4, {16 * rank / world_size, 16 * (rank + 1) / world_size});
  };
}

// A torn claim is no claim: its run never wrote anything else.
bool is_whole(fakes::MemoryObjects& objects, const std::string& claim) {
  fakes::MemoryStore store{objects};
  return storage::get_text(store, claim).and_then(parse_claim).has_value();
}

// Works on a copy, so that the job itself finds the objects as the death left them.
void expect_another_job_resumes_only_after_the_end(fakes::MemoryObjects& objects) {
  fakes::MemoryObjects copy;
  copy.objects = objects.objects;
  copy.is_conditional = objects.is_conditional;
  const bool may = copy.objects.contains("generations/1.end") || !is_whole(copy, "generations/1.json");
  TestRun other{copy};
  shape(other);
  const auto restored = other.as_job("b").restore();
  ASSERT_EQ(restored.has_value(), may);
  if (!may) {
    EXPECT_THAT(restored.error().message, HasSubstr("in use by job team/a"));
  }
}

class RunThatDies : public testing::TestWithParam<std::int64_t> {
 protected:
  // Saves until it dies; false when it did not.
  bool dies(Death death) {
    std::atomic<int> writes = 0;
    fakes::ThreadGroup group{GetParam()};
    group.run([&](Communicator& communicator) {
      TestRun run{dying_store(objects, writes, death)};
      run.communicator = &communicator;
      shape(run);
      if (!run.restore()) return;
      for (const std::int64_t step : {10, 20, 30, 40}) {
        if (!run.save(step)) return;
        saved_step = step;
      }
      static_cast<void>(run.end());
    });
    return writes >= death.write;
  }

  void expect_the_next_resumes() {
    std::atomic<std::int64_t> next_step = 0;
    on_every_rank(GetParam(), objects, [&](TestRun& run) {
      shape(run);
      const auto restored = run.as_attempt(2).restore();
      ASSERT_TRUE(restored) << restored.error().message;
      // A checkpoint that is complete but was not reported may be resumed as well.
      const std::int64_t step = *restored ? (*restored)->step : 0;
      ASSERT_GE(step, saved_step.load());
      ASSERT_LE(step, saved_step.load() + 10);
      ASSERT_TRUE(step == 0 || run.holds_state_after(step));
      next_step = step + 10;
      ASSERT_TRUE(run.save(step + 10));
    });
    on_every_rank(GetParam(), objects, [&](TestRun& run) {
      shape(run);
      const auto restored = run.as_attempt(3).restore();
      ASSERT_TRUE(restored && *restored);
      ASSERT_EQ((*restored)->step, next_step.load());
      ASSERT_TRUE(run.holds_state_after(next_step));
    });
  }

  fakes::MemoryObjects objects;
  std::atomic<std::int64_t> saved_step = 0;  // The last that was reported as saved.
};

TEST_P(RunThatDies, LeavesTheNewestCompleteCheckpointWhereverInAWriteItDies) {
  int points = 0;
  bool has_died = true;
  for (int write = 1; has_died; ++write) {
    for (int cut = 0; cut <= cut_count && has_died; ++cut) {
      SCOPED_TRACE(testing::Message() << "died at write " << write << ", cut " << cut);
      objects.objects.clear();
      objects.is_conditional = cut == 0 || cut == cut_count;  // Only stores without conditional create tear objects.
      saved_step = 0;
      has_died = dies({.write = write, .cut = cut});
      expect_another_job_resumes_only_after_the_end(objects);
      expect_the_next_resumes();
      if (HasFatalFailure()) return;
      ++points;
    }
  }
  EXPECT_GT(points, 120) << "a run of " << GetParam();
}

INSTANTIATE_TEST_SUITE_P(OfRanks, RunThatDies, testing::Values(1, 2));

}  // namespace
}  // namespace trainyard::checkpoint
