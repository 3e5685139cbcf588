// A run with a local tier dies at any write of either tier: what it leaves.
#include <gtest/gtest.h>

#include <atomic>

#include "tests/checkpoint/run/dying_store.hpp"
#include "tests/checkpoint/run/local_nodes.hpp"

namespace trainyard::checkpoint {
namespace {

// Two ranks, on one node or on two.
class RunWithCopiesThatDies : public testing::TestWithParam<std::vector<std::size_t>> {
 protected:
  // Saves until all of it dies; false when it did not.
  bool dies(LocalNodes& nodes, Death death) {
    std::atomic<int> writes = 0;
    nodes.open_remote = [&](std::int64_t) { return dying_store(nodes.remote, writes, death); };
    nodes.open_local = [&](std::int64_t rank) { return dying_store(nodes.folder_of(rank), writes, death); };
    nodes.run(1, [&](TestRun& run) {
      if (!run.restore()) return;
      for (const std::int64_t step : {10, 20, 30, 40}) {
        const auto failures = run.save_copies(step);
        if (failures && failures->empty()) saved_step = step;
        if (!failures || !failures->empty()) return;
        if (step % 20 == 0 && !run.save(step)) return;
      }
    });
    return writes >= death.write;
  }

  std::atomic<std::int64_t> saved_step = 0;  // The last that was reported as saved.
};

TEST_P(RunWithCopiesThatDies, LosesNothingThatWasReportedWhereverInAWriteItDies) {
  int points = 0;
  bool has_died = true;
  for (int write = 1; has_died; ++write) {
    for (int cut = 0; cut <= cut_count && has_died; cut += 4) {
      SCOPED_TRACE(testing::Message() << "died at write " << write << ", cut " << cut);
      LocalNodes nodes{GetParam(), 2};
      // Only stores without conditional create tear objects.
      nodes.remote.is_conditional = cut == 0 || cut == cut_count;
      saved_step = 0;
      has_died = dies(nodes, {.write = write, .cut = cut});

      LocalNodes healthy{GetParam(), 2};
      healthy.remote.objects = nodes.remote.objects;
      healthy.remote.is_conditional = nodes.remote.is_conditional;
      for (std::size_t node = 0; node < 2; ++node) healthy.folders[node]->objects = nodes.folders[node]->objects;
      std::atomic<std::int64_t> next_step = 0;
      healthy.run(2, [&](TestRun& run) {
        const auto restored = run.restore();
        ASSERT_TRUE(restored) << restored.error().message;
        const std::int64_t step = *restored ? (*restored)->step : 0;
        ASSERT_GE(step, saved_step.load());
        ASSERT_LE(step, saved_step.load() + 10);
        ASSERT_TRUE(run.holds_state_after(step == 0 ? -1 : step));
        ASSERT_EQ(run.save_copies(step + 10).value_or("the group broke"), "");
        next_step = step + 10;
      });
      if (HasFatalFailure()) return;
      healthy.expect_resumes(3, next_step, true);
      if (HasFatalFailure()) return;
      ++points;
    }
  }
  EXPECT_GT(points, 60);
}

INSTANTIATE_TEST_SUITE_P(OnNodes, RunWithCopiesThatDies,
                         testing::Values(std::vector<std::size_t>{0, 0}, std::vector<std::size_t>{0, 1}));

}  // namespace
}  // namespace trainyard::checkpoint
