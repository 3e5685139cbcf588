#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "storage/file_store.hpp"
#include "tests/checkpoint/interchange/test_prefix.hpp"
#include "tests/checkpoint/snapshot/unencoded_snapshots.hpp"
#include "tests/fakes/temporary_folder.hpp"

namespace trainyard::cli {

/// A folder in which two runs have left checkpoints and snapshots: the second resumed from step 20 of the first.
class ShelfFolder : public testing::Test {
 protected:
  const fakes::TemporaryFolder folder;
  checkpoint::TestPrefix prefix{std::make_unique<storage::FileStore>(folder.path() + "/run")};

  void SetUp() override {
    prefix.claim(1);
    prefix.save({20, 1});
    for (const std::int64_t step : {10, 20, 30}) put({step, 1});
    prefix.claim(2, checkpoint::CheckpointId{20, 1});
    put({30, 2});
  }

  /// A snapshot with a loss of its step and an image.
  void put(const snapshot::SnapshotId& id) {
    snapshot::UnencodedSnapshot unencoded = snapshot::an_unencoded(id.step, id.generation);
    unencoded.points.front().value = static_cast<double>(id.generation);
    unencoded.images = {snapshot::an_image("val/a", id.step)};
    ASSERT_TRUE(storage::put_text(prefix.store(), checkpoint::snapshot_key(id),
                                  snapshot::to_text(snapshot::encode(unencoded).snapshot)));
  }
  [[nodiscard]] std::string uri() const { return folder.uri() + "/run"; }
};

}  // namespace trainyard::cli
