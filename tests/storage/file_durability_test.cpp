// Tests the order of a file store's system calls, on which depends what a power loss leaves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <vector>

#include "storage/file_store.hpp"
#include "tests/fakes/file_calls.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/storage/store_contract.hpp"

namespace trainyard::storage {
namespace {

using fakes::FileCall;
using fakes::FileFate;
using testing::ElementsAre;
using testing::HasSubstr;

class AFileStoresCalls : public testing::Test {
 protected:
  void TearDown() override { fakes::decide_file_calls(nullptr); }

  /// The system calls that `work` makes, as "rename run/a". Temporary files are all called ".tmp", and paths are below
  /// the test's folder.
  template <typename Work>
  std::vector<std::string> calls_of(const Work& work) {
    std::vector<std::string> calls;
    fakes::decide_file_calls([&](const FileCall& call) -> FileFate {
      std::string path = call.path.substr(std::min(call.path.size(), folder.path().size() + 1));
      if (const auto temporary = path.find(".tmp-"); temporary != std::string::npos) path.resize(temporary + 4);
      calls.push_back(std::string{call.name} + " " + path);
      return {};
    });
    work();
    fakes::decide_file_calls(nullptr);
    return calls;
  }

  fakes::TemporaryFolder folder;
  FileStore file_store{folder.path() + "/run"};
  Store& store = file_store;
};

TEST_F(AFileStoresCalls, MakeTheFoldersNamesDurableBeforeTheObjects) {
  EXPECT_THAT(calls_of([&] { ASSERT_TRUE(put_text(store, "s/g/a", "x")); }),
              ElementsAre("mkdir run", "fsync ", "mkdir run/s", "mkdir run/s/g", "writev run/s/g/.tmp",
                          "fsync run/s/g/.tmp", "fsync run", "fsync run/s", "rename run/s/g/a", "fsync run/s/g"));
}

TEST_F(AFileStoresCalls, MakeTheBytesDurableBeforeTheNameAndTheNameBeforeSuccess) {
  ASSERT_TRUE(put_text(store, "s/first", "x"));
  const std::vector<std::string> replacing = {"mkdir run/s", "writev run/s/.tmp", "fsync run/s/.tmp", "rename run/s/a",
                                              "fsync run/s"};
  EXPECT_EQ(calls_of([&] { ASSERT_TRUE(put_text(store, "s/a", "x")); }), replacing);
  EXPECT_EQ(calls_of([&] { ASSERT_TRUE(put_text(store, "s/a", "again")); }), replacing);
  EXPECT_THAT(calls_of([&] { ASSERT_TRUE(put_text(store, "s/claim", "x", {.if_absent = true})); }),
              ElementsAre("mkdir run/s", "writev run/s/.tmp", "fsync run/s/.tmp", "link run/s/claim",
                          "unlink run/s/.tmp", "fsync run/s"));
  EXPECT_THAT(
      calls_of([&] { ASSERT_FALSE(put_text(store, "s/claim", "y", {.if_absent = true})); }),
      ElementsAre("mkdir run/s", "writev run/s/.tmp", "fsync run/s/.tmp", "link run/s/claim", "unlink run/s/.tmp"));
}

TEST_F(AFileStoresCalls, FailAPutWhoseBytesOrNamesAreNotDurable) {
  ASSERT_TRUE(put_text(store, "s/a", "old"));
  for (const std::string_view synced : {"/.tmp-", "/run/s"}) {
    fakes::decide_file_calls([&](const FileCall& call) -> FileFate {
      const bool is_it = call.name == "fsync" && call.path.find(synced) != std::string::npos;
      return {.kind = is_it ? FileFate::Kind::fail : FileFate::Kind::done, .error_number = EIO};
    });
    const auto put = put_text(store, "s/a", "new");
    fakes::decide_file_calls(nullptr);
    ASSERT_FALSE(put) << synced;
    EXPECT_EQ(put.error().kind, ErrorKind::io);
    EXPECT_THAT(put.error().message, HasSubstr("syncing"));
  }
}

TEST_F(AFileStoresCalls, TryAPutAHundredTimesWhileSomebodyRemovesItsFolder) {
  int writes = 0;
  int lost = 99;
  fakes::decide_file_calls([&](const FileCall& call) -> FileFate {
    const bool is_lost = call.name == "writev" && ++writes <= lost;
    return {.kind = is_lost ? FileFate::Kind::fail : FileFate::Kind::done, .error_number = ENOENT};
  });
  const auto put = put_text(store, "s/a", "x");
  writes = 0;
  lost = 1'000;
  const auto given_up = put_text(store, "s/b", "x");
  fakes::decide_file_calls(nullptr);
  EXPECT_TRUE(put) << put.error().message;
  ASSERT_FALSE(given_up);
  EXPECT_EQ(given_up.error().kind, ErrorKind::not_found);
  EXPECT_EQ(writes, 100);
}

TEST_F(AFileStoresCalls, WriteOnAfterASignal) {
  int writes = 0;
  fakes::decide_file_calls([&](const FileCall& call) -> FileFate {
    const bool is_interrupted = call.name == "writev" && ++writes == 1;
    return {.kind = is_interrupted ? FileFate::Kind::fail : FileFate::Kind::done, .error_number = EINTR};
  });
  const auto put = put_text(store, "s/a", "x");
  fakes::decide_file_calls(nullptr);
  EXPECT_TRUE(put) << put.error().message;
  EXPECT_EQ(get_text(store, "s/a"), "x");
}

TEST_F(AFileStoresCalls, TellWhyAFolderCannotBeMade) {
  ASSERT_TRUE(put_text(store, "s/a", "x"));
  fakes::decide_file_calls([&](const FileCall& call) -> FileFate {
    return {.kind = call.name == "mkdir" ? FileFate::Kind::fail : FileFate::Kind::done, .error_number = ENOSPC};
  });
  const auto put = put_text(store, "t/a", "x");
  fakes::decide_file_calls(nullptr);
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().kind, ErrorKind::io);
  EXPECT_THAT(put.error().message, HasSubstr("making the folder"));
}

TEST_F(AFileStoresCalls, PutWhereAFileSystemMakesNamesDurableItself) {
  fakes::decide_file_calls([&](const FileCall& call) -> FileFate {
    const bool is_of_a_folder = call.name == "fsync" && call.path.find("/.tmp-") == std::string::npos;
    return {.kind = is_of_a_folder ? FileFate::Kind::fail : FileFate::Kind::done, .error_number = EINVAL};
  });
  const auto put = put_text(store, "s/a", "new");
  fakes::decide_file_calls(nullptr);
  EXPECT_TRUE(put) << put.error().message;
}

TEST_F(AFileStoresCalls, CreateByAnExclusiveRenameWhereThereAreNoHardLinks) {
  for (const int error_number : {EPERM, EOPNOTSUPP, ENOSYS, EMLINK}) {
    const std::string key = "s/claim-" + std::to_string(error_number);
    fakes::decide_file_calls([&](const FileCall& call) -> FileFate {
      return {.kind = call.name == "link" ? FileFate::Kind::fail : FileFate::Kind::done, .error_number = error_number};
    });
    const auto created = put_text(store, key, "first", {.if_absent = true});
    const auto again = put_text(store, key, "second", {.if_absent = true});
    fakes::decide_file_calls(nullptr);
    ASSERT_TRUE(created) << created.error().message;
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().kind, ErrorKind::already_exists) << again.error().message;
    EXPECT_EQ(get_text(store, key), "first");
  }
  fakes::decide_file_calls([](const FileCall& call) -> FileFate {
    return {.kind = call.name == "link" ? FileFate::Kind::fail : FileFate::Kind::done, .error_number = EIO};
  });
  const auto failed = put_text(store, "s/other", "x", {.if_absent = true});
  fakes::decide_file_calls(nullptr);
  ASSERT_FALSE(failed) << "any other error is the file system's own";
  EXPECT_EQ(failed.error().kind, ErrorKind::io);
  EXPECT_EQ(store.list("s/")->size(), 4U);
}

