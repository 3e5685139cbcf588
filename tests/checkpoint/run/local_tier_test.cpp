#include "checkpoint/run/local_tier.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "tests/checkpoint/run/local_nodes.hpp"
#include "tests/fakes/faulty_store.hpp"

namespace trainyard::checkpoint {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> objects_in(const fakes::MemoryObjects& folder) {
  std::vector<std::string> keys;
  for (const auto& [key, content] : folder.objects) keys.push_back(key);
  return keys;
}

// Four ranks on three nodes, with step 10 in the remote store and copies of step 20.
struct ALocalTier : testing::Test {
  void SetUp() override { train(/*remote_step=*/10, /*copied_step=*/20); }

  void train(std::int64_t remote_step, std::int64_t copied_step, std::int64_t attempt = 1) {
    nodes.run(attempt, [&](TestRun& run) {
      ASSERT_TRUE(run.restore());
      if (remote_step > 0) {
        ASSERT_TRUE(run.save(remote_step));
      }
      const auto failures = run.save_copies(copied_step);
      ASSERT_TRUE(failures);
      EXPECT_EQ(*failures, "");
    });
  }

  LocalNodes nodes{{0, 1, 1, 2}, 3};
};

TEST_F(ALocalTier, KeepsOneWholeCheckpointOfTheUsualFormOnEachNode) {
  for (const auto& folder : nodes.folders) {
    EXPECT_THAT(objects_in(*folder), ElementsAre("step-20/g-1/manifest.json", data_key_in(*folder, {20, 1}, 0),
                                                 data_key_in(*folder, {20, 1}, 1), data_key_in(*folder, {20, 1}, 2),
                                                 data_key_in(*folder, {20, 1}, 3)));
  }
}

TEST_F(ALocalTier, IsWhatARestartResumesFromIfItIsNewer) {
  nodes.expect_resumes(2, 20, /*is_local=*/true);
}

TEST_F(ALocalTier, GivesWayToANewerRemoteCheckpoint) {
  nodes.run(2, [](TestRun& run) {
    ASSERT_TRUE(run.restore());
    ASSERT_TRUE(run.save(30));
  });
  nodes.expect_resumes(3, 30, /*is_local=*/false);
}

TEST_F(ALocalTier, LosesNothingThatAnyRemainingNodeHolds) {
  const auto remote = nodes.remote.objects;
  std::vector<decltype(fakes::MemoryObjects::objects)> copies;
  for (const auto& folder : nodes.folders) copies.push_back(folder->objects);
  for (unsigned lost = 0; lost < 8; ++lost) {
    SCOPED_TRACE(lost);
    nodes.remote.objects = remote;
    for (std::size_t node = 0; node < 3; ++node) {
      nodes.folders[node]->objects = copies[node];
      if ((lost >> node & 1U) != 0) nodes.lose(node);
    }
    nodes.expect_resumes(2, lost == 7 ? 10 : 20, lost != 7);
  }
}

TEST_F(ALocalTier, IsReadFromTheOtherNodesIfOneIsDamaged) {
  const auto remote = nodes.remote.objects;
  const auto whole = nodes.folders[1]->objects;
  for (const auto& [key, content] : whole) {
    for (const std::string how : {"gone", "torn", "changed", "empty"}) {
      SCOPED_TRACE(key + " is " + how);
      nodes.remote.objects = remote;
      for (const auto& folder : nodes.folders) folder->objects = whole;
      auto& object = nodes.folders[1]->objects.at(key);
      if (how == "torn") object.resize(object.size() / 2);
      if (how == "changed") object[object.size() / 2] ^= std::byte{1};
      if (how == "empty") object.clear();
      if (how == "gone") nodes.folders[1]->objects.erase(key);
      nodes.expect_resumes(2, 20, true);
    }
  }
}

TEST_F(ALocalTier, GivesWayToTheRemoteCheckpointIfAllNodesAreDamaged) {
  for (const auto& folder : nodes.folders) folder->objects.at(data_key_in(*folder, {20, 1}, 0)).back() ^= std::byte{1};
  nodes.expect_resumes(2, 10, false);
}

TEST_F(ALocalTier, LeavesTheStateUnchangedIfItIsDamagedAndThereIsNoOther) {
  std::erase_if(nodes.remote.objects, [](const auto& object) { return object.first.starts_with("step-"); });
  for (const auto& folder : nodes.folders) folder->objects.at(data_key_in(*folder, {20, 1}, 0)).back() ^= std::byte{1};
  nodes.expect_resumes(2, 0);
}

TEST_F(ALocalTier, AloneIsEnoughToResumeFrom) {
  std::erase_if(nodes.remote.objects, [](const auto& object) { return object.first.starts_with("step-"); });
  nodes.expect_resumes(2, 20, true);
}

TEST_F(ALocalTier, IsSupersededOnceARunHasResumedFromAnEarlierStep) {
  std::vector<decltype(fakes::MemoryObjects::objects)> yesterdays;
  for (const auto& folder : nodes.folders) yesterdays.push_back(folder->objects);
  for (std::size_t node = 0; node < 3; ++node) nodes.lose(node);
  train(/*remote_step=*/0, /*copied_step=*/15, /*attempt=*/2);  // Resumes from 10.
  nodes.folders[0]->objects = yesterdays[0];
  nodes.expect_resumes(3, 15, true);
}

TEST_F(ALocalTier, OfAnotherPlaceHasNoCandidate) {
  nodes.remote.objects.clear();
  nodes.run(2, [](TestRun& run) {
    ASSERT_TRUE(run.restore());
    ASSERT_TRUE(run.save(5));
  });
  nodes.expect_resumes(3, 5, false);
}

TEST_F(ALocalTier, OfAnotherLifeOfTheJobHasNoCandidate) {
  nodes.run(1, [](TestRun& run) {
    run.identity.job_uid = "uid-of-the-next-life";
    const auto restored = run.restore();
    ASSERT_TRUE(restored && *restored);
    EXPECT_EQ((*restored)->step, 10);
  });
}

TEST_F(ALocalTier, IsClearedOfSupersededCopies) {
  for (const auto& folder : nodes.folders) folder->objects.at(data_key_in(*folder, {20, 1}, 0)).clear();
  nodes.expect_resumes(2, 10, false);
  for (const auto& folder : nodes.folders) EXPECT_THAT(objects_in(*folder), ElementsAre());
}

TEST_F(ALocalTier, KeepsAsManyCopiesAsTheSpecSays) {
  nodes.keep = 2;
  nodes.run(2, [](TestRun& run) {
    ASSERT_TRUE(run.restore());
    for (const std::int64_t step : {30, 40, 50}) ASSERT_TRUE(run.save_copies(step));
  });
  for (const auto& folder : nodes.folders) {
    EXPECT_TRUE(folder->objects.contains("step-40/g-2/manifest.json"));
    EXPECT_TRUE(folder->objects.contains("step-50/g-2/manifest.json"));
    EXPECT_EQ(folder->objects.size(), 10U);
  }
}

TEST_F(ALocalTier, KeepsItsOwnCopyAndNotALaterStepOfAnOlderRun) {
  const fakes::MemoryObjects& folder = *nodes.folders[0];
  const auto of_the_older_run = folder.objects;
  for (std::size_t node = 0; node < 3; ++node) nodes.lose(node);
  nodes.run(2, [&](TestRun& run) {
    ASSERT_TRUE(run.restore());  // From step 10.
    // The older run still lives, and writes its copy after this one has cleared the folder.
    if (run.communicator->rank() == 0) nodes.folders[0]->objects = of_the_older_run;
    ASSERT_TRUE(run.save_copies(15));
  });
  EXPECT_THAT(objects_in(folder),
              ElementsAre("step-15/g-2/manifest.json", data_key_in(folder, {15, 2}, 0), data_key_in(folder, {15, 2}, 1),
                          data_key_in(folder, {15, 2}, 2), data_key_in(folder, {15, 2}, 3)));
}

TEST_F(ALocalTier, IsNotTouchedByAnOlderRunThatStillLives) {
  nodes.run(2, [&](TestRun& old) {
    ASSERT_TRUE(old.restore());
    if (old.communicator->rank() == 0) {
      train(/*remote_step=*/0, /*copied_step=*/25, /*attempt=*/3);
    }
    ASSERT_TRUE(old.save_copies(40));
  });
  nodes.expect_resumes(4, 25, true);
}

TEST_F(ALocalTier, ThatIsFullOnOneNodeIsWholeOnTheOthersAndStopsNothing) {
  nodes.open_local = [this](std::int64_t rank) -> std::unique_ptr<storage::Store> {
    auto store = std::make_unique<fakes::MemoryStore>(nodes.folder_of(rank));
    if (&nodes.folder_of(rank) != nodes.folders[1].get()) return store;
    return std::make_unique<fakes::FaultyStore>(
        std::move(store), [](std::string_view call, std::string_view key, auto) -> std::optional<Error> {
          if (call != "put" || key.find("/rank-2-") == std::string_view::npos) return std::nullopt;
          return Error{ErrorKind::io, "no space left on device", std::nullopt};
        });
  };
  nodes.run(2, [](TestRun& run) {
    ASSERT_TRUE(run.restore());
    const auto failures = run.save_copies(30);
    ASSERT_TRUE(failures);
    EXPECT_THAT(*failures, HasSubstr("rank 1: no space left on device"));
    ASSERT_TRUE(run.save(25));
  });
  EXPECT_THAT(objects_in(*nodes.folders[1]), testing::Not(testing::Contains(HasSubstr("step-30"))))
      << "what is left of it would fill the disk";
  nodes.expect_resumes(3, 30, true);
}

TEST_F(ALocalTier, ThatCannotBeListedIsLeftOut) {
  nodes.open_local = [](std::int64_t) {
    return std::make_unique<fakes::FaultyStore>(nullptr, [](auto, auto, auto) {
      return Error{ErrorKind::io, "Input/output error", std::nullopt};
    });
  };
  nodes.expect_resumes(2, 10, false);
}

TEST_F(ALocalTier, RefusesShardedState) {
  nodes.run(2, [](TestRun& run) {
    run.extend = [rank = static_cast<std::uint64_t>(run.communicator->rank())](TestState& state) {
      state.add_sharded("embedding", "F32", {8, 2}, 4, {2 * rank, 2 * rank + 2});
    };
    const auto restored = run.restore();
    ASSERT_FALSE(restored);
    EXPECT_EQ(restored.error().kind, ErrorKind::invalid);
    EXPECT_THAT(restored.error().message, HasSubstr("checkpoint.local cannot keep embedding"));
  });
}

TEST(ALocalTierOfMoreRanks, GivesTheNewOnesFreshGenerators) {
  LocalNodes few{{0, 0}, 1};
  few.run(1, [](TestRun& run) {
    ASSERT_TRUE(run.restore());
    ASSERT_TRUE(run.save_copies(20));
  });
  LocalNodes more{{0, 1, 1}, 2};
  more.remote.objects = few.remote.objects;
  more.folders[0]->objects = few.folders[0]->objects;
  more.run(2, [](TestRun& run) {
    const auto restored = run.restore();
    ASSERT_TRUE(restored && *restored) << restored.error().message;
    EXPECT_EQ((*restored)->world_size, 2);
    EXPECT_EQ(run.holds_state_after(20), run.communicator->rank() < 2);
    // A rank that the checkpoint does not have keeps its own entries.
    const auto generator_of = [](const TestState& state) {
      const auto found =
          std::ranges::find(state.entries(), "rng.cpu", [](const auto& entry) { return entry.info.name; });
      return std::vector<std::byte>{found->bytes.begin(), found->bytes.end()};
    };
    const std::int64_t step = run.communicator->rank() < 2 ? 20 : -1;
    EXPECT_EQ(generator_of(run.state), generator_of(run.make_state(step)));
  });
}

TEST(ALocalTierOfSeveralRanksANode, LeavesOutTheCopyThatARankBesideItsKeeperCannotRead) {
  LocalNodes nodes{{0, 0, 1}, 2};
  nodes.run(1, [](TestRun& run) {
    ASSERT_TRUE(run.restore());
    ASSERT_TRUE(run.save_copies(20));
  });
  nodes.open_local = [&](std::int64_t rank) -> std::unique_ptr<storage::Store> {
    auto store = std::make_unique<fakes::MemoryStore>(nodes.folder_of(rank));
    if (rank != 1) return store;
    return std::make_unique<fakes::FaultyStore>(
        std::move(store), [](std::string_view call, std::string_view key, auto) -> std::optional<Error> {
          if (call != "get" || !key.ends_with("manifest.json")) return std::nullopt;
          return Error{ErrorKind::io, "Input/output error", std::nullopt};
        });
  };
  nodes.expect_resumes(2, 20, true);
}

TEST(ALargeLocalTier, BroadcastsAStateThatOneMessageDoesNotHold) {
  LocalNodes nodes{{0, 1}, 2};
  nodes.large_rows = 40'000;  // 40 MiB
  nodes.run(1, [](TestRun& run) {
    ASSERT_TRUE(run.restore());
    ASSERT_TRUE(run.save_copies(20));
  });
  nodes.lose(0);
  nodes.expect_resumes(2, 20, true);
}

}  // namespace
}  // namespace trainyard::checkpoint
