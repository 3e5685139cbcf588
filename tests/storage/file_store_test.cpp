#include "storage/file_store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "tests/fakes/temporary_folder.hpp"
#include "tests/storage/store_contract.hpp"

namespace trainyard::storage {
namespace {

using testing::HasSubstr;

struct AFileStore : testing::Test {
  fakes::TemporaryFolder folder;
  FileStore file_store{folder.path() + "/made/when/needed"};
  Store& store = file_store;
};

TEST_F(AFileStore, GivesBackWhatWasPut) {
  contract::gives_back_what_was_put(store);
}
TEST_F(AFileStore, SaysWhatIsNotThere) {
  contract::says_what_is_not_there(store);
}
TEST_F(AFileStore, ReportsAnObjectThatEndsTooEarly) {
  contract::reports_an_object_that_ends_too_early(store);
}
TEST_F(AFileStore, ListsByPrefixInOrder) {
  contract::lists_by_prefix_in_order(store);
}
TEST_F(AFileStore, CreatesAnObjectForOneWriterOnly) {
  contract::creates_an_object_for_one_writer_only(store);
}
TEST_F(AFileStore, RemovesMany) {
  contract::removes_many(store);
}
TEST_F(AFileStore, RefusesKeysThatLeadElsewhere) {
  contract::refuses_keys_that_lead_elsewhere(store);
}

TEST_F(AFileStore, WritesObjectsOfManyPieces) {
  const std::vector<std::byte> content = contract::some_bytes(1000);
  std::vector<std::span<const std::byte>> pieces;
  for (std::size_t i = 0; i < content.size(); ++i) pieces.push_back(std::span{content}.subspan(i, 1));
  ASSERT_TRUE(store.put("many", pieces));
  EXPECT_EQ(store.get("many"), content);
}

TEST_F(AFileStore, NeverListsTemporaryFilesOfADeadWriter) {
  ASSERT_TRUE(put_text(store, "step-1/a", "x"));
  std::ofstream{folder.path() + "/made/when/needed/step-1/.tmp-0123456789abcdef"} << "torn";
  EXPECT_EQ(contract::keys_of(store.list("").value()), std::vector<std::string>{"step-1/a"});
}

TEST_F(AFileStore, RemovesWhatADeadWriterLeftOnlyInFoldersThatTheCallerPicks) {
  ASSERT_TRUE(put_text(store, "step-1/a", "x"));
  ASSERT_TRUE(put_text(store, "step-2/a", "x"));
  const std::filesystem::path root{folder.path() + "/made/when/needed"};
  std::filesystem::create_directories(root / "step-3/g-1");
  const char* const left[] = {".tmp-0", "step-1/.tmp-1", "step-2/.tmp-2", "step-3/g-1/.tmp-3", "step-1/.other"};
  for (const char* name : left) std::ofstream{root / name} << "torn";
  std::vector<std::string> asked;
  ASSERT_TRUE(store.remove_unfinished([&](std::string_view where) {
    asked.emplace_back(where);
    return where != "step-2";
  }));
  EXPECT_THAT(asked, testing::UnorderedElementsAre("step-1", "step-2", "step-3/g-1"));
  std::vector<std::string> there;
  for (const char* name : left) {
    if (std::filesystem::exists(root / name)) there.emplace_back(name);
  }
  EXPECT_EQ(there, (std::vector<std::string>{".tmp-0", "step-2/.tmp-2", "step-1/.other"}));
  EXPECT_FALSE(std::filesystem::exists(root / "step-3")) << "a folder that this leaves empty goes too";
  EXPECT_EQ(contract::keys_of(store.list("").value()), (std::vector<std::string>{"step-1/a", "step-2/a"}));
}

TEST_F(AFileStore, ListsByThePrefixThatIsAskedFor) {
  for (const char* key : {"step-1/g-1/a", "step-10/b", "snapshots/g-1/step-1.json", "ste"}) {
    ASSERT_TRUE(put_text(store, key, "x"));
  }
  EXPECT_EQ(contract::keys_of(store.list("step-1/").value()), std::vector<std::string>{"step-1/g-1/a"});
  EXPECT_EQ(contract::keys_of(store.list("step-").value()), (std::vector<std::string>{"step-1/g-1/a", "step-10/b"}));
  EXPECT_EQ(contract::keys_of(store.list("step-10/b").value()), std::vector<std::string>{"step-10/b"});
  EXPECT_EQ(store.list("ste/below"), std::vector<ObjectInfo>{}) << "it is a file";
}

TEST_F(AFileStore, ListsNothingOutsideOfItsFolder) {
  std::filesystem::create_directories(folder.path() + "/made/when/other");
  std::ofstream{folder.path() + "/made/when/other/a"} << "theirs";
  ASSERT_TRUE(put_text(store, "step-1/a", "x"));
  for (const char* prefix : {"../other/", "../", "step-1/../../other/", "/"}) {
    const auto listed = store.list(prefix);
    ASSERT_FALSE(listed) << prefix;
    EXPECT_EQ(listed.error().kind, ErrorKind::invalid) << prefix;
  }
}

TEST_F(AFileStore, LeavesNoEmptyFoldersAndKeepsItsOwn) {
  ASSERT_TRUE(put_text(store, "step-1/g-1/a", "x"));
  ASSERT_TRUE(put_text(store, "step-1/b", "x"));
  ASSERT_TRUE(store.remove("step-1/g-1/a"));
  const std::filesystem::path root{folder.path() + "/made/when/needed"};
  EXPECT_FALSE(std::filesystem::exists(root / "step-1/g-1"));
  ASSERT_TRUE(store.remove("step-1/b"));
  EXPECT_FALSE(std::filesystem::exists(root / "step-1"));
  EXPECT_TRUE(std::filesystem::exists(root));
}

TEST_F(AFileStore, RemovesWhatIsGoneAndNoFolder) {
  ASSERT_TRUE(put_text(store, "step-1/g-1/a", "x"));
  EXPECT_TRUE(store.remove("step-1/g-1/b"));
  EXPECT_FALSE(store.remove("step-1/g-1"));
  EXPECT_EQ(get_text(store, "step-1/g-1/a"), "x");
}

TEST_F(AFileStore, PutsWhileOthersEmptyTheFolderAgainAndAgain) {
  std::vector<std::jthread> writers;
  for (const char* key : {"d/one", "d/two", "d/three"}) {
    writers.emplace_back([this, key] {
      for (int i = 0; i < 100; ++i) {
        const auto put = put_text(store, key, key);
        ASSERT_TRUE(put) << put.error().message;
        ASSERT_TRUE(store.remove(key));
      }
    });
  }
}

TEST_F(AFileStore, LeavesTheOldObjectAndNoTemporaryFileWhenTheDiskIsFull) {
  ASSERT_TRUE(put_text(store, "a", "old"));
  // A limit on the size of files stands in for the full disk.
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit small = before;
  small.rlim_cur = 4096;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto content = contract::some_bytes(10'000);
  const std::span<const std::byte> piece{content};
  const auto put = store.put("a", {&piece, 1});
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().kind, ErrorKind::io);
  EXPECT_EQ(get_text(store, "a"), "old");
  const std::filesystem::directory_iterator left{folder.path() + "/made/when/needed"};
  EXPECT_EQ(std::distance(begin(left), end(left)), 1);
}

TEST_F(AFileStore, ProbesWithoutMakingTheFolder) {
  EXPECT_TRUE(store.probe());
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/made"));
  ASSERT_TRUE(put_text(store, "a", "x"));
  EXPECT_TRUE(store.probe());
}

TEST_F(AFileStore, RefusesAPathThroughAFileInOneSentence) {
  std::ofstream{folder.path() + "/file"} << "x";
  FileStore below{folder.path() + "/file/run"};
  const auto probed = below.probe();
  ASSERT_FALSE(probed);
  EXPECT_EQ(probed.error().kind, ErrorKind::invalid);
  EXPECT_THAT(probed.error().message, HasSubstr("choose another folder"));
  EXPECT_EQ(put_text(below, "a", "x").error().kind, ErrorKind::invalid);
  const auto listed = below.list("");
  ASSERT_FALSE(listed) << "and not an empty list";
  EXPECT_EQ(listed.error().kind, ErrorKind::invalid);
}

TEST_F(AFileStore, RefusesAFolderThatCannotBeWritten) {
  if (::geteuid() == 0) {
    // Root may write to any folder except on a read-only file system, such as this one.
    FileStore read_only{"/proc/sys/trainyard"};
    const auto put = put_text(read_only, "a", "x");
    ASSERT_FALSE(put);
    EXPECT_THAT(put.error().message, HasSubstr("/proc/sys"));
    return;
  }
  std::filesystem::permissions(folder.path(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  const auto probed = store.probe();
  std::filesystem::permissions(folder.path(), std::filesystem::perms::owner_all);
  ASSERT_FALSE(probed);
  EXPECT_EQ(probed.error().kind, ErrorKind::forbidden);
  EXPECT_THAT(probed.error().message, HasSubstr(folder.path()));
}

TEST_F(AFileStore, GivesUrisThatNameTheObject) {
  EXPECT_EQ(FileStore{"/a/b"}.uri_of("c/d"), "file:///a/b/c/d");
}

}  // namespace
}  // namespace trainyard::storage
