#include "storage/posix.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

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
  };
  for (const Row& row : rows) {
    const Error error = error_of(row.error_number, "writing /a");
    EXPECT_EQ(error.kind, row.kind) << row.says;
    EXPECT_THAT(error.message, testing::StartsWith("writing /a: "));
    EXPECT_THAT(error.message, testing::HasSubstr(std::string{row.says}));
  }
}

}  // namespace
}  // namespace trainyard::storage::posix
