#include "storage/uri.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::storage {
namespace {

using testing::HasSubstr;

TEST(ParseUri, ReadsFoldersAndBuckets) {
  EXPECT_EQ(parse_uri("file:///mnt/run 1/"), (Uri{.scheme = Scheme::file, .bucket = "", .path = "/mnt/run 1"}));
  EXPECT_EQ(parse_uri("file:///home/me/.cache/x"),
            (Uri{.scheme = Scheme::file, .bucket = "", .path = "/home/me/.cache/x"}));
  EXPECT_EQ(parse_uri("s3://models"), (Uri{.scheme = Scheme::s3, .bucket = "models", .path = ""}));
  EXPECT_EQ(parse_uri("s3://models/a/b/"), (Uri{.scheme = Scheme::s3, .bucket = "models", .path = "a/b"}));
}

TEST(ParseUri, GivesBackWhatToStringWrote) {
  for (const char* text : {"file:///a/b", "s3://bucket", "s3://bucket/a/b"}) {
    EXPECT_EQ(to_string(parse_uri(text).value()), text);
  }
}

TEST(ParseUri, RefusesTheRestAndSaysWhatWouldBeRight) {
  struct Row {
    std::string_view text;
    std::string_view says;
  };
  const Row rows[] = {
      {"", "file:///absolute/folder or s3://bucket/prefix"},
      {"/tmp/x", "file:///absolute/folder or s3://bucket/prefix"},
      {"gs://bucket/x", "file:///absolute/folder or s3://bucket/prefix"},
      {"file://relative/folder", "with three slashes"},
      {"file:///", "the root folder"},
      {"file:///a/../../etc", "'..'"},
      {"s3://", "s3://bucket/prefix"},
      {"s3:///prefix", "s3://bucket/prefix"},
      {"s3://user:secret@host/x", "s3://bucket/prefix"},
      {"s3://bucket/a//b", "empty part"},
      {"s3://bucket/a/../b", "begins with a dot"},
  };
  for (const Row& row : rows) {
    const auto uri = parse_uri(row.text);
    ASSERT_FALSE(uri) << row.text;
    EXPECT_EQ(uri.error().kind, ErrorKind::invalid) << row.text;
    EXPECT_THAT(uri.error().message, HasSubstr(std::string{row.says})) << row.text;
  }
}

}  // namespace
}  // namespace trainyard::storage
