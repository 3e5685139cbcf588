#include "checkpoint/run/local_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "storage/file_store.hpp"
#include "tests/fakes/temporary_folder.hpp"

namespace trainyard::checkpoint {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

const Identity this_life{.job = "team/a", .job_uid = "uid-2", .attempt = 1, .fingerprint = "f"};

Identity life(const std::string& uid, const std::string& job = "team/a") {
  return {.job = job, .job_uid = uid, .attempt = 1, .fingerprint = "f"};
}

struct ALocalFolder : testing::Test {
  [[nodiscard]] std::string path() const { return folder.path() + "/local"; }
  [[nodiscard]] bool is_there(const std::string& name) const { return fs::exists(path() + "/" + name); }
  void write(const std::string& name) const {
    fs::create_directories(fs::path{path() + "/" + name}.parent_path());
    std::ofstream{path() + "/" + name} << "x";
  }
  /// A folder with a copy, a torn one and the rest of a write.
  void make(const Identity& identity) const {
    ASSERT_TRUE(mark_local_folder(path(), identity));
    write(identity.job_uid + "/step-5/g-1/manifest.json");
    write(identity.job_uid + "/step-5/g-1/rank-0.safetensors");
    write(identity.job_uid + "/step-6/g-1/.tmp-0123");
  }
  /// The time when every present file will be `age` old.
  static Time after(std::chrono::hours age) { return SystemClock{}.now() + age + 1min; }

  fakes::TemporaryFolder folder;
};

TEST_F(ALocalFolder, IsNamedAfterTheUid) {
  EXPECT_EQ(local_folder("/local", this_life), "/local/uid-2");
  const std::string longest = "Az_9-" + std::string(123, 'u');
  EXPECT_EQ(local_folder("/local", life(longest)), "/local/" + longest);
}

TEST_F(ALocalFolder, NeedsAUidThatNamesNoOtherPlace) {
  for (const std::string& uid : {std::string{}, std::string{".."}, std::string{"a/b"}, std::string{".hidden"},
                                 std::string{"a b"}, std::string(129, 'u')}) {
    const auto named = local_folder("/local", life(uid));
    ASSERT_FALSE(named) << uid;
    EXPECT_THAT(named.error().message, testing::HasSubstr("TRAINYARD_JOB_UID"));
  }
}

TEST_F(ALocalFolder, OfAnEarlierLifeIsRemovedOnceNothingHasChangedInItForADay) {
  make(life("uid-1"));
  make(this_life);
  remove_old_local_folders(path(), this_life, after(22h));
  EXPECT_TRUE(is_there("uid-1/step-5/g-1/manifest.json"));
  remove_old_local_folders(path(), this_life, after(24h));
  EXPECT_FALSE(is_there("uid-1"));
  EXPECT_TRUE(is_there("uid-2/step-5/g-1/manifest.json"));
}

TEST_F(ALocalFolder, OfAnEarlierLifeStaysWhileAnythingDeepInItChanges) {
  make(life("uid-1"));
  const auto two_days_ago = fs::file_time_type::clock::now() - 48h;
  const auto make_old = [&] {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator{path() + "/uid-1"})
      fs::last_write_time(entry, two_days_ago);
    fs::last_write_time(path() + "/uid-1", two_days_ago);
  };
  make_old();
  fs::last_write_time(path() + "/uid-1/step-5/g-1/rank-0.safetensors", fs::file_time_type::clock::now());
  remove_old_local_folders(path(), this_life, SystemClock{}.now());
  EXPECT_TRUE(is_there("uid-1/step-5/g-1/manifest.json"));
  make_old();
  remove_old_local_folders(path(), this_life, SystemClock{}.now());
  EXPECT_FALSE(is_there("uid-1"));
}

TEST_F(ALocalFolder, OfAnythingElseStays) {
  make(life("uid-3", "team/b"));
  make(life("uid-4", "other/a"));
  write("uid-5/step-5/g-1/manifest.json");  // No owner.json.
  make(life("uid-6"));
  fs::rename(path() + "/uid-6", path() + "/uid-7");  // owner.json names another folder.
  write("notes.txt");
  make(life("uid-8"));
  fs::create_directory_symlink(path() + "/uid-8", path() + "/uid-9");
  write("uid-8/notes.txt");
  remove_old_local_folders(path(), this_life, after(48h));
  for (const std::string name : {"uid-3/step-5", "uid-4/step-5", "uid-5/step-5", "uid-7/step-5", "notes.txt", "uid-9"})
    EXPECT_TRUE(fs::exists(fs::symlink_status(path() + "/" + name))) << name;
  EXPECT_TRUE(is_there("uid-8/notes.txt")) << "a file that is none of this_life";
  EXPECT_FALSE(is_there("uid-8/step-5"));
}

TEST_F(ALocalFolder, LeadsThroughNoLinkToWhatSomebodyElseHas) {
  make(life("uid-1"));
  const std::string other = folder.path() + "/other";
  fs::create_directories(other + "/g-1");
  std::ofstream{other + "/g-1/manifest.json"} << "theirs";
  fs::create_directory_symlink(other, path() + "/uid-1/step-7");
  fs::create_directory_symlink(other + "/g-1", path() + "/uid-1/step-5/g-2");
  remove_old_local_folders(path(), this_life, after(48h));
  EXPECT_TRUE(fs::exists(other + "/g-1/manifest.json"));
  EXPECT_FALSE(is_there("uid-1/step-5/g-1"));
  // No link that replaces the job's own folder is followed either.
  fs::create_directory_symlink(path() + "/uid-1", path() + "/uid-2");
  EXPECT_EQ(mark_local_folder(path(), this_life).error().kind, ErrorKind::invalid);
  fs::rename(other, path() + "/uid-1/step-8");
  remove_local_folder(path(), this_life);
  EXPECT_TRUE(is_there("uid-1/step-8/g-1/manifest.json"));
}

TEST_F(ALocalFolder, ThatIsNotThereIsNothingToRemove) {
  remove_old_local_folders(path(), this_life, after(48h));
  remove_local_folder(path(), this_life);
  EXPECT_FALSE(is_there(""));
}

TEST_F(ALocalFolder, IsRemovedWhenTheJobSucceeds) {
  make(this_life);
  make(life("uid-1"));
  remove_local_folder(path(), this_life);
  EXPECT_FALSE(is_there("uid-2"));
  EXPECT_TRUE(is_there("uid-1/step-5/g-1/manifest.json"));
}

TEST_F(ALocalFolder, CanBeMarkedAgain) {
  make(this_life);
  EXPECT_TRUE(mark_local_folder(path(), this_life));
}

TEST_F(ALocalFolder, ThatCannotBeMadeSaysSo) {
  write("uid-2");
  const auto marked = mark_local_folder(path(), this_life);
  ASSERT_FALSE(marked);
  EXPECT_NE(marked.error().message.find(path() + "/uid-2"), std::string::npos) << marked.error().message;
}

}  // namespace
}  // namespace trainyard::checkpoint
