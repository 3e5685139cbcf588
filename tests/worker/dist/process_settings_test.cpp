#include "worker/dist/process_settings.hpp"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/fakes/resident_bytes.hpp"
#include "tests/fakes/thread_group.hpp"
#include "worker/rank/processors.hpp"

namespace trainyard::dist {
namespace {

TEST(MakeCublasDeterministic, GivesItAWorkspaceUnlessTheUserHasChosenOne) {
  // NOLINTBEGIN(concurrency-mt-unsafe): no other thread runs yet.
  unsetenv("CUBLAS_WORKSPACE_CONFIG");
  make_cublas_deterministic();
  EXPECT_STREQ(getenv("CUBLAS_WORKSPACE_CONFIG"), ":4096:8");
  setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8", 1);
  make_cublas_deterministic();
  EXPECT_STREQ(getenv("CUBLAS_WORKSPACE_CONFIG"), ":16:8");
  unsetenv("CUBLAS_WORKSPACE_CONFIG");
  // NOLINTEND(concurrency-mt-unsafe)
}

TEST(ReturnFreedMemory, GivesTheSystemBackWhatLiesBelowMemoryInUse) {
  constexpr std::size_t block_bytes = 64 << 10, block_count = 1'024;  // Each too small to be mapped by itself.
  constexpr std::int64_t half = block_bytes * block_count / 2;
  std::vector<std::unique_ptr<char[]>> blocks;
  for (std::size_t block = 0; block < block_count; ++block)
    blocks.emplace_back(std::make_unique<char[]>(block_bytes));  // Zeros: the pages are touched.
  blocks.erase(blocks.begin(), blocks.end() - 1);                // The last one keeps the heap from becoming shorter.
  const std::int64_t before = fakes::resident_bytes();
  return_freed_memory();
  EXPECT_LT(fakes::resident_bytes(), before - half);
}

/// Ends with 0 when the process keeps at least half of freed blocks of 4 MiB.
[[noreturn]] void free_blocks_and_exit() {
  constexpr std::size_t block_bytes = 4 << 20, block_count = 16;
  constexpr std::int64_t half = block_bytes * block_count / 2;
  std::ignore = apply_process_settings({});
  std::vector<std::unique_ptr<char[]>> blocks;
  const std::int64_t before = fakes::resident_bytes();
  for (std::size_t block = 0; block < block_count; ++block) blocks.emplace_back(std::make_unique<char[]>(block_bytes));
  blocks.clear();
  _exit(fakes::resident_bytes() >= before + half ? 0 : 1);
}

TEST(ApplyProcessSettings, KeepsFreedMemory) {
  // The settings hold for a whole process.
  EXPECT_EXIT(free_blocks_and_exit(), testing::ExitedWithCode(0), "");
}

TEST(ShareProcessors, GivesEachRankItsPartWherePodsOfOneGroupShareANode) {
  rank::GroupEnvironment pod;
  pod.world_size = 3;
  pod.master_address = "smoke-c0de-1-0.smoke-c0de.research.svc";  // The other ranks may be on any node.
  const rank::ProcessorFacts facts = rank::read_processor_facts(rank::process_environment());
  rank::RankCounts known = rank::rank_counts(pod);
  const auto alone = static_cast<int>(rank::threads_per_rank(facts, known));
  known.on_node = 3;
  const auto shared = static_cast<int>(rank::threads_per_rank(facts, known));
  fakes::MeetingPlace place{3};
  std::vector<std::jthread> ranks;
  for (std::int64_t rank = 0; rank < 3; ++rank) {
    ranks.emplace_back([&, rank] {
      fakes::ThreadCommunicator communicator{rank, place};
      std::ignore = at::get_num_threads();  // The first call on a thread sets the thread's number.
      at::set_num_threads(alone);
      const Threads chosen_by = rank == 2 ? Threads::users : Threads::ours;
      const auto done = share_processors(pod, chosen_by, communicator);
      ASSERT_TRUE(done) << done.error().message;
      EXPECT_EQ(at::get_num_threads(), rank == 2 ? alone : shared) << rank;
      place.leave();
    });
  }
}

}  // namespace
}  // namespace trainyard::dist
