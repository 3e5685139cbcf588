// Symbolic links and other foreign files below a file store's folder have no effect; files and folders get the
// permissions that they should.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "storage/file_store.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/storage/environment_table.hpp"
#include "tests/storage/store_contract.hpp"

namespace trainyard::storage {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

/// A store at run/, and another user's file in other/step-1/a.
class AFileStoreWithLinks : public testing::Test {
 protected:
  AFileStoreWithLinks() {
    fs::create_directories(other / "step-1");
    std::ofstream{other / "step-1/a"} << "theirs";
    fs::create_directories(root);
  }
  static std::string text_in(const fs::path& path) {
    std::ifstream file{path};
    return {std::istreambuf_iterator<char>{file}, {}};
  }

  fakes::TemporaryFolder folder;
  const fs::path root{folder.path() + "/run"};
  const fs::path other{folder.path() + "/other"};
  FileStore file_store{root.native()};
  Store& store = file_store;
};

TEST_F(AFileStoreWithLinks, ListsNeitherLinksNorWhatIsBehindThem) {
  ASSERT_TRUE(put_text(store, "step-2/b", "x"));
  fs::create_directory_symlink(other / "step-1", root / "step-1");
  fs::create_symlink(other / "step-1/a", root / "step-2/a");
  fs::create_symlink("loop", root / "step-2/loop");
  fs::create_directory_symlink("..", root / "step-2/up");
  EXPECT_EQ(store.list(""), (std::vector<ObjectInfo>{{"step-2/b", 1}}));
  EXPECT_EQ(store.list("step-1/"), std::vector<ObjectInfo>{});
  EXPECT_EQ(store.list("step-2/up/step-2/"), std::vector<ObjectInfo>{});
}

TEST_F(AFileStoreWithLinks, ReachesNothingThroughThem) {
  fs::create_directory_symlink(other / "step-1", root / "step-1");
  fs::create_directories(root / "step-2");
  fs::create_symlink(other / "step-1/a", root / "step-2/a");
  const auto expect_refused = [](const auto& done) {
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().kind, ErrorKind::invalid) << done.error().message;
    EXPECT_THAT(done.error().message, HasSubstr("symbolic link"));
  };
  std::vector<std::byte> some(2);
  for (const char* key : {"step-1/a", "step-2/a"}) {
    expect_refused(store.get(key));
    expect_refused(store.get_range(key, 0, some));
  }
  expect_refused(put_text(store, "step-1/new", "x"));
  expect_refused(put_text(store, "step-1/new", "x", {.if_absent = true}));
  expect_refused(store.remove("step-1/a"));
  expect_refused(file_store.temporary_path("step-1/new"));
  EXPECT_EQ(text_in(other / "step-1/a"), "theirs");
  EXPECT_EQ(std::distance(fs::directory_iterator{other / "step-1"}, {}), 1);
}

TEST_F(AFileStoreWithLinks, DoesNotCallAFileInAFoldersPlaceALink) {
  ASSERT_TRUE(put_text(store, "step-1", "x"));
  const auto put = put_text(store, "step-1/a", "x");
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().kind, ErrorKind::invalid);
  EXPECT_THAT(put.error().message, testing::AllOf(HasSubstr("choose another folder"), Not(HasSubstr("symbolic"))));
}

TEST_F(AFileStoreWithLinks, PutsAnObjectInALinksPlaceAndRemovesALinkItself) {
  for (const char* key : {"step-1/a", "step-1/b"}) {
    fs::create_directories(root / "step-1");
    fs::create_symlink(other / "step-1/a", root / key);
  }
  EXPECT_EQ(put_text(store, "step-1/a", "ours", {.if_absent = true}).error().kind, ErrorKind::already_exists);
  ASSERT_TRUE(put_text(store, "step-1/a", "ours"));
  ASSERT_TRUE(store.remove("step-1/b"));
  EXPECT_EQ(get_text(store, "step-1/a"), "ours");
  EXPECT_EQ(text_in(other / "step-1/a"), "theirs");
  EXPECT_FALSE(fs::exists(fs::symlink_status(root / "step-1/b")));
}

TEST_F(AFileStoreWithLinks, LeavesWhatDeadWritersLeftBehindThem) {
  std::ofstream{other / "step-1/.tmp-1"} << "torn";
  fs::create_directory_symlink(other / "step-1", root / "step-1");
  ASSERT_TRUE(store.remove_unfinished([](std::string_view) { return true; }));
  EXPECT_TRUE(fs::exists(other / "step-1/.tmp-1"));
}

