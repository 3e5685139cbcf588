#include "storage/cloud_client.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tests/fakes/fault_proxy.hpp"
#include "tests/storage/loopback_server.hpp"

namespace trainyard::storage {
namespace {

using testing::ElementsAre;

HttpTuning quick_tuning() {
  return {.patience = std::chrono::minutes{1},
          .first_patience = std::chrono::minutes{1},
          .backoff = {.initial = std::chrono::milliseconds{1}, .max = std::chrono::milliseconds{5}}};
}

CloudService service_at(const LoopbackServer& server, AccessTokens::Fetch fetch) {
  return {.endpoint = server.url(),
          .tokens = fetch ? std::make_shared<AccessTokens>(std::move(fetch)) : nullptr,
          .query_token = {},
          .sign = nullptr,
          .error_of = [](const HttpReply& reply, std::string_view doing) {
            return Error{
                reply.status == 401 ? ErrorKind::unauthorized : ErrorKind::invalid, std::string{doing} + " failed", {}};
          }};
}

TEST(CloudClient, RepeatsTheRequestWithANewTokenWhenTheServerRefusesTheOldOne) {
  std::vector<std::string> seen;
  LoopbackServer server{[&](const httplib::Request& request, httplib::Response& response) {
    seen.push_back(request.get_header_value("Authorization"));
    if (seen.back() != "Bearer token-2") response.status = 401;
  }};
  int fetches = 0;
  CloudClient client{service_at(server,
                                [&]() -> Result<AccessToken> {
                                  return AccessToken{"token-" + std::to_string(++fetches), std::nullopt};
                                }),
                     quick_tuning()};
  EXPECT_TRUE(client.send("look", {.method = "GET", .path = "/a"}));
  EXPECT_TRUE(client.send("look", {.method = "GET", .path = "/a"}));
  EXPECT_THAT(seen, ElementsAre("Bearer token-1", "Bearer token-2", "Bearer token-2"));
}

TEST(CloudClient, KeepsTheNewTokenThatAnotherRequestGotMeanwhile) {
  std::shared_ptr<AccessTokens> tokens;
  std::vector<std::string> seen;
  LoopbackServer server{[&](const httplib::Request& request, httplib::Response& response) {
    seen.push_back(request.get_header_value("Authorization"));
    if (seen.size() > 1) return;
    // The other request's server refuses the token first.
    tokens->refuse("token-1");
    EXPECT_EQ(tokens->get(), "token-2");
    response.status = 401;
  }};
  int fetches = 0;
  const CloudService service = service_at(server, [&]() -> Result<AccessToken> {
    return AccessToken{"token-" + std::to_string(++fetches), std::nullopt};
  });
  tokens = service.tokens;
  CloudClient client{service, quick_tuning()};
  EXPECT_TRUE(client.send("look", {.method = "GET", .path = "/a"}));
  EXPECT_THAT(seen, ElementsAre("Bearer token-1", "Bearer token-2"));
  EXPECT_EQ(fetches, 2);
}

TEST(CloudClient, SaysThatANewTokenIsRefusedToo) {
  LoopbackServer server{[](const httplib::Request&, httplib::Response& response) { response.status = 401; }};
  int fetches = 0;
  CloudClient client{service_at(server,
                                [&]() -> Result<AccessToken> {
                                  return AccessToken{"token-" + std::to_string(++fetches), std::nullopt};
                                }),
                     quick_tuning()};
  const auto sent = client.send("look", {.method = "GET", .path = "/a"});
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().kind, ErrorKind::unauthorized);
  EXPECT_EQ(fetches, 2);
}

TEST(CloudClient, KeepsATokenWhoseRequestIsRefusedForAnotherReason) {
  LoopbackServer server{[](const httplib::Request&, httplib::Response& response) { response.status = 403; }};
  int fetches = 0;
  CloudClient client{service_at(server,
                                [&]() -> Result<AccessToken> {
                                  return AccessToken{"token-" + std::to_string(++fetches), std::nullopt};
                                }),
                     quick_tuning()};
  EXPECT_EQ(client.send("look", {.method = "GET", .path = "/a"}).error().kind, ErrorKind::invalid);
  EXPECT_EQ(server.request_count(), 1);
  EXPECT_EQ(fetches, 1);
}

TEST(CloudClient, WaitsForAnIssuerThatIsSlowOrThrottles) {
  LoopbackServer server{[](const httplib::Request&, httplib::Response&) {}};
  int fetches = 0;
  CloudClient client{service_at(server,
                                [&]() -> Result<AccessToken> {
                                  ++fetches;
                                  if (fetches == 1) return fail(ErrorKind::timeout, "slow");
                                  if (fetches == 2) return fail(ErrorKind::throttled, "too many");
                                  return AccessToken{"token", std::nullopt};
                                }),
                     quick_tuning()};
  EXPECT_TRUE(client.send("look", {.method = "GET", .path = "/a"}));
  EXPECT_EQ(fetches, 3);
}

TEST(CloudClient, SaysForWhatItTriesAgainWhileItDoes) {
  const CloudClient* asked = nullptr;
  std::vector<std::string> troubles;
  LoopbackServer server{[&](const httplib::Request&, httplib::Response& response) {
    troubles.push_back(asked->trouble());
    if (troubles.size() < 2) response.status = 503;
  }};
  CloudService service = service_at(server, nullptr);
  service.error_of = [](const HttpReply&, std::string_view) { return Error{ErrorKind::unavailable, "away", {}}; };
  CloudClient client{service, quick_tuning()};
  asked = &client;
  ASSERT_TRUE(client.send("look", {.method = "GET", .path = "/a"}));
  EXPECT_THAT(troubles, ElementsAre("", testing::HasSubstr("away")));
  EXPECT_EQ(client.trouble(), "");
}

TEST(CloudClient, AddsWhatAuthorisesARequestInItsQuery) {
  std::string target;
  LoopbackServer server{[&](const httplib::Request& request, httplib::Response&) { target = request.target; }};
  CloudService service = service_at(server, nullptr);
  service.query_token = "sv=1&sig=x%3D";
  CloudClient client{service, quick_tuning()};
  ASSERT_TRUE(client.send("look", {.method = "GET", .path = "/a", .query = {{"b", "c d"}}}));
  EXPECT_EQ(target, "/a?b=c%20d&sv=1&sig=x%3D");
  ASSERT_TRUE(client.send("look", {.method = "GET", .path = "/a"}));
  EXPECT_EQ(target, "/a?sv=1&sig=x%3D");
}

TEST(CloudClient, SendsNoQuestionMarkWithoutAQuery) {
  std::string target;
  LoopbackServer server{[&](const httplib::Request& request, httplib::Response&) { target = request.target; }};
  CloudClient client{service_at(server, nullptr), quick_tuning()};
  ASSERT_TRUE(client.send("look", {.method = "GET", .path = "/a"}));
  EXPECT_EQ(target, "/a");
}

TEST(CloudClient, FailsWhereARequestCannotBeSigned) {
  LoopbackServer server{[](const httplib::Request&, httplib::Response&) {}};
  CloudService service = service_at(server, nullptr);
  service.sign = [](CloudRequest&) -> Result<void> { return fail(ErrorKind::unauthorized, "no key"); };
  CloudClient client{service, quick_tuning()};
  const auto sent = client.send("look", {.method = "GET", .path = "/a"});
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().kind, ErrorKind::unauthorized);
  EXPECT_THAT(sent.error().message, testing::StartsWith("look at " + server.url() + ": no key"));
  EXPECT_EQ(server.request_count(), 0);
}

