#include "cli/job_run.hpp"

#include <gtest/gtest.h>

#include "storage/file_store.hpp"
#include "tests/checkpoint/interchange/test_prefix.hpp"
#include "tests/fakes/temporary_folder.hpp"

namespace trainyard::cli {
namespace {

TEST(NewestCheckpoint, IsTheOneFromWhichARunWouldResume) {
  const fakes::TemporaryFolder folder;
  EXPECT_EQ(newest_checkpoint(folder.uri()), std::nullopt);
  checkpoint::TestPrefix prefix{std::make_unique<storage::FileStore>(folder.path())};
  prefix.claim(1);
  prefix.save({90, 1});
  prefix.save({200, 1});
  EXPECT_TRUE(newest_checkpoint(folder.uri(), "uid-a"));
  EXPECT_EQ(newest_checkpoint(folder.uri(), "uid-b"), std::nullopt) << "that of another job";
  std::filesystem::create_directories(folder.file("step-1000/g-1"));  // Without a manifest it was never completed.
  const auto newest = newest_checkpoint(folder.uri());
  ASSERT_TRUE(newest);
  EXPECT_EQ(newest->step, 200);
  EXPECT_EQ(newest->uri, folder.uri() + "/step-200/g-1");
  prefix.claim(2, checkpoint::CheckpointId{.step = 0, .generation = 0});
  EXPECT_EQ(newest_checkpoint(folder.uri()), std::nullopt) << "a run that began afresh";
  prefix.save({30, 2});
  const auto afresh = newest_checkpoint(folder.uri());
  ASSERT_TRUE(afresh);
  EXPECT_EQ(afresh->uri, folder.uri() + "/step-30/g-2");
}

TEST(NewestCheckpoint, IsUnknownWhereThereIsNoFolderToLookAt) {
  EXPECT_EQ(newest_checkpoint("s3://bucket/prefix"), std::nullopt);
  EXPECT_EQ(newest_checkpoint("file:///no/such/folder"), std::nullopt);
}

}  // namespace
}  // namespace trainyard::cli