TEST_F(AFileStoresCalls, TellAListThatCannotBeWholeFromAnEmptyOne) {
  ASSERT_TRUE(put_text(store, "step-1/a", "x"));
  fakes::decide_file_calls([](const FileCall& call) -> FileFate {
    return {.kind = call.name == "fstatat" ? FileFate::Kind::fail : FileFate::Kind::done, .error_number = EIO};
  });
  const auto listed = store.list("");
  fakes::decide_file_calls(nullptr);
  ASSERT_FALSE(listed);
  EXPECT_EQ(listed.error().kind, ErrorKind::io);
  EXPECT_THAT(listed.error().message, HasSubstr("step-1/a"));
}

TEST_F(AFileStoresCalls, LookAtNoObjectForWhatDeadWritersLeft) {
  for (const char* key : {"step-1/a", "step-1/b"}) ASSERT_TRUE(put_text(store, key, "x"));
  folder.write("run/step-1/.tmp-1", "torn");
  EXPECT_THAT(calls_of([&] { ASSERT_TRUE(store.remove_unfinished([](std::string_view) { return true; })); }),
              ElementsAre("unlink run/step-1/.tmp", "rmdir run/step-1"));
}

TEST_F(AFileStoresCalls, LookOnlyAtWhatLeadsToThePrefix) {
  for (const char* key : {"step-1/g-1/a", "step-10/b", "snapshots/g-1/step-1.json", "ste"}) {
    ASSERT_TRUE(put_text(store, key, "x"));
  }
  const auto looks_of = [&](std::string_view prefix) { return calls_of([&] { ASSERT_TRUE(store.list(prefix)); }); };
  EXPECT_THAT(looks_of("step-1/"), ElementsAre("fstatat run/step-1/g-1/a"));
  EXPECT_THAT(looks_of("step-"), testing::UnorderedElementsAre("fstatat run/step-1/g-1/a", "fstatat run/step-10/b"));
  EXPECT_THAT(looks_of("step-10/b"), ElementsAre("fstatat run/step-10/b"));
}

}  // namespace
}  // namespace trainyard::storage
