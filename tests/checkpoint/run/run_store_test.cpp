// Runs over real stores: a folder, and a real S3 server.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>

#include "storage/file_store.hpp"
#include "tests/checkpoint/run/run_contract.hpp"
#include "tests/checkpoint/run/test_run.hpp"
#include "tests/checkpoint/run/two_writers.hpp"
#include "tests/fakes/fault_proxy.hpp"
#include "tests/fakes/gate.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/storage/s3_faults.hpp"
#include "tests/storage/s3_fixture.hpp"

namespace trainyard::checkpoint {
namespace {

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

TEST_F(InAFolder, WhatKilledRunsLeftIsRemovedAtTheFirstSaveOfTheNext) {
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
  // The older one pauses in the third save, before and after its manifest; the newer one loads, has claimed, or has
  // saved.
  for (const int older : {39, 41, 43, 45}) {
    for (const int newer : {8, 16, 99}) {
      SCOPED_TRACE(testing::Message() << "after step " << older << " until the newer one's step " << newer);
      TwoWriters writers{[&] { return open(server().port(), std::to_string(older) + "-" + std::to_string(newer)); }};
      writers.run({older, newer});
      writers.expect_all_is_well();
    }
  }
}

TEST_F(InS3, RanksPutOneObjectEachAndRetentionRemovesAllTheirFilesByOneRequest) {
  constexpr std::int64_t world_size = 100;
  std::atomic<int> puts = 0;
  std::atomic<int> puts_of_steps = 0;
  std::atomic<int> removals = 0;
  fakes::FaultProxy proxy{server().port(), [&](const fakes::ProxiedRequest& request) {
                            if (request.method == "PUT") {
                              ++puts;
                              if (request.target.find("step-") != std::string::npos) ++puts_of_steps;
                            }
                            if (storage::is_removal(request)) ++removals;
                            return fakes::Fault{};
                          }};
  on_ranks(
      world_size, [&] { return open(proxy.port()); },
      [&](TestRun& run) {
        run.large_rows = 1;
        run.tidies_up = false;
        ASSERT_TRUE(run.restore());
        for (const std::int64_t step : {10, 20, 30}) {
          const auto saved = run.save(step);
          ASSERT_TRUE(saved) << saved.error().message;
        }
        if (run.communicator->rank() == 0) run.tidy_up();
      });
  EXPECT_EQ(puts_of_steps, 3 * (world_size + 1));
  EXPECT_LE(puts, 3 * world_size * 11 / 10) << "with the claim and the records of the newest checkpoint";
  EXPECT_EQ(removals, 2) << "of the manifest, and then of the files";
  EXPECT_EQ(open(server().port())->list("step-").value().size(), static_cast<std::size_t>(2 * (world_size + 1)));
}

TEST_F(InS3, AStopDoesNotWaitForARemovalThatTheServerDoesNotAnswer) {
  fakes::Gate gate;
  fakes::FaultProxy proxy{server().port(), [&](const fakes::ProxiedRequest& request) {
                            if (!storage::is_removal(request)) return fakes::Fault{};
                            gate.open();
                            return fakes::Fault{.kind = fakes::Fault::Kind::stall};
                          }};
  TestRun run{open(proxy.port())};
  run.tidies_up = false;
  ASSERT_TRUE(run.restore());
  for (const std::int64_t step : {10, 20, 30}) ASSERT_TRUE(run.save(step));
  std::stop_source stop;
  const std::jthread stopper{[&] {
    gate.pass();
    stop.request_stop();
  }};
  const auto begun = std::chrono::steady_clock::now();
  run.tidy_up(stop.get_token());
  EXPECT_LT(std::chrono::steady_clock::now() - begun, tuning.http.stall_timeout) << "the store's own patience";
}

TEST_F(InS3, AWrongKeyOfOneRankEndsAllOfThemAndMayPass) {
  on_ranks(2, open_store, [this](TestRun& healthy) {
    storage::S3Config config = config_at(server().port());
    if (healthy.communicator->rank() == 1)
      config.credentials = storage::given_credentials({storage::Versitygw::access_key_id, "wrong", ""});
    TestRun run{std::make_unique<storage::S3Store>(config, tuning)};
    run.communicator = healthy.communicator;
    const auto restored = run.restore();
    ASSERT_FALSE(restored);
    EXPECT_EQ(restored.error().kind, ErrorKind::unavailable) << "only one rank was refused";
    EXPECT_NE(restored.error().message.find("rank 1: "), std::string::npos) << restored.error().message;
  });
}

}  // namespace
}  // namespace trainyard::checkpoint
