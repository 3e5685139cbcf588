#include "storage/posix.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/fakes/temporary_folder.hpp"

namespace trainyard::storage::posix {
namespace {

TEST(ErrorOf, SaysWhatTheCallerCanDo) {
  struct Row {
    int error_number;
    ErrorKind kind;
    std::string_view says;
  };
  const Row rows[] = {
      {ENOENT, ErrorKind::not_found, "No such file"},
      {EACCES, ErrorKind::forbidden, "Let the user that this process runs as write there"},
      {EROFS, ErrorKind::forbidden, "writable volume"},
      {ENOTDIR, ErrorKind::invalid, "choose another folder"},
      {ENOSPC, ErrorKind::io, "Free space there"},
      {EDQUOT, ErrorKind::io, "Raise the quota"},
      {ESTALE, ErrorKind::unavailable, "Stale"},
      {EIO, ErrorKind::io, "Input/output"},
      {EPERM, ErrorKind::forbidden, "Let the user that this process runs as write there"},
      {EEXIST, ErrorKind::already_exists, "File exists"},
      {EISDIR, ErrorKind::invalid, "Is a directory"},
      {ELOOP, ErrorKind::invalid, "symbolic links"},
      {ENAMETOOLONG, ErrorKind::invalid, "too long"},
      {EINVAL, ErrorKind::invalid, "Invalid argument"},
      {ETIMEDOUT, ErrorKind::unavailable, "timed out"},
  };
  for (const Row& row : rows) {
    const Error error = error_of(row.error_number, "writing /a");
    EXPECT_EQ(error.kind, row.kind) << row.says;
    EXPECT_THAT(error.message, testing::StartsWith("writing /a: "));
    EXPECT_THAT(error.message, testing::HasSubstr(std::string{row.says}));
  }
}

TEST(Publish, GivesAFileANameThatIsFreeAndNoOther) {
  const fakes::TemporaryFolder folder;
  const std::string to = folder.file("to").string();
  ASSERT_TRUE(publish(folder.write("from", "first"), to));
  EXPECT_FALSE(std::filesystem::exists(folder.file("from")));
  const auto again = publish(folder.write("from", "second"), to);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().kind, ErrorKind::already_exists);
  EXPECT_EQ(fakes::text_of(to), "first");
  EXPECT_TRUE(std::filesystem::exists(folder.file("from"))) << "its owner removes it";
  EXPECT_EQ(publish(folder.file("none").string(), folder.file("other").string()).error().kind, ErrorKind::not_found);
}

TEST(MakeDirectories, TakeARelativeNameFromTheWorkingFolder) {
  const std::filesystem::path before = std::filesystem::current_path();
  const fakes::TemporaryFolder folder;
  const std::filesystem::path gone = std::filesystem::path{folder.path()} / "gone";
  std::filesystem::create_directory(gone);
  std::filesystem::current_path(gone);
  EXPECT_EQ(make_directories("a/b"), (std::vector<std::string>{".", "a"}));
  std::filesystem::remove_all(gone);
  EXPECT_EQ(make_directories("c").error().kind, ErrorKind::not_found) << "the working folder was removed";
  EXPECT_EQ(make_directories("").error().kind, ErrorKind::not_found);
  std::filesystem::current_path(before);
}

TEST(MakeDirectories, NamesTheFoldersWhoseListOfNamesHasChanged) {
  const fakes::TemporaryFolder folder;
  const std::string root = folder.path();
  EXPECT_EQ(make_directories(root + "/a/b/c"), (std::vector<std::string>{root, root + "/a", root + "/a/b"}));
  EXPECT_EQ(make_directories(root + "/a/d"), (std::vector<std::string>{root + "/a"}));
  EXPECT_EQ(make_directories(root + "/a/d"), std::vector<std::string>{});
  EXPECT_EQ(make_directories("/"), std::vector<std::string>{});
  EXPECT_EQ(make_directories(folder.write("file", "x").string() + "/a").error().kind, ErrorKind::invalid);
}

TEST(CreateFile, MakesNoFileThatIsThere) {
  const fakes::TemporaryFolder folder;
  ASSERT_TRUE(create_file(folder.file("a").string()));
  EXPECT_EQ(create_file(folder.file("a").string()).error().kind, ErrorKind::already_exists);
}

}  // namespace
}  // namespace trainyard::storage::posix
