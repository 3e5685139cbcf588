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
  EXPECT_EQ(parse_uri("gs://models/a/b/"), (Uri{.scheme = Scheme::gs, .bucket = "models", .path = "a/b"}));
  EXPECT_EQ(parse_uri("az://models/a"), (Uri{.scheme = Scheme::az, .bucket = "models", .path = "a"}));
  EXPECT_EQ(parse_uri("command:/opt/send?folder=/mnt/run 1/"),
            (Uri{.scheme = Scheme::command, .bucket = "", .path = "/mnt/run 1", .origin = "", .program = "/opt/send"}));
  EXPECT_EQ(parse_uri("command:///opt/send?folder=/mnt/x"), parse_uri("command:/opt/send?folder=/mnt/x"));
  EXPECT_EQ(parse_uri("https://example.com:8443/data/"),
            (Uri{.scheme = Scheme::web, .bucket = "", .path = "data", .origin = "https://example.com:8443"}));
  EXPECT_EQ(parse_uri("http://my-data_1.svc/a"),
            (Uri{.scheme = Scheme::web, .bucket = "", .path = "a", .origin = "http://my-data_1.svc"}));
  EXPECT_EQ(parse_uri("http://[::1]"),
            (Uri{.scheme = Scheme::web, .bucket = "", .path = "", .origin = "http://[::1]"}));
}

TEST(ParseUri, TakesTheNamesOfOldBucketsToTheirLongest) {
  for (const std::string& name : {std::string{"abc"}, std::string{"Old_Bucket.9-z"}, std::string(255, 'a')})
    EXPECT_EQ(parse_uri("s3://" + name), (Uri{.scheme = Scheme::s3, .bucket = name, .path = ""})) << name;
  const auto longer = parse_uri("s3://" + std::string(256, 'a'));
  ASSERT_FALSE(longer);
  EXPECT_THAT(longer.error().message, HasSubstr("it is too long for a bucket: at most 255 characters"));
}

TEST(ServerAddress, IsReadInItsParts) {
  struct Row {
    std::string_view text;
    std::string_view scheme;
    std::string_view authority;
    std::string_view path;
  };
  for (const Row& row : {Row{"host", "http", "host", ""},
                         {"host:1/", "http", "host:1", ""},
                         {"https://my-host_1.svc/a-b_c.d", "https", "my-host_1.svc", "a-b_c.d"},
                         {"https://host/a/b//", "https", "host", "a/b"},
                         {"http://[::1]:80//a", "http", "[::1]:80", "a"}}) {
    const auto address = parse_server_address("VARIABLE", row.text);
    ASSERT_TRUE(address) << row.text;
    EXPECT_EQ(address->scheme, row.scheme) << row.text;
    EXPECT_EQ(address->authority, row.authority) << row.text;
    EXPECT_EQ(address->path, row.path) << row.text;
  }
  for (const std::string_view text : {"", "/a", "HTTP://host", "://host", "http://host/a b", "http://host/?hush",
                                      "http://host#hush", "http://host/%2e"}) {
    const auto address = parse_server_address("VARIABLE", text);
    ASSERT_FALSE(address) << text;
    EXPECT_EQ(address.error().message, "VARIABLE is no address: write http://host:port or https://host");
  }
}

TEST(ParseUri, GivesBackWhatToStringWrote) {
  for (const char* text : {"file:///a/b", "s3://bucket", "s3://bucket/a/b", "gs://bucket/a", "az://container/a",
                           "https://a/b", "http://a:1", "command:/a/b?folder=/c/d"}) {
    EXPECT_EQ(to_string(parse_uri(text).value()), text);
  }
}

TEST(ParseUri, RefusesTheRestAndSaysWhatWouldBeRight) {
  struct Row {
    std::string_view text;
    std::string_view says;
  };
  const Row rows[] = {
      {"", "command:/program?folder=/absolute/folder, or https://host/folder"},
      {"abfs://container/x", "s3://bucket/prefix, gs://bucket/prefix, az://container/prefix"},
      {"gs://", "gs:// names no bucket: write gs://bucket/prefix"},
      {"gs://x/y", "gs://x/y: 'x' is too short for a bucket: at least 3 characters; write gs://bucket/prefix"},
      {"s3://xy", "'xy' is too short for a bucket"},
      {"s3://b\u00fccher", "only letters, digits, '-', '.' and '_'"},
      {"command:/opt/send/?folder=/mnt", "command:/program?folder=/absolute/folder"},
      {"command:?folder=/mnt", "command:/program?folder=/absolute/folder"},
      {"command:////opt/send?folder=/mnt", "command:/program?folder=/absolute/folder"},
      {"command:/opt/send?folder=/", "the root folder"},
      {"https://host?signature=x", "holds a user name, a query or a fragment"},
      {"https://host/a\tb", "https://host/folder"},
      {"https://host/a\x7f", "https://host/folder"},
      {"https://h(st/a", "https://host/folder"},
      {"https://host/..", "https://host/folder"},
      {"az://a b/c", "'a b' is no container: only letters, digits, '-', '.' and '_'; write az://container/prefix"},
      {"/tmp/x", "'/tmp/x' is a folder and not a URI: write file:///tmp/x"},
      {"az:///x", "az://container/prefix"},
      {"az://container@account.blob.core.windows.net/x", "az://container/prefix"},
      {"file://relative/folder", "with three slashes"},
      {"file:///", "the root folder"},
      {"file:///a/../../etc", "'..'"},
      {"file:///data/runs/..", "'..'"},
      {"file:///../data", "'..'"},
      {"s3://", "s3://bucket/prefix"},
      {"s3:///prefix", "s3://bucket/prefix"},
      {"s3://user:secret@host/x", "s3://bucket/prefix"},
      {"command:/opt/send", "command:/program?folder=/absolute/folder"},
      {"command:send?folder=/mnt", "command:/program?folder=/absolute/folder"},
      {"command://host/send?folder=/mnt", "command:/program?folder=/absolute/folder"},
      {"command:/opt/send?folder=mnt", "command:/program?folder=/absolute/folder"},
      {"command:/opt/send?folder=/mnt/../etc", "'..'"},
      {"https://", "https://host/folder"},
      {"https:///data", "https://host/folder"},
      {"https://host/a b", "https://host/folder"},
      {"https://host/a/../b", "https://host/folder"},
      {"https://host/a?signature=x", "holds a user name, a query or a fragment"},
      {"https://host/a#part", "holds a user name, a query or a fragment"},
      {"https://user:secret@host/a", "holds a user name, a query or a fragment"},
      {"s3://bucket/a//b", "empty part"},
      {"s3://bucket/a/../b", "begins with a dot"},
  };
  for (const Row& row : rows) {
    const auto uri = parse_uri(row.text);
    ASSERT_FALSE(uri) << row.text;
    EXPECT_EQ(uri.error().kind, ErrorKind::invalid) << row.text;
    EXPECT_THAT(uri.error().message, HasSubstr(std::string{row.says})) << row.text;
    if (row.text.starts_with("https://")) {
      EXPECT_THAT(uri.error().message, testing::Not(HasSubstr("secret"))) << row.text;
    }
  }
}

}  // namespace
}  // namespace trainyard::storage
