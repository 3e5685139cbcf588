#include "cli/job_run.hpp"

#include <gtest/gtest.h>

#include "tests/fakes/temporary_folder.hpp"

namespace trainyard::cli {
namespace {

TEST(NewestCheckpoint, IsTheHighestStepWithAManifest) {
  const fakes::TemporaryFolder folder;
  EXPECT_EQ(newest_checkpoint(folder.uri()), std::nullopt);
  for (const auto* generation : {"step-90/g-1", "step-200/g-1", "step-1000/g-2", "step-x/g-1", "other"}) {
    std::filesystem::create_directories(folder.file(generation));
  }
  for (const auto* manifest : {"step-90/g-1/manifest.json", "step-200/g-1/manifest.json", "step-x/g-1/manifest.json"}) {
    folder.write(manifest, "{}");
  }
  const auto newest = newest_checkpoint(folder.uri());
  ASSERT_TRUE(newest);
  EXPECT_EQ(newest->step, 200) << "step 1000 has no manifest: it was never completed";
  EXPECT_EQ(newest->uri, folder.uri() + "/step-200/g-1");
}

TEST(NewestCheckpoint, IsUnknownWhereThereIsNoFolderToLookAt) {
  EXPECT_EQ(newest_checkpoint("s3://bucket/prefix"), std::nullopt);
  EXPECT_EQ(newest_checkpoint("file:///no/such/folder"), std::nullopt);
}

}  // namespace
}  // namespace trainyard::cli
