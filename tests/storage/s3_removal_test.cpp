#include "storage/s3_removal.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/storage/given_credentials.hpp"

namespace trainyard::storage {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const S3Config& config() {
  static const S3Config config{.bucket = "models",
                               .prefix = "run",
                               .region = "us-east-1",
                               .scheme = "https",
                               .host = "s3.example.com",
                               .path_style = true,
                               .credentials = given_credentials({"id", "secret", ""}),
                               .ca_bundle = ""};
  return config;
}

Result<void> check(std::string body) {
  return check_removal({.status = 200, .headers = {}, .body = std::move(body)}, "remove 3 objects", config());
}

std::string error_of(const std::string& key, const std::string& code) {
  return "<Error><Key>" + key + "</Key><Code>" + code + "</Code><Message>words</Message></Error>";
}

TEST(RemovalText, NamesEachObject) {
  EXPECT_EQ(removal_text(std::vector<std::string>{"run/a&b", "run/<c>"}),
            "<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Quiet>true</Quiet>"
            "<Object><Key>run/a&amp;b</Key></Object><Object><Key>run/&lt;c&gt;</Key></Object></Delete>");
}

TEST(CheckRemoval, NamesTheObjectThatIsStillThere) {
  EXPECT_TRUE(check("<DeleteResult xmlns=\"x\"></DeleteResult>"));
  EXPECT_TRUE(check("<DeleteResult/>"));
  EXPECT_TRUE(check("<DeleteResult>" + error_of("run/a", "NoSuchKey") + "</DeleteResult>"));
  const auto denied = check("<DeleteResult>" + error_of("run/a", "SlowDown") + error_of("run/b", "AccessDenied") +
                            error_of("run/c", "InternalError") + "</DeleteResult>");
  ASSERT_FALSE(denied);
  EXPECT_EQ(denied.error().kind, ErrorKind::forbidden) << "waiting does not help";
  EXPECT_THAT(denied.error().message,
              AllOf(HasSubstr("run/b"), HasSubstr("AccessDenied (words)"), HasSubstr("and 2 more objects")));
  const auto one = check("<DeleteResult>" + error_of("run/a", "AccessDenied") + "</DeleteResult>");
  ASSERT_FALSE(one);
  EXPECT_THAT(one.error().message, testing::Not(HasSubstr("more objects")));
  for (const auto& [code, kind] :
       {std::pair{"SlowDown", ErrorKind::throttled}, std::pair{"InternalError", ErrorKind::unavailable},
        std::pair{"SomethingNew", ErrorKind::unavailable}}) {
    EXPECT_EQ(check("<DeleteResult>" + error_of("run/a", code) + "</DeleteResult>").error().kind, kind) << code;
  }
  EXPECT_EQ(check("<Error><Code>InternalError</Code></Error>").error().kind, ErrorKind::unavailable);
  EXPECT_EQ(check("<html>").error().kind, ErrorKind::invalid);
}

TEST(IsWithoutRemoval, IsTrueForServersThatHaveNone) {
  struct Row {
    long status;
    std::string code;
    bool is_without;
  };
  for (const Row& row : {Row{501, "NotImplemented", true},
                         {405, "MethodNotAllowed", true},
                         {404, "", true},
                         {400, "InvalidRequest", true},
                         {400, "MalformedXML", true},
                         {400, "NotImplemented", true},
                         {400, "InvalidArgument", true},
                         {400, "MethodNotAllowed", true},
                         {411, "", true},
                         {404, "NoSuchBucket", false},
                         {403, "AccessDenied", false},
                         {400, "ExpiredToken", false},
                         {503, "SlowDown", false}}) {
    EXPECT_EQ(is_without_removal(
                  {.status = row.status, .headers = {}, .body = "<Error><Code>" + row.code + "</Code></Error>"}),
              row.is_without)
        << row.status << " " << row.code;
  }
}

}  // namespace
}  // namespace trainyard::storage