TEST_F(AFileStoreWithLinks, FollowsTheOneThatIsItsOwnFolderUnlessItMayBeNone) {
  fs::create_directory_symlink(root, folder.path() + "/link");
  FileStore through_link{folder.path() + "/link"};
  contract::gives_back_what_was_put(through_link);
  EXPECT_TRUE(fs::exists(root / "a/b"));
  FileStore strict{folder.path() + "/link", {.modes = {}, .may_be_link = false}};
  EXPECT_EQ(strict.list("").error().kind, ErrorKind::invalid);
  EXPECT_EQ(strict.get("a/b").error().kind, ErrorKind::invalid);
  EXPECT_EQ(strict.remove("a/b").error().kind, ErrorKind::invalid);
  EXPECT_THAT(put_text(strict, "a/c", "x").error().message, HasSubstr("symbolic link"));
  EXPECT_TRUE(fs::exists(root / "a/b"));
  FileStore plain{root.native(), {.modes = {}, .may_be_link = false}};
  EXPECT_TRUE(put_text(plain, "a/c", "x"));
}

TEST_F(AFileStoreWithLinks, IsNotHeldUpByAPipe) {
  ASSERT_EQ(::mkfifo((root / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(store.list(""), std::vector<ObjectInfo>{});
  EXPECT_EQ(store.get("pipe").error().kind, ErrorKind::invalid);
}

mode_t mode_of(const fs::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? status.st_mode & 07777U : 0;
}

TEST_F(AFileStoreWithLinks, MakesFilesForItsOwnerAloneUnlessAskedOtherwise) {
  const mode_t umask_before = ::umask(0022);
  FileStore own{folder.path() + "/own/run"};
  FileStore shared{folder.path() + "/shared/run", {.modes = {.file = 0660, .folder = 0770}, .may_be_link = true}};
  EXPECT_TRUE(put_text(own, "a/b", "x") && put_text(shared, "a/b", "x"));
  ::umask(umask_before);
  for (const char* made : {"own", "own/run", "own/run/a"}) EXPECT_EQ(mode_of(fs::path{folder.path()} / made), 0700U);
  EXPECT_EQ(mode_of(folder.path() + "/own/run/a/b"), 0600U);
  for (const char* made : {"shared", "shared/run", "shared/run/a"})
    EXPECT_EQ(mode_of(fs::path{folder.path()} / made), 0770U) << made;
  EXPECT_EQ(mode_of(folder.path() + "/shared/run/a/b"), 0660U);
}

TEST_F(AFileStoreWithLinks, KeepsTheGroupThatAFolderGivesToWhatIsMadeInIt) {
  fs::permissions(root, static_cast<fs::perms>(02770));
  FileStore shared{root.native(), {.modes = {.file = 0660, .folder = 0770}, .may_be_link = true}};
  ASSERT_TRUE(put_text(shared, "a/b", "x"));
  EXPECT_EQ(mode_of(root / "a"), 02770U);
}

TEST(FileModes, AreReadFromTheEnvironment) {
  struct Row {
    std::string text;
    mode_t file;
    mode_t folder;
  };
  for (const Row& row : {Row{"", 0600, 0700},
                         {"0600", 0600, 0700},
                         {"660", 0660, 0770},
                         {"0640", 0640, 0750},
                         {"0644", 0644, 0755},
                         {"0666", 0666, 0777},
                         {"0620", 0620, 0720}}) {
    const auto modes = file_modes(environment_of({{"TRAINYARD_FILE_MODE", row.text}}));
    ASSERT_TRUE(modes) << row.text;
    EXPECT_EQ(modes->file, row.file) << row.text;
    EXPECT_EQ(modes->folder, row.folder) << row.text;
  }
  for (const char* text : {"rw", "0440", "0755", "0060", "1600", "0688", "0601", "-600", "0600 "}) {
    const auto modes = file_modes(environment_of({{"TRAINYARD_FILE_MODE", text}}));
    ASSERT_FALSE(modes) << text;
    EXPECT_EQ(modes.error().kind, ErrorKind::invalid);
    EXPECT_THAT(modes.error().message, HasSubstr("0660 for a group"));
  }
}

}  // namespace
}  // namespace trainyard::storage