TEST(CloudClient, SendsWhatTheSignatureAdds) {
  std::string signature;
  LoopbackServer server{[&](const httplib::Request& request, httplib::Response&) {
    signature = request.get_header_value("X-Signature");
  }};
  CloudService service = service_at(server, nullptr);
  service.sign = [](CloudRequest& request) -> Result<void> {
    request.headers["x-signature"] = "of " + request.method;
    return {};
  };
  CloudClient client{service, quick_tuning()};
  ASSERT_TRUE(client.send("look", {.method = "GET", .path = "/a"}));
  EXPECT_EQ(signature, "of GET");
}

TEST(CloudClient, EndsARequestAtItsDeadline) {
  LoopbackServer unused{[](const httplib::Request&, httplib::Response&) {}};
  fakes::FaultProxy silent{1, [](const auto&) { return fakes::Fault{fakes::Fault::Kind::stall, "", 0}; }};
  CloudService service = service_at(unused, nullptr);
  service.endpoint = "http://127.0.0.1:" + std::to_string(silent.port());
  HttpTuning impatient = quick_tuning();
  impatient.first_patience = std::chrono::milliseconds{1};
  CloudClient client{service, impatient};
  const auto sent = client.send("join", {.method = "POST", .path = "/a", .deadline = std::chrono::milliseconds{30}});
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().kind, ErrorKind::timeout);
  EXPECT_THAT(sent.error().message, testing::HasSubstr("timed out after")) << "by its deadline, and not as a stall";
}

