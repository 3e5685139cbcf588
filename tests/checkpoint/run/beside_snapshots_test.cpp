// Runs in a folder that also holds snapshots.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "checkpoint/run/inventory.hpp"
#include "storage/file_store.hpp"
#include "tests/checkpoint/run/test_run.hpp"
#include "tests/fakes/temporary_folder.hpp"

namespace trainyard::checkpoint {
namespace {

namespace fs = std::filesystem;

class BesideSnapshots : public testing::Test {
 protected:
  [[nodiscard]] std::unique_ptr<storage::Store> open() const {
    return std::make_unique<storage::FileStore>(folder.path());
  }
  void put_snapshots(std::int64_t generation, std::int64_t last_step) const {
    for (std::int64_t step = 1; step <= last_step; ++step) {
      ASSERT_TRUE(storage::put_text(*open(), snapshot_key({.step = step, .generation = generation}), "{}"));
    }
  }

  const fakes::TemporaryFolder folder;
};

TEST_F(BesideSnapshots, RetentionAndListingsLeaveThemAlone) {
  put_snapshots(1, 40);
  TestRun first{open()};
  ASSERT_TRUE(first.restore());
  for (const std::int64_t step : {10, 20, 30, 40}) ASSERT_TRUE(first.save(step));
  put_snapshots(2, 50);
  TestRun second{open()};
  ASSERT_EQ(second.as_attempt(2).restore().value()->step, 40);
  ASSERT_TRUE(second.save(50));

  const auto inventory = take_inventory(*open());
  ASSERT_TRUE(inventory);
  EXPECT_EQ(inventory->present, (std::vector<CheckpointId>{{40, 1}, {50, 2}}));
  for (const auto& [key, bytes] : inventory->sizes) EXPECT_FALSE(key.starts_with(snapshots_prefix)) << key;
  EXPECT_EQ(open()->list(snapshots_prefix).value().size(), 90U);
}

TEST_F(BesideSnapshots, WhatAKilledRunWasWritingIsRemovedAndTheRestStays) {
  put_snapshots(1, 2);
  TestRun first{open()};
  ASSERT_TRUE(first.restore());
  ASSERT_TRUE(first.save(10));
  const fs::path snapshots = fs::path{folder.path()} / "snapshots";
  fs::create_directories(snapshots / "g-2");
  const auto torn = [&](const char* name) {
    std::ofstream{snapshots / name} << "torn";
    return snapshots / name;
  };
  const fs::path older = torn("g-1/.tmp-0");
  const fs::path own = torn("g-2/.tmp-0");
  const fs::path strange = torn(".tmp-0");
  TestRun second{open()};
  ASSERT_TRUE(second.as_attempt(2).restore());
  ASSERT_TRUE(second.save(20));
  EXPECT_FALSE(fs::exists(older));
  EXPECT_TRUE(fs::exists(own) && fs::exists(strange));
  EXPECT_EQ(open()->list(snapshots_prefix).value().size(), 2U);
}

}  // namespace
}  // namespace trainyard::checkpoint
