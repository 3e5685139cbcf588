#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "storage/store.hpp"
#include "tests/checkpoint/run/test_run.hpp"
#include "tests/fakes/thread_group.hpp"

/// Tests of runs over a real store, which is empty at first.
namespace trainyard::checkpoint {

using OpenStore = std::function<std::unique_ptr<storage::Store>()>;

inline void on_ranks(std::int64_t world_size, const OpenStore& open, const std::function<void(TestRun&)>& rank_main) {
  fakes::ThreadGroup group{world_size};
  group.run([&](Communicator& communicator) {
    TestRun run{open()};
    run.communicator = &communicator;
    rank_main(run);
  });
}

inline void saves_resumes_and_tidies_up(const OpenStore& open) {
  on_ranks(3, open, [](TestRun& run) {
    const auto restored = run.restore();
    ASSERT_TRUE(restored) << restored.error().message;
    for (const std::int64_t step : {10, 20, 30}) {
      const auto saved = run.save(step);
      ASSERT_TRUE(saved) << saved.error().message;
    }
  });
  on_ranks(3, open, [](TestRun& run) {
    const auto restored = run.as_attempt(2).restore();
    ASSERT_TRUE(restored) << restored.error().message;
    ASSERT_TRUE(*restored);
    EXPECT_EQ((*restored)->step, 30);
    EXPECT_TRUE(run.holds_state_after(30));
    ASSERT_TRUE(run.save(40, true));
  });
  on_ranks(3, open, [](TestRun& run) {
    const auto restored = run.as_attempt(3).restore();
    ASSERT_TRUE(restored) << restored.error().message;
    EXPECT_TRUE((*restored)->is_final);
    EXPECT_TRUE(run.holds_state_after(40));
  });
  const auto store = open();
  EXPECT_EQ(store->list("step-10/"), std::vector<storage::ObjectInfo>{});
  EXPECT_EQ(store->list("step-30/").value().size(), 4U);  // Data of each rank, and the manifest.
}

inline void fences_the_older_of_two_writers(const OpenStore& open) {
  TestRun older{open()};
  ASSERT_TRUE(older.restore());
  ASSERT_TRUE(older.save(10));
  TestRun newer{open()};
  ASSERT_EQ(newer.as_attempt(2).restore().value()->step, 10);
  EXPECT_EQ(older.save(20).error().kind, ErrorKind::conflict);
  ASSERT_TRUE(newer.save(20));
  TestRun third{open()};
  EXPECT_EQ(third.as_attempt(3).restore().value()->uri, newer.store().uri_of("step-20/g-2"));
}

inline void gives_each_of_many_starters_a_generation(const OpenStore& open) {
  std::atomic<int> begun = 0;
  std::vector<std::jthread> starters;
  for (int i = 0; i < 5; ++i) {
    starters.emplace_back([&] {
      TestRun run{open()};
      const auto restored = run.restore();
      if (restored) ++begun;
      // A run that a later run overtook while it began is fenced.
      EXPECT_TRUE(restored || restored.error().kind == ErrorKind::conflict) << restored.error().message;
    });
  }
  starters.clear();
  EXPECT_GE(begun, 1);
  EXPECT_EQ(open()->list("generations/").value().size(), 5U);
}

}  // namespace trainyard::checkpoint
