#include "storage/gcs_error.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::storage {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const GcsSettings plain_gcs{.bucket = "b", .prefix = {}, .endpoint = "https://h", .tokens = nullptr, .ca_bundle = {}};

HttpReply json_refusal(long status, const std::string& reason, const std::string& message = "words") {
  return {.status = status,
          .headers = {{"content-type", "application/json; charset=UTF-8"}},
          .body = fmt::format(R"({{"error": {{"code": {}, "message": "{}", "errors": [{{"reason": "{}"}}]}}}})", status,
                              message, reason)};
}

HttpReply xml_refusal(long status, const std::string& code) {
  return {.status = status,
          .headers = {},
          .body = fmt::format("<?xml version='1.0'?><Error><Code>{}</Code><Message>words</Message></Error>", code)};
}

TEST(GcsError, IsWhatTheCallerCanDo) {
  struct Row {
    HttpReply reply;
    ErrorKind kind;
    std::string says;
  };
  const Row rows[] = {
      {json_refusal(404, "notFound", "No such object: b/a"), ErrorKind::not_found,
       "404 notFound (No such object: b/a)"},
      {json_refusal(404, "notFound", "The specified bucket does not exist."), ErrorKind::not_found,
       "Create the bucket"},
      {{.status = 404, .headers = {{"content-type", "text/html; charset=UTF-8"}}, .body = "No such object: b/a"},
       ErrorKind::not_found,
       "404 (No such object: b/a)"},
      {json_refusal(403, "forbidden"), ErrorKind::forbidden, "roles/storage.objectUser"},
      {json_refusal(403, "forbidden", "The specified bucket does not exist."), ErrorKind::forbidden,
       "roles/storage.objectUser"},
      {json_refusal(403, "rateLimitExceeded"), ErrorKind::throttled, ""},
      {json_refusal(429, "rateLimitExceeded"), ErrorKind::throttled, ""},
      {json_refusal(403, "userRateLimitExceeded"), ErrorKind::throttled, ""},
      {json_refusal(400, "internalError"), ErrorKind::unavailable, ""},
      {json_refusal(400, "backendError"), ErrorKind::unavailable, ""},
      {json_refusal(401, "required"), ErrorKind::unauthorized, "GOOGLE_APPLICATION_CREDENTIALS"},
      {json_refusal(401, "somethingNew"), ErrorKind::unauthorized, "GOOGLE_APPLICATION_CREDENTIALS"},
      {json_refusal(403, "somethingNew"), ErrorKind::forbidden, "roles/storage.objectUser"},
      {json_refusal(400, "invalid", "the crc32c of the body"), ErrorKind::corrupt, ""},
      {json_refusal(403, "forbidden", "CRC32C may not be read"), ErrorKind::forbidden, ""},
      {xml_refusal(400, "RequestTimeout"), ErrorKind::timeout, ""},
      {xml_refusal(400, "IncompleteBody"), ErrorKind::unavailable, ""},
      {xml_refusal(401, "AuthenticationRequired"), ErrorKind::unauthorized, "GOOGLE_APPLICATION_CREDENTIALS"},
      {{.status = 400, .headers = {}, .body = R"({"error": {"message": "odd", "errors": []}})"},
       ErrorKind::invalid,
       "400 (odd)"},
      {{.status = 400, .headers = {}, .body = R"({"error": {"message": 7, "errors": [{"reason": 7}]}})"},
       ErrorKind::invalid,
       "answered 400"},
      {json_refusal(401, "authError"), ErrorKind::unauthorized, "GOOGLE_APPLICATION_CREDENTIALS"},
      {json_refusal(400, "required"), ErrorKind::invalid, ""},
      {json_refusal(412, "conditionNotMet"), ErrorKind::already_exists, ""},
      {json_refusal(403, "retentionPolicyNotMet"), ErrorKind::forbidden, "retention policy"},
      {json_refusal(400, "invalid", R"(Provided CRC32C \"x\" does not match)"), ErrorKind::corrupt, ""},
      {json_refusal(416, "requestedRangeNotSatisfiable"), ErrorKind::corrupt, ""},
      {json_refusal(410, "updatedConditionNotMet"), ErrorKind::unavailable, ""},
      {json_refusal(503, "backendError"), ErrorKind::unavailable, ""},
      {json_refusal(500, "somethingNew"), ErrorKind::unavailable, ""},
      {xml_refusal(404, "NoSuchUpload"), ErrorKind::gone, "NoSuchUpload (words)"},
      {xml_refusal(404, "NoSuchBucket"), ErrorKind::not_found, "Create the bucket"},
      {xml_refusal(400, "BadDigest"), ErrorKind::corrupt, ""},
      {xml_refusal(403, "AccessDenied"), ErrorKind::forbidden, "roles/storage.objectUser"},
      {xml_refusal(503, "SlowDown"), ErrorKind::throttled, ""},
      {{.status = 501, .headers = {}, .body = ""}, ErrorKind::invalid, ""},
      {{.status = 502, .headers = {}, .body = "<html>Bad Gateway"}, ErrorKind::unavailable, "answered 502"},
  };
  for (const Row& row : rows) {
    const Error error = gcs_error(row.reply, "get gs://b/a", plain_gcs);
    EXPECT_EQ(error.kind, row.kind) << row.reply.body;
    EXPECT_THAT(error.message, AllOf(testing::StartsWith("get gs://b/a: https://h answered "), HasSubstr(row.says)));
  }
}

TEST(GcsError, SaysHowLongToWait) {
  HttpReply reply = json_refusal(429, "rateLimitExceeded");
  reply.headers["retry-after"] = "7";
  EXPECT_EQ(gcs_error(reply, "x", plain_gcs).retry_after, std::chrono::seconds{7});
}

TEST(GcsError, RepeatsNoPageOfHtml) {
  for (const char* type : {"text/html", "application/octet-stream"}) {
    const HttpReply reply{.status = 404, .headers = {{"content-type", type}}, .body = "<p>Not found"};
    EXPECT_EQ(gcs_error(reply, "x", plain_gcs).message, "x: https://h answered 404");
  }
}

TEST(GcsError, RepeatsNoBytesOfAnObject) {
  const HttpReply reply{.status = 404, .headers = {{"content-type", "application/octet-stream"}}, .body = "bytes"};
  EXPECT_EQ(gcs_error(reply, "x", plain_gcs).message, "x: https://h answered 404");
}

TEST(GcsError, NeverHoldsATokenThatIsOrWasInUse) {
  GcsSettings settings = plain_gcs;
  int fetches = 0;
  settings.tokens = std::make_shared<AccessTokens>([&]() -> Result<AccessToken> {
    return AccessToken{.text = ++fetches == 1 ? "hush-1" : "hush-2", .expiry = std::nullopt};
  });
  ASSERT_EQ(settings.tokens->get(), "hush-1");
  settings.tokens->refuse("hush-1");
  ASSERT_EQ(settings.tokens->get(), "hush-2");
  const Error error = gcs_error(json_refusal(401, "authError", "neither hush-1 nor hush-2"), "x", settings);
  EXPECT_THAT(error.message, AllOf(HasSubstr("(neither *** nor ***)"), Not(HasSubstr("hush"))));
  for (const char* token : {"hush-1", "hush-2"})
    EXPECT_THAT(gcs_error(json_refusal(401, token), "x", settings).message, Not(HasSubstr("hush")));
}

}  // namespace
}  // namespace trainyard::storage
