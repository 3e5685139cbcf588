#include "storage/oauth.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "storage/http_client.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/storage/environment_table.hpp"

namespace trainyard::storage {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const Time asked_at{1'000'000s};

Result<AccessToken> parse_issuer(long status, const std::string& body) {
  return parse_token_reply({.status = status, .headers = {}, .body = body}, asked_at, {"hush"});
}

TEST(TokenReply, HoldsATokenWithItsExpiry) {
  const AccessToken an_hour{"t", asked_at + 1h};
  EXPECT_EQ(parse_issuer(200, R"({"access_token": "t", "expires_in": 3600})"), an_hour);
  EXPECT_EQ(parse_issuer(200, R"({"access_token": "t", "expires_in": "3600"})"), an_hour);
  EXPECT_EQ(parse_issuer(200, R"({"access_token": "t", "expires_in": 1, "expires_on": "1003600"})"), an_hour);
  EXPECT_EQ(parse_issuer(200, R"({"access_token": "t"})"), (AccessToken{"t", std::nullopt}));
  EXPECT_EQ(parse_issuer(200, R"({"access_token": "t", "expires_in": -1})"), (AccessToken{"t", asked_at}));
  const auto in_the_year_9999 = parse_issuer(200, R"({"access_token": "t", "expires_on": 9223372036854775807})");
  EXPECT_EQ(in_the_year_9999, (AccessToken{"t", Time{253'402'300'799s}}));
}

TEST(TokenReply, ThatHoldsNoneIsInvalid) {
  for (const char* body : {"", "[]", "{}", R"({"access_token": "a\r\nb"})", R"({"access_token": "a\nb"})",
                           R"({"access_token": ""})", R"({"access_token": ["t"]})"}) {
    const auto token = parse_issuer(200, body);
    ASSERT_FALSE(token) << body;
    EXPECT_EQ(token.error().kind, ErrorKind::invalid) << body;
  }
}

TEST(TokenReply, OfARefusalIsTransientWhenItMayPass) {
  struct Row {
    long status;
    std::string body;
    ErrorKind kind;
  };
  const Row rows[] = {
      {400, R"({"error": "invalid_grant", "error_description": "Bad hush"})", ErrorKind::unauthorized},
      {401, R"({"error": {"status": "UNAUTHENTICATED", "message": "Bad hush"}})", ErrorKind::unauthorized},
      {403, "", ErrorKind::unauthorized},
      {404, "", ErrorKind::unauthorized},
      {400, R"({"error": "temporarily_unavailable"})", ErrorKind::unavailable},
      {400, R"({"error": "slow_down"})", ErrorKind::throttled},
      {400, R"({"error": "server_error"})", ErrorKind::unavailable},
      {400, R"({"error": "bad-hush"})", ErrorKind::unauthorized},
      {302, "", ErrorKind::invalid},
      {429, "", ErrorKind::throttled},
      {408, "", ErrorKind::unavailable},
      {410, "", ErrorKind::unavailable},
      {500, "", ErrorKind::unavailable},
      {503, "<html>", ErrorKind::unavailable},
  };
  for (const Row& row : rows) {
    const auto token = parse_issuer(row.status, row.body);
    ASSERT_FALSE(token);
    EXPECT_EQ(token.error().kind, row.kind) << row.status << row.body;
    EXPECT_THAT(token.error().message,
                AllOf(HasSubstr("it answered " + std::to_string(row.status)), Not(HasSubstr("hush"))));
  }
}

TEST(TokenReply, OfARefusalSaysHowLongToWait) {
  EXPECT_EQ(issuer_error({.status = 429, .headers = {{"retry-after", "7"}}, .body = ""}, {}),
            (Error{ErrorKind::throttled, "it answered 429", 7s}));
}

TEST(IssuerTuning, LimitsEveryWaitAndNamesTheFileOfCertificates) {
  const auto tuning_with = [](std::map<std::string, std::string> variables) {
    return issuer_tuning(7s, environment_of(std::move(variables)));
  };
  const HttpTuning tuning = tuning_with({{"SSL_CERT_FILE", "a"}, {"AWS_CA_BUNDLE", "b"}});
  EXPECT_EQ(tuning.connect_timeout, 7s);
  EXPECT_EQ(tuning.patience, 7s);
  EXPECT_EQ(tuning.first_patience, 7s);
  EXPECT_EQ(tuning.ca_bundle, "a");
  EXPECT_EQ(tuning_with({{"AWS_CA_BUNDLE", "b"}}).ca_bundle, "b");
  EXPECT_EQ(tuning_with({{"SSL_CERT_FILE", ""}, {"AWS_CA_BUNDLE", "b"}}).ca_bundle, "b");
}

TEST(SecretFile, IsReadWithoutTheWhiteSpaceAtItsEnd) {
  const fakes::TemporaryFolder folder;
  EXPECT_EQ(read_secret_file(folder.write("token", "a b\r\n \n")), "a b");
  for (const std::string& path : {folder.write("empty", "\n").string(), folder.file("none").string()}) {
    EXPECT_EQ(read_secret_file(path).error(),
              (Error{ErrorKind::unauthorized, path + " cannot be read or is empty", {}}));
  }
}

TEST(Secrets, GoOverTlsOrStayOnThisMachine) {
  for (const char* url :
       {"https://sts.googleapis.com/v1/token", "http://127.0.0.1:80/x", "http://localhost/x", "http://[::1]:80/"}) {
    EXPECT_TRUE(keeps_secrets(url)) << url;
  }
  for (const char* url : {"", "http://sts.googleapis.com/", "http://127.0.0.1.evil/", "http://localhost@evil/",
                          "http://localhost:80@evil/", "http://10.0.0.1/", "ftp://localhost/"}) {
    EXPECT_FALSE(keeps_secrets(url)) << url;
  }
  for (const char* url :
       {"https://host:1/secret?a", "https://host:1?secret", "https://host:1#secret", "https://host:1"}) {
    EXPECT_EQ(origin_of(url), "https://host:1");
  }
}

}  // namespace
}  // namespace trainyard::storage
