#include "worker/dist/process_settings.hpp"

#include <gtest/gtest.h>

namespace trainyard::dist {
namespace {

TEST(ThreadsPerRank, SharesTheProcessorsAndIsNeverNone) {
  struct Case {
    std::int64_t processors;
    std::int64_t ranks_here;
    std::int64_t threads;
  };
  for (const Case& c : {Case{8, 2, 4}, Case{8, 3, 2}, Case{2, 2, 1}, Case{1, 4, 1}, Case{4, 0, 4}}) {
    EXPECT_EQ(threads_per_rank(c.processors, c.ranks_here), c.threads) << c.processors << " for " << c.ranks_here;
  }
}

}  // namespace
}  // namespace trainyard::dist
