#pragma once

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/run/local_tier.hpp"
#include "tests/checkpoint/run/test_run.hpp"

namespace trainyard::checkpoint {

/// A group whose ranks are spread over nodes, with the folder that each node has for the job, and a remote store.
class LocalNodes {
 public:
  /// `node_of_rank`: for each rank the number of its node.
  explicit LocalNodes(std::vector<std::size_t> node_of_rank, std::size_t node_count)
      : node_of_rank_{std::move(node_of_rank)} {
    for (std::size_t i = 0; i < node_count; ++i) folders.push_back(std::make_unique<fakes::MemoryObjects>());
    open_remote = [this](std::int64_t) { return std::make_unique<fakes::MemoryStore>(remote); };
    open_local = [this](std::int64_t rank) { return std::make_unique<fakes::MemoryStore>(folder_of(rank)); };
  }

  fakes::MemoryObjects remote;
  std::vector<std::unique_ptr<fakes::MemoryObjects>> folders;  ///< By node.
  std::int64_t keep = 1;
  std::int64_t large_rows = 60;  ///< TestState's.
  std::function<std::unique_ptr<storage::Store>(std::int64_t rank)> open_remote;
  std::function<std::unique_ptr<storage::Store>(std::int64_t rank)> open_local;

  [[nodiscard]] fakes::MemoryObjects& folder_of(std::int64_t rank) {
    return *folders.at(node_of_rank_.at(static_cast<std::size_t>(rank)));
  }
  /// Replaces the node by an empty one.
  void lose(std::size_t node) { folders.at(node)->objects.clear(); }

  /// Runs `rank_main` as every rank of attempt `attempt`.
  void run(std::int64_t attempt, const std::function<void(TestRun&)>& rank_main) {
    fakes::ThreadGroup group{static_cast<std::int64_t>(node_of_rank_.size())};
    group.run([&](Communicator& communicator) {
      const std::int64_t rank = communicator.rank();
      auto tier = LocalTier::join(communicator, open_local(rank),
                                  fmt::format("node-{}", node_of_rank_.at(static_cast<std::size_t>(rank))), keep);
      ASSERT_TRUE(tier);
      TestRun run{open_remote(rank)};
      run.as_attempt(attempt);
      run.large_rows = large_rows;
      run.communicator = &communicator;
      run.local = &*tier;
      rank_main(run);
    });
  }

  /// Attempt `attempt` resumes from `step` (0: begins afresh), and every rank has that state.
  void expect_resumes(std::int64_t attempt, std::int64_t step, std::optional<bool> is_local = std::nullopt) {
    run(attempt, [&](TestRun& run) {
      const auto restored = run.restore();
      ASSERT_TRUE(restored) << restored.error().message;
      ASSERT_EQ(*restored ? (*restored)->step : 0, step);
      EXPECT_TRUE(run.holds_state_after(step == 0 ? -1 : step));
      if (is_local) {
        EXPECT_EQ((*restored)->is_local, *is_local);
      }
    });
  }

 private:
  std::vector<std::size_t> node_of_rank_;
};

}  // namespace trainyard::checkpoint
