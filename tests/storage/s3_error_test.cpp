#include "storage/s3_client.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/storage/given_credentials.hpp"

namespace trainyard::storage {
namespace {

using testing::HasSubstr;
using testing::Not;

S3Config a_config() {
  return {.bucket = "models",
          .prefix = "run",
          .region = "us-east-1",
          .scheme = "https",
          .host = "s3.example.com",
          .path_style = true,
          .credentials = given_credentials({"id", "the-secret", "the-token"}),
          .ca_bundle = ""};
}

HttpReply reply(long status, std::string body, std::map<std::string, std::string> headers = {}) {
  return {.status = status, .headers = std::move(headers), .body = std::move(body), .into_bytes = 0};
}

std::string xml_of(const std::string& code, const std::string& message = "words") {
  return "<Error><Code>" + code + "</Code><Message>" + message + "</Message></Error>";
}

TEST(S3Error, SaysWhatTheCallerCanDo) {
  struct Row {
    HttpReply reply;
    ErrorKind kind;
    std::string says;
  };
  const Row rows[] = {
      {reply(404, xml_of("NoSuchBucket")), ErrorKind::not_found, "Create the bucket"},
      {reply(404, xml_of("NoSuchKey")), ErrorKind::not_found, "NoSuchKey (words)"},
      {reply(404, ""), ErrorKind::not_found, "answered 404"},
      {reply(403, xml_of("InvalidAccessKeyId")), ErrorKind::unauthorized, "AWS_ACCESS_KEY_ID"},
      {reply(403, xml_of("SignatureDoesNotMatch")), ErrorKind::unauthorized, "AWS_SECRET_ACCESS_KEY"},
      {reply(400, xml_of("ExpiredToken")), ErrorKind::unauthorized, "Renew AWS_SESSION_TOKEN"},
      {reply(403, xml_of("AccessDenied")), ErrorKind::forbidden, "Allow this key"},
      {reply(403, xml_of("RequestTimeTooSkewed")), ErrorKind::unavailable, "clock"},
      {reply(403, "<html>"), ErrorKind::forbidden, "Check that the endpoint is an S3 server"},
      {reply(301, xml_of("PermanentRedirect"), {{"x-amz-bucket-region", "eu-west-1"}}), ErrorKind::invalid,
       "the bucket is in eu-west-1, not in us-east-1"},
      {reply(400, "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-1</Region></Error>"),
       ErrorKind::invalid, "the bucket is in eu-west-1"},
      {reply(412, xml_of("PreconditionFailed")), ErrorKind::already_exists, "412"},
      {reply(409, xml_of("ConditionalRequestConflict")), ErrorKind::conflict, "409"},
      {reply(409, xml_of("OperationAborted")), ErrorKind::unavailable, "409"},
      {reply(409, xml_of("SomethingElse")), ErrorKind::unavailable, "409"},
      {reply(429, ""), ErrorKind::throttled, "429"},
      {reply(503, xml_of("SlowDown")), ErrorKind::throttled, "SlowDown"},
      {reply(503, xml_of("ServiceUnavailable")), ErrorKind::unavailable, "503"},
      {reply(500, xml_of("InternalError")), ErrorKind::unavailable, "500"},
      {reply(400, xml_of("InvalidRequest")), ErrorKind::invalid, "400 InvalidRequest"},
      {reply(400, xml_of("BadDigest")), ErrorKind::corrupt, "400 BadDigest"},
      {reply(200, xml_of("InternalError")), ErrorKind::unavailable, "answered 200 InternalError (words)"},
      {reply(200, xml_of("SomethingElse")), ErrorKind::unavailable, "answered 200 SomethingElse (words)"},
      {reply(200, xml_of("InvalidRequest")), ErrorKind::invalid, "answered 200 InvalidRequest (words)"},
      {reply(200, xml_of("InvalidDigest")), ErrorKind::invalid, "InvalidDigest"},
      {reply(200, xml_of("EntityTooSmall")), ErrorKind::invalid, "TRAINYARD_STORAGE_PART_MIB"},
      {reply(200, xml_of("BadDigest")), ErrorKind::corrupt, "BadDigest"},
      {reply(200, xml_of("XAmzContentChecksumMismatch")), ErrorKind::corrupt, "XAmzContentChecksumMismatch"},
      {reply(403, xml_of("XAdminUserNotFound")), ErrorKind::unauthorized, "AWS_ACCESS_KEY_ID"},
      {reply(400, xml_of("InvalidToken")), ErrorKind::unauthorized, "AWS_SESSION_TOKEN"},
      {reply(400, xml_of("AllAccessDisabled")), ErrorKind::forbidden, "AllAccessDisabled"},
      {reply(409, xml_of("IllegalLocationConstraintException")), ErrorKind::invalid, "Check the region"},
      {reply(307, xml_of("TemporaryRedirect")), ErrorKind::unavailable, "307"},
      {reply(400, xml_of("IncompleteBody")), ErrorKind::unavailable, "IncompleteBody"},
      {reply(400, xml_of("RequestTimeout")), ErrorKind::timeout, "RequestTimeout"},
      {reply(400, xml_of("Throttling")), ErrorKind::throttled, "Throttling"},
      {reply(400, xml_of("TooManyRequests")), ErrorKind::throttled, "TooManyRequests"},
      {reply(403, xml_of("QuotaExceeded")), ErrorKind::io, "raise the quota"},
      {reply(404, xml_of("NoSuchUpload")), ErrorKind::gone, "NoSuchUpload"},
      {reply(200, xml_of("InvalidPart")), ErrorKind::invalid, "InvalidPart"},
      {reply(200, xml_of("InvalidPartOrder")), ErrorKind::invalid, "InvalidPartOrder"},
      {reply(200, xml_of("MalformedXML")), ErrorKind::invalid, "MalformedXML"},
      {reply(504, "gateway"), ErrorKind::timeout, "504"},
      {reply(507, xml_of("XMinioStorageFull")), ErrorKind::io, "Free space"},
      {reply(416, xml_of("InvalidRange")), ErrorKind::corrupt, "ends before"},
      {reply(501, xml_of("NotImplemented")), ErrorKind::invalid, "lacks"},
  };
  for (const Row& row : rows) {
    const Error error = s3_error(row.reply, "put s3://models/run/a", a_config());
    EXPECT_EQ(error.kind, row.kind) << error.message;
    EXPECT_THAT(error.message, HasSubstr(row.says));
    EXPECT_THAT(error.message, testing::StartsWith("put s3://models/run/a: https://s3.example.com answered "));
  }
}

TEST(S3Error, NamesAnotherRegionOnlyWhereThereIsOne) {
  const auto message = [](const HttpReply& refusal) { return s3_error(refusal, "put", a_config()).message; };
  EXPECT_THAT(message(reply(301, xml_of("PermanentRedirect"), {{"x-amz-bucket-region", "us-east-1"}})),
              Not(HasSubstr("the bucket is in")));
  EXPECT_THAT(message(reply(403, xml_of("AccessDenied"), {{"x-amz-bucket-region", "eu-west-1"}})),
              Not(HasSubstr("the bucket is in")))
      << "the region is not the cause";
}

TEST(S3Error, AsksForNoOtherServerWhereARefusalMayBeWithoutWords) {
  for (const long status : {404, 412, 500, 503}) {
    EXPECT_THAT(s3_error(reply(status, ""), "put", a_config()).message,
                testing::EndsWith("answered " + std::to_string(status)));
  }
  EXPECT_THAT(s3_error(reply(400, ""), "put", a_config()).message,
              HasSubstr("Check that the endpoint is an S3 server"));
  EXPECT_THAT(s3_error(reply(302, ""), "put", a_config()).message, testing::EndsWith("answered 302"));
  EXPECT_THAT(s3_error(reply(400, xml_of("BadDigest")), "put", a_config()).message,
              testing::EndsWith("answered 400 BadDigest (words)"));
}

TEST(S3Error, NeverRepeatsASecret) {
  const Error error =
      s3_error(reply(403, xml_of("AccessDenied", "the-secret and the-token and the-secret")), "put", a_config());
  EXPECT_THAT(error.message, Not(HasSubstr("the-secret")));
  EXPECT_THAT(error.message, Not(HasSubstr("the-token")));
}

TEST(S3Error, NeverRepeatsTheCredentialsThatWereJustRenewed) {
  S3Config config = a_config();
  int asked = 0;
  config.credentials = std::make_shared<AwsCredentialChain>(
      std::vector<AwsCredentialSource>{{"the test", [&]() -> Result<Credentials> {
                                          if (++asked == 1) return Credentials{"id", "old-s", "old-t"};
                                          return Credentials{"id", "new-s", "new-t"};
                                        }}});
  config.credentials->refuse(config.credentials->get().value());
  ASSERT_EQ(config.credentials->get().value().session_token, "new-t");
  const Error error = s3_error(reply(403, xml_of("ExpiredToken", "old-s old-t new-s new-t")), "put", config);
  EXPECT_THAT(error.message, HasSubstr("(*** *** *** ***)"));
}

TEST(S3Error, NeverRepeatsASignature) {
  const std::string signature(64, 'a');
  const Error error =
      s3_error(reply(403, xml_of("SignatureDoesNotMatch", "AWS4-HMAC-SHA256 Signature=" + signature + " is not right")),
               "put", a_config());
  EXPECT_THAT(error.message, HasSubstr("(AWS4-HMAC-SHA256 Signature=*** is not right)"));
}

TEST(S3Error, KeepsAServersWordsShortAndOnOneLine) {
  const Error error =
      s3_error(reply(403, xml_of("AccessDenied", "line\none\t" + std::string(10'000, 'x'))), "put", a_config());
  EXPECT_LT(error.message.size(), 600U);
  EXPECT_THAT(error.message, HasSubstr("line one x"));
}

TEST(S3Error, HearsHowLongToWait) {
  EXPECT_EQ(s3_error(reply(503, "", {{"retry-after", "7"}}), "put", a_config()).retry_after, std::chrono::seconds{7});
  EXPECT_EQ(s3_error(reply(503, "", {{"retry-after", "999999999"}}), "put", a_config()).retry_after,
            std::chrono::minutes{5});
  for (const char* other : {"", "-1", "soon", "Wed, 21 Oct 2026 07:28:00 GMT"}) {
    EXPECT_EQ(s3_error(reply(503, "", {{"retry-after", other}}), "put", a_config()).retry_after, std::nullopt) << other;
  }
}

TEST(MayRefuseChecksums, IsTrueForServersThatDoNotKnowThem) {
  struct Row {
    long status;
    std::string code;
    std::string message;
    bool may;
  };
  const Row rows[] = {
      {400, "InvalidArgument", "Unsupported header 'x-amz-checksum-crc32c' received for this API call.", true},
      {400, "InvalidRequest", "Unsupported header x-amz-checksum-mode", true},
      {501, "NotImplemented", "Header 'x-amz-checksum-algorithm' with value 'CRC32C' not implemented", true},
      {501, "NotImplemented", "A header you provided implies functionality that is not implemented", true},
      {501, "NotImplemented", "Header 'If-None-Match' is not implemented", false},
      {400, "BadDigest", "The CRC32C you specified did not match the calculated checksum.", false},
      {400, "XAmzContentChecksumMismatch", "The provided 'x-amz-checksum' header does not match", false},
      {400, "InvalidArgument", "no such thing", false},
      {403, "AccessDenied", "x-amz-checksum-crc32c was not signed", false},
      {400, "InvalidDigest", "The checksum is no CRC32C", false},
      {400, "NotImplemented", "A header you provided implies functionality that is not implemented", false},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(may_refuse_checksums(reply(row.status, xml_of(row.code, row.message))), row.may) << row.message;
  }
  const auto of_header = [](const std::string& name) {
    return reply(501, "<Error><Code>NotImplemented</Code><Header>" + name + "</Header></Error>");
  };
  EXPECT_FALSE(may_refuse_checksums(of_header("If-None-Match")));
  EXPECT_TRUE(may_refuse_checksums(of_header("x-amz-sdk-checksum-algorithm")));
}

}  // namespace
}  // namespace trainyard::storage
