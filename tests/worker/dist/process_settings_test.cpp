#include "worker/dist/process_settings.hpp"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>
#include <tuple>
#include <vector>

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
