// Runs over real stores: a folder, and a real S3 server.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>

#include "storage/file_store.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/storage/s3_fixture.hpp"
#include "tests/worker/checkpoint/core/test_run.hpp"
#include "tests/worker/checkpoint/core/two_writers.hpp"

namespace trainyard::checkpoint {
namespace {

using OpenStore = std::function<std::unique_ptr<storage::Store>()>;

void on_ranks(std::int64_t world_size, const OpenStore& open, const std::function<void(TestRun&)>& rank_main) {
  fakes::ThreadGroup group{world_size};
  group.run([&](dist::Communicator& communicator) {
    TestRun run{open()};
    run.communicator = &communicator;
    rank_main(run);
  });
}

void saves_resumes_and_tidies_up(const OpenStore& open) {
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
    EXPECT_TRUE((*restored)->is_complete);
    EXPECT_TRUE(run.holds_state_after(40));
  });
  const auto store = open();
  EXPECT_EQ(store->list("step-10/"), std::vector<storage::ObjectInfo>{});
  EXPECT_EQ(store->list("step-30/").value().size(), 7U);  // Data and receipt of each rank, and the manifest.
}

void fences_the_older_of_two_writers(const OpenStore& open) {
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

void gives_each_of_many_starters_a_generation(const OpenStore& open) {
  std::atomic<int> begun = 0;
  std::vector<std::jthread> starters;
  for (int i = 0; i < 5; ++i) {
    starters.emplace_back([&] {
      TestRun run{open()};
      const auto restored = run.restore();
      if (restored) ++begun;
      // One that a later one overtook, while it began, is fenced.
      EXPECT_TRUE(restored || restored.error().kind == ErrorKind::conflict) << restored.error().message;
    });
  }
  starters.clear();
  EXPECT_GE(begun, 1);
  EXPECT_EQ(open()->list("generations/").value().size(), 5U);
}

class InAFolder : public testing::Test {
 protected:
  fakes::TemporaryFolder folder;
  OpenStore open = [this] { return std::make_unique<storage::FileStore>(folder.path() + "/run"); };
};

TEST_F(InAFolder, ARunSavesResumesAndTidiesUp) {
  saves_resumes_and_tidies_up(open);
}
TEST_F(InAFolder, TheOlderOfTwoWritersIsFenced) {
  fences_the_older_of_two_writers(open);
}
TEST_F(InAFolder, EachOfManyStartersGetsAGeneration) {
  gives_each_of_many_starters_a_generation(open);
}

TEST_F(InAFolder, WhatKilledRunsLeftGoesWithTheFirstSaveOfTheNext) {
  TestRun killed{open()};
  ASSERT_TRUE(killed.restore());
  ASSERT_TRUE(killed.save(10));
  const std::filesystem::path root{folder.path() + "/run"};
  std::filesystem::create_directories(root / "step-20/g-1");
  std::ofstream{root / "step-20/g-1/.tmp-1"} << "torn";

  TestRun next{open()};
  ASSERT_TRUE(next.as_attempt(2).restore());
  std::filesystem::create_directories(root / "step-20/g-2");
  std::ofstream{root / "step-20/g-2/.tmp-2"} << "being written";
  ASSERT_TRUE(next.save(20));
  EXPECT_FALSE(std::filesystem::exists(root / "step-20/g-1"));
  EXPECT_TRUE(std::filesystem::exists(root / "step-20/g-2/.tmp-2"));
}

TEST_F(InAFolder, AFolderThatCannotBeIsRefused) {
  TestRun run{std::make_unique<storage::FileStore>("/proc/version/run")};
  const auto probed = run.store().probe();
  ASSERT_FALSE(probed);
  EXPECT_EQ(probed.error().kind, ErrorKind::invalid) << probed.error().message;
}

class InS3 : public storage::S3Fixture {
 protected:
  OpenStore open_store = [this] { return open(server().port()); };
};

TEST_F(InS3, ARunSavesResumesAndTidiesUp) {
  saves_resumes_and_tidies_up(open_store);
}
TEST_F(InS3, TheOlderOfTwoWritersIsFenced) {
  fences_the_older_of_two_writers(open_store);
}
TEST_F(InS3, EachOfManyStartersGetsAGeneration) {
  gives_each_of_many_starters_a_generation(open_store);
}

TEST_F(InS3, AnOlderWriterThatWakesUpLateHarmsNothing) {
  // It stands still in the third save, before and after its manifest; the newer one loads, has claimed, or has saved.
  for (const int older : {31, 33, 35, 37}) {
    for (const int newer : {8, 16, 99}) {
      SCOPED_TRACE(testing::Message() << "after step " << older << " until the newer one's step " << newer);
      TwoWriters writers{[&] { return open(server().port(), std::to_string(older) + "-" + std::to_string(newer)); }};
      writers.run({older, newer});
      writers.expect_all_is_well();
    }
  }
}

TEST_F(InS3, AWrongKeyOfOneRankEndsAllOfThem) {
  on_ranks(2, open_store, [this](TestRun& healthy) {
    storage::S3Config config = config_at(server().port());
    if (healthy.communicator->rank() == 1)
      config.credentials = storage::given_credentials({storage::Versitygw::access_key_id, "wrong", ""});
    TestRun run{std::make_unique<storage::S3Store>(config, tuning)};
    run.communicator = healthy.communicator;
    const auto restored = run.restore();
    ASSERT_FALSE(restored);
    EXPECT_EQ(restored.error().kind, ErrorKind::unauthorized);
    EXPECT_NE(restored.error().message.find("rank 1: "), std::string::npos) << restored.error().message;
  });
}

}  // namespace
}  // namespace trainyard::checkpoint
