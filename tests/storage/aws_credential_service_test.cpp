#include "storage/aws_credential_service.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/time_text.hpp"

namespace trainyard::storage {
namespace {

using testing::HasSubstr;
using testing::Not;

HttpReply answer(long status, std::string body) {
  return {.status = status, .headers = {}, .body = std::move(body), .into_bytes = 0};
}

const Credentials good{"id", "secret", "token", parse_rfc3339("2026-01-01T01:00:00Z").value()};

TEST(CredentialReplies, GiveKeyAndExpiry) {
  EXPECT_EQ(
      parse_sts_reply(answer(200,
                             "<AssumeRoleWithWebIdentityResponse><Result><Credentials><AccessKeyId>id</AccessKeyId>"
                             "<SecretAccessKey>secret</SecretAccessKey><SessionToken>token</SessionToken>"
                             "<Expiration>2026-01-01T01:00:00Z</Expiration></Credentials></Result>"
                             "</AssumeRoleWithWebIdentityResponse>"),
                      "jwt"),
      good);
  EXPECT_EQ(parse_json_reply(answer(200,
                                    R"({"Code": "Success", "AccessKeyId": "id", "SecretAccessKey": "secret",
                                       "Token": "token", "Expiration": "2026-01-01T01:00:00Z"})"),
                             ""),
            good);
  EXPECT_EQ(parse_json_reply(answer(200, R"({"AccessKeyId": "id", "SecretAccessKey": "secret"})"), ""),
            (Credentials{"id", "secret", ""}));
}

TEST(CredentialReplies, SayWhatTheCallerCanDo) {
  struct Row {
    Result<Credentials> found;
    ErrorKind kind;
    const char* says;
  };
  const std::string denied =
      "<ErrorResponse><Error><Code>AccessDenied</Code><Message>no hush-hush</Message></Error></ErrorResponse>";
  const Row rows[] = {
      {parse_sts_reply(answer(403, denied), "hush"), ErrorKind::unavailable, "403 AccessDenied (no ***-***)"},
      {parse_sts_reply(answer(400, "<Error><Code>ExpiredTokenException</Code></Error>"), "hush"),
       ErrorKind::unauthorized, "400 ExpiredTokenException"},
      {parse_sts_reply(answer(400, "<Error><Code>IDPCommunicationError</Code></Error>"), "hush"),
       ErrorKind::unavailable, "IDPCommunicationError"},
      {parse_sts_reply(answer(400, "<Error><Code>Throttling</Code></Error>"), "hush"), ErrorKind::throttled,
       "Throttling"},
      {parse_sts_reply(answer(503, ""), "hush"), ErrorKind::unavailable, "it answered 503"},
      {parse_sts_reply(answer(301, ""), "hush"), ErrorKind::invalid, "it answered 301"},
      {parse_sts_reply(answer(200, "<html>"), "hush"), ErrorKind::invalid, "AWS_ENDPOINT_URL_STS"},
      {parse_sts_reply(answer(200, "<Credentials></Credentials>"), "hush"), ErrorKind::invalid, "no key"},
      {parse_sts_reply(answer(200, "<Credentials><AccessKeyId>id</AccessKeyId></Credentials>"), "hush"),
       ErrorKind::invalid, "no key"},
      {parse_sts_reply(answer(200, "<Credentials><SecretAccessKey>s</SecretAccessKey></Credentials>"), "hush"),
       ErrorKind::invalid, "no key"},
      {parse_sts_reply(answer(200,
                              "<Credentials><AccessKeyId>id</AccessKeyId><SecretAccessKey>s</SecretAccessKey>"
                              "<Expiration>1767229200</Expiration></Credentials>"),
                       "hush"),
       ErrorKind::invalid, "not a time"},
      {parse_json_reply(answer(200, "<html>"), "hush"), ErrorKind::invalid, "no JSON"},
      {parse_json_reply(answer(200, "[]"), "hush"), ErrorKind::invalid, "no JSON"},
      {parse_json_reply(answer(200, "{}"), "hush"), ErrorKind::invalid, "no key"},
      {parse_json_reply(answer(200, R"({"AccessKeyId": "a", "SecretAccessKey": "b", "Expiration": "soon"})"), "hush"),
       ErrorKind::invalid, "not a time"},
      {parse_json_reply(answer(200, R"({"Code": "AssumeRoleUnauthorizedAccess", "Message": "no"})"), "hush"),
       ErrorKind::unauthorized, "AssumeRoleUnauthorizedAccess (no)"},
      // A 404 of this service is not not_found, which is a store's word for objects.
      {parse_json_reply(answer(404, R"({"code": "x", "message": "hush"})"), "hush"), ErrorKind::unauthorized,
       "404 x (***)"},
      {parse_json_reply(answer(400, R"({"code": "Bad-hush", "message": "no"})"), "hush"), ErrorKind::unauthorized,
       "400 Bad-*** (no)"},
      {parse_json_reply(answer(429, ""), "hush"), ErrorKind::throttled, "429"},
  };
  for (const Row& row : rows) {
    ASSERT_FALSE(row.found) << row.says;
    EXPECT_EQ(row.found.error().kind, row.kind) << row.says;
    EXPECT_THAT(row.found.error().message, HasSubstr(row.says));
    EXPECT_THAT(row.found.error().message, Not(HasSubstr("hush")));
  }
}

TEST(SsoReplies, GiveKeyAndExpiryOrSayWhatToDo) {
  struct Row {
    HttpReply reply;
    Result<Credentials> expected;
  };
  const auto of_role = [](const std::string& fields) {
    return answer(200, R"({"roleCredentials": {)" + fields + "}}");
  };
  const std::string key = R"("accessKeyId": "id", "secretAccessKey": "secret", "sessionToken": "token")";
  const std::string advice = ": run aws sso login, and check sso_account_id and sso_role_name";
  const Row rows[] = {
      {of_role(key + R"(, "expiration": 1767229200000)"), good},
      {of_role(key), Credentials{"id", "secret", "token"}},
      {of_role(key + R"(, "expiration": "soon")"), Credentials{"id", "secret", "token"}},
      {of_role(R"("accessKeyId": "id")"), fail(ErrorKind::invalid, "it holds no key")},
      {answer(200, "[]"), fail(ErrorKind::invalid, "the reply holds no roleCredentials")},
      {answer(200, R"({"roleCredentials": []})"), fail(ErrorKind::invalid, "the reply holds no roleCredentials")},
      {answer(401, R"({"message": "not with hush"})"),
       fail(ErrorKind::unauthorized, "it answered 401 (not with ***)" + advice)},
      {answer(403, ""), fail(ErrorKind::unauthorized, "it answered 403" + advice)},
      {answer(404, ""), fail(ErrorKind::unauthorized, "it answered 404")},
      {answer(500, ""), fail(ErrorKind::unavailable, "it answered 500")},
  };
  for (const Row& row : rows) EXPECT_EQ(parse_sso_reply(row.reply, "hush"), row.expected) << row.reply.body;
}

TEST(ProcessOutput, IsAJsonObjectOfVersion1) {
  const std::string key = R"("AccessKeyId": "id", "SecretAccessKey": "secret")";
  EXPECT_EQ(parse_process_output(R"({"Version": 1, )" + key + "}"), (Credentials{"id", "secret", ""}));
  for (const std::string& text : {std::string{}, std::string{"[]"}, "{" + key + "}", R"({"Version": 2, )" + key + "}",
                                  R"({"Version": "1", )" + key + "}", R"({"Version": 1, )" + key + "} more"}) {
    const auto parsed = parse_process_output(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_THAT(parsed.error().message, HasSubstr("not a JSON object with \"Version\": 1")) << text;
  }
  EXPECT_EQ(parse_process_output(R"({"Version": 1, "AccessKeyId": "id"})"),
            (Result<Credentials>{fail(ErrorKind::invalid, "it holds no key")}));
}

TEST(CredentialRefusals, ArePassingUnlessWhatWasSentIsWrong) {
  struct Row {
    long status;
    std::string code;
    ErrorKind kind;
  };
  const Row rows[] = {
      {429, "", ErrorKind::throttled},
      {400, "Throttling", ErrorKind::throttled},
      {400, "TooManyRequestsException", ErrorKind::throttled},
      {400, "ThrottlingException", ErrorKind::throttled},
      {400, "RequestLimitExceeded", ErrorKind::throttled},
      {503, "SlowDown", ErrorKind::throttled},
      {408, "", ErrorKind::unavailable},
      {500, "InternalFailure", ErrorKind::unavailable},
      {502, "", ErrorKind::unavailable},
      {503, "ServiceUnavailable", ErrorKind::unavailable},
      {400, "IDPCommunicationError", ErrorKind::unavailable},
      // A role, a policy or an association that is seconds old.
      {403, "AccessDenied", ErrorKind::unavailable},
      {403, "AccessDeniedException", ErrorKind::unavailable},
      {403, "", ErrorKind::unavailable},
      {403, "ExpiredToken", ErrorKind::unauthorized},
      {403, "InvalidClientTokenId", ErrorKind::unauthorized},
      {403, "SignatureDoesNotMatch", ErrorKind::unauthorized},
      {403, "ExpiredTokenException", ErrorKind::unauthorized},
      {403, "InvalidIdentityToken", ErrorKind::unauthorized},
      {403, "UnrecognizedClientException", ErrorKind::unauthorized},
      {403, "IncompleteSignature", ErrorKind::unauthorized},
      {403, "MissingAuthenticationToken", ErrorKind::unauthorized},
      {400, "ExpiredTokenException", ErrorKind::unauthorized},
      {400, "InvalidIdentityToken", ErrorKind::unauthorized},
      {400, "ValidationError", ErrorKind::unauthorized},
      {401, "", ErrorKind::unauthorized},
      {404, "", ErrorKind::unauthorized},
      {302, "", ErrorKind::invalid},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(refusal_of(answer(row.status, "<Error><Code>" + row.code + "</Code></Error>"), "").kind, row.kind)
        << row.status << " " << row.code;
  }
  HttpReply busy = answer(429, "");
  busy.headers["retry-after"] = "3";
  EXPECT_EQ(refusal_of(busy, "").retry_after, std::chrono::seconds{3});
}

}  // namespace
}  // namespace trainyard::storage