TEST(CloudClient, ReadsARangeInParts) {
  std::vector<std::string> ranges;
  LoopbackServer server{[&](const httplib::Request& request, httplib::Response& response) {
    ranges.push_back(request.get_header_value("Range"));
    response.set_content("0123456789", "application/octet-stream");  // The server cuts the range out of it.
  }};
  CloudClient client{service_at(server, nullptr), quick_tuning()};
  std::string into(7, '-');
  const auto read =
      client.read_range("get", {.method = "GET", .path = "/a"}, 2, std::as_writable_bytes(std::span{into}),
                        {.part_bytes = 3, .connection_count = 1});
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(into, "2345678");
  EXPECT_THAT(ranges, ElementsAre("bytes=2-4", "bytes=5-7", "bytes=8-8"));
  ranges.clear();
  ASSERT_TRUE(client.read_range("get", {.method = "GET", .path = "/a"}, 2,
                                std::as_writable_bytes(std::span{into}).first(6),
                                {.part_bytes = 3, .connection_count = 1}));
  EXPECT_THAT(ranges, ElementsAre("bytes=2-4", "bytes=5-7"));
}

TEST(CloudClient, TakesAWholeObjectForARangeOnlyFromItsBeginning) {
  LoopbackServer server{[](const httplib::Request& request, httplib::Response& response) {
    const_cast<httplib::Request&>(request).ranges.clear();  // Otherwise the server itself cuts the body.
    response.set_content("abcd", "application/octet-stream");
  }};
  CloudClient client{service_at(server, nullptr), quick_tuning()};
  std::string into(4, '-');
  const auto read = [&](std::uint64_t offset) {
    return client.read_range("get", {.method = "GET", .path = "/a"}, offset, std::as_writable_bytes(std::span{into}),
                             {.part_bytes = 1'000, .connection_count = 1});
  };
  ASSERT_TRUE(read(0));
  EXPECT_EQ(into, "abcd");
  EXPECT_EQ(read(1).error().kind, ErrorKind::corrupt);
}

TEST(CloudClient, RefusesARangeThatIsNotTheOneAskedFor) {
  struct Row {
    int status;
    std::string range;
    std::string body;
  };
  const Row rows[] = {{206, "bytes 3-6/9", "abcd"},
                      {206, "", "abcd"},
                      {206, "bytes 20-23/30", "abcd"},
                      {200, "", "abcd"},
                      {206, "bytes 2-4/9", "abc"}};
  for (const Row& row : rows) {
    LoopbackServer server{[&](const httplib::Request& request, httplib::Response& response) {
      EXPECT_EQ(request.get_header_value("Range"), "bytes=2-5");
      const_cast<httplib::Request&>(request).ranges.clear();  // Otherwise the server itself cuts the body.
      response.status = row.status;
      if (!row.range.empty()) response.set_header("Content-Range", row.range);
      response.set_content(row.body, "application/octet-stream");
    }};
    CloudClient client{service_at(server, nullptr), quick_tuning()};
    std::vector<std::byte> into(4);
    const auto read = client.read_range("get", {.method = "GET", .path = "/a"}, 2, into, {1'000, 4});
    ASSERT_FALSE(read) << row.status << row.range;
    EXPECT_EQ(read.error().kind, ErrorKind::corrupt) << read.error().message;
  }
}

}  // namespace
}  // namespace trainyard::storage
