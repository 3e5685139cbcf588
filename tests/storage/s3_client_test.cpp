#include "storage/s3_client.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/fake_clock.hpp"
#include "tests/storage/environment_table.hpp"
#include "tests/storage/given_credentials.hpp"
#include "tests/storage/loopback_server.hpp"

namespace trainyard::storage {
namespace {

TEST(S3Client, SignsTheSessionTokenOfTheCredentialsThatItSignsWith) {
  std::vector<std::string> said;
  LoopbackServer server{[&](const httplib::Request& request, httplib::Response&) {
    said.push_back(request.get_header_value("x-amz-security-token"));
    const std::string authorization = request.get_header_value("Authorization");
    const bool has_token = authorization.find(";x-amz-security-token,") != std::string::npos;
    said.push_back(authorization.substr(0, authorization.find('/')) + (has_token ? " with token" : ""));
  }};
  auto config = make_s3_config({.scheme = Scheme::s3, .bucket = "models", .path = "run"}, {.endpoint = server.url()},
                               environment_of({}));
  ASSERT_TRUE(config);
  int asked = 0;
  config->credentials =
      std::make_shared<AwsCredentialChain>(std::vector<AwsCredentialSource>{{"the test", [&]() -> Result<Credentials> {
                                                                               if (++asked == 1)
                                                                                 return Credentials{"one", "s", ""};
                                                                               return Credentials{"two", "s", "token"};
                                                                             }}});
  S3Client client{*config, {}};
  ASSERT_TRUE(client.send("get", {.method = "GET", .object = "run/a"}));
  config->credentials->refuse(config->credentials->recent().front());
  ASSERT_TRUE(client.send("get", {.method = "GET", .object = "run/a"}));
  EXPECT_EQ(said, (std::vector<std::string>{"", "AWS4-HMAC-SHA256 Credential=one", "token",
                                            "AWS4-HMAC-SHA256 Credential=two with token"}));
}

TEST(S3Client, MeasuresEveryCorrectionOfItsClockFromTheMachinesOwnTime) {
  std::vector<std::string> dates;
  LoopbackServer server{[&](const httplib::Request& request, httplib::Response& reply) {
    dates.push_back(request.get_header_value("x-amz-date"));
    if (dates.size() % 2 == 0) return;
    reply.status = 403;
    reply.set_header("Date", dates.size() == 1 ? "Thu, 01 Jan 2026 01:00:00 GMT" : "Thu, 01 Jan 2026 03:00:00 GMT");
    reply.set_content("<Error><Code>RequestTimeTooSkewed</Code></Error>", "application/xml");
  }};
  auto config = make_s3_config({.scheme = Scheme::s3, .bucket = "models", .path = "run"}, {.endpoint = server.url()},
                               environment_of({}));
  ASSERT_TRUE(config);
  config->credentials = given_credentials({"id", "secret", ""});
  config->clock = std::make_shared<fakes::FakeClock>();  // It stays at 2026-01-01 00:00.
  S3Client client{*config, {.backoff = {.initial = std::chrono::milliseconds{1}}}};
  ASSERT_TRUE(client.send("get", {.method = "GET", .object = "run/a"}));
  ASSERT_TRUE(client.send("get", {.method = "GET", .object = "run/a"}));
  EXPECT_EQ(dates, (std::vector<std::string>{"20260101T000000Z", "20260101T010000Z",  // Each request is sent twice.
                                             "20260101T010000Z", "20260101T030000Z"}));
}

TEST(S3Client, SaysForWhatItTriesAgainWhileItDoes) {
  const S3Client* asked = nullptr;
  std::vector<std::string> troubles;
  LoopbackServer server{[&](const httplib::Request&, httplib::Response& reply) {
    troubles.push_back(asked->trouble());
    if (troubles.size() < 3) reply.status = 503;
  }};
  auto config = make_s3_config({.scheme = Scheme::s3, .bucket = "models", .path = "run"}, {.endpoint = server.url()},
                               environment_of({}));
  ASSERT_TRUE(config);
  config->credentials =
      std::make_shared<AwsCredentialChain>(std::vector<AwsCredentialSource>{{"the test", []() -> Result<Credentials> {
                                                                               return Credentials{"id", "secret", ""};
                                                                             }}});
  HttpTuning tuning;
  tuning.backoff.initial = std::chrono::milliseconds{1};
  S3Client client{*config, tuning};
  asked = &client;
  ASSERT_TRUE(client.send("get it", {.method = "GET", .object = "run/a"}));
  ASSERT_EQ(troubles.size(), 3U);
  EXPECT_EQ(troubles[0], "");
  EXPECT_THAT(troubles[1], testing::HasSubstr("503"));
  EXPECT_EQ(troubles[2], troubles[1]);
  EXPECT_EQ(client.trouble(), "");
}

}  // namespace
}  // namespace trainyard::storage
