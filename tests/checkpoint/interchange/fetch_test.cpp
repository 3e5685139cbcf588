#include "checkpoint/interchange/fetch.hpp"

#include <gmock/gmock.h>

#include <filesystem>

#include "storage/file_store.hpp"
#include "tests/checkpoint/interchange/test_prefix.hpp"
#include "tests/checkpoint/run/test_run.hpp"
#include "tests/fakes/temporary_folder.hpp"

namespace trainyard::checkpoint {
namespace {

using testing::HasSubstr;

class Fetch : public MemoryPrefix {
 protected:
  const fakes::TemporaryFolder folder;
  const std::string target = folder.path() + "/copy";

  Result<std::uint64_t> fetch_to(const Manifest& manifest, const std::string& to) {
    return fetch(prefix.store(), prefix.inventory(), manifest, to);
  }
  std::size_t file_count() {
    return static_cast<std::size_t>(std::distance(std::filesystem::recursive_directory_iterator{folder.path()}, {}));
  }
  // Opens the copied folder.
  [[nodiscard]] std::unique_ptr<storage::Store> open() const { return std::make_unique<storage::FileStore>(target); }
};

TEST_F(Fetch, MakesAPrefixFromWhichAnyJobOfThatModelResumes) {
  prefix.claim(1).save({10, 1});
  prefix.claim(2, CheckpointId{10, 1});
  const Manifest manifest = prefix.save({20, 2}, 3);
  const auto bytes = fetch_to(manifest, target);
  ASSERT_TRUE(bytes) << bytes.error().message;
  EXPECT_EQ(*bytes, data_bytes(manifest));

  TestRun run{open()};
  const auto restored = run.as_job("b").restore();
  ASSERT_TRUE(restored && *restored);
  EXPECT_EQ((*restored)->step, 20);
  EXPECT_TRUE(run.holds_state_after(20));
  ASSERT_TRUE(run.save(30));
  TestRun next{open()};
  EXPECT_EQ(next.as_job("b").as_attempt(2).restore().value()->step, 30);
}

TEST_F(Fetch, OneWhoseClaimIsLostGetsAClaim) {
  prefix.claim(1);
  const Manifest manifest = prefix.save({20, 1});
  ASSERT_TRUE(prefix.store().remove(claim_key(1)));
  ASSERT_TRUE(fetch_to(manifest, target));
  TestRun run{open()};
  EXPECT_EQ(run.as_job("b").restore().value()->step, 20);
  EXPECT_TRUE(run.save(20, true));  // In a generation of its own.
}

TEST_F(Fetch, LeavesNothingOfADamagedOne) {
  const Manifest manifest = prefix.claim(1).save({20, 1}, 2);
  prefix.flip(data_key(CheckpointId{20, 1}, 1), -1);
  auto failed = fetch_to(manifest, target);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, ErrorKind::corrupt);
  EXPECT_THAT(failed.error().message, HasSubstr("rank-1.safetensors is damaged"));
  ASSERT_TRUE(prefix.store().remove(data_key(CheckpointId{20, 1}, 1)));
  EXPECT_EQ(fetch_to(manifest, target).error().kind, ErrorKind::not_found);
  EXPECT_EQ(file_count(), 0U);
}

TEST_F(Fetch, ReplacesAnEmptyFolderAndNoOther) {
  const Manifest manifest = prefix.claim(1).save({20, 1});
  std::filesystem::create_directories(target);
  EXPECT_TRUE(fetch_to(manifest, target));
  const std::size_t count = file_count();
  EXPECT_EQ(fetch_to(manifest, target).error().kind, ErrorKind::already_exists);
  folder.write("file", "text");
  EXPECT_EQ(fetch_to(manifest, folder.file("file").string()).error().kind, ErrorKind::already_exists);
  folder.write("empty file", "");
  EXPECT_EQ(fetch_to(manifest, folder.file("empty file").string()).error().kind, ErrorKind::already_exists);
  EXPECT_FALSE(fetch_to(manifest, folder.file("file/below").string()));
  EXPECT_EQ(file_count(), count + 2);
}

}  // namespace
}  // namespace trainyard::checkpoint
