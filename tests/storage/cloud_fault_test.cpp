// Stores of gs:// and az:// while the network and the server fail. A proxy in front of the server causes the faults.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "storage/gcs_upload.hpp"
#include "tests/fakes/fault_proxy.hpp"
#include "tests/fakes/free_port.hpp"
#include "tests/storage/cloud_fixture.hpp"
#include "tests/storage/store_contract.hpp"

namespace trainyard::storage {
namespace {

using fakes::Fault;
using fakes::FaultProxy;
using fakes::http_reply;
using fakes::ProxiedRequest;
using Kind = fakes::Fault::Kind;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

struct NamedFault {
  std::string name;
  Fault fault;
};

class ACloudStoreBehindAFaultyNetwork : public CloudFixture {
 protected:
  static FaultProxy::Decide first(int count, std::string method, Fault fault) {
    return
        [count, method = std::move(method), fault = std::move(fault), seen = 0](const ProxiedRequest& request) mutable {
          return request.method == method && ++seen <= count ? fault : Fault{};
        };
  }
  // The writing requests whose target contains `words`.
  static FaultProxy::Decide each_write(std::string words, Fault fault) {
    return [words = std::move(words), fault = std::move(fault)](const ProxiedRequest& request) {
      return request.method[0] == 'P' && request.target.find(words) != std::string::npos ? fault : Fault{};
    };
  }
  // A refusal in the form of the test's cloud.
  [[nodiscard]] Fault refuse(int status, const std::string& code, const std::string& headers = "") const {
    const std::string json =
        fmt::format(R"({{"error": {{"code": {}, "message": "words", "errors": [{{"reason": "{}"}}]}}}})", status, code);
    const std::string xml = fmt::format(
        "<?xml version=\"1.0\"?><Error><Code>{}</Code><Message>words\nRequestId:1"
        "</Message></Error>",
        code);
    return {Kind::reply, http_reply(status, headers, is_google() ? json : xml), 0};
  }
  [[nodiscard]] std::vector<NamedFault> passing_faults() const {
    return {
        {"reset before the body", {Kind::reset_request, "", 0}},
        {"reset in the body", {Kind::reset_request, "", 3'000}},
        {"the reply is lost", {Kind::lose_reply, "", 0}},
        {"500", refuse(500, "InternalError")},
        {"502 of a balancer without words", {Kind::reply, http_reply(502, "", "Bad Gateway"), 0}},
        {"503", refuse(503, "ServerBusy", "Retry-After: 0\r\n")},
        {"429", refuse(429, "rateLimitExceeded", "Retry-After: 0\r\n")},
        {"408", refuse(408, "RequestTimeout")},
        {"other bytes came than were sent",
         is_google() ? Fault{Kind::reply,
                             http_reply(400, "", R"({"error": {"code": 400, "message": "Provided CRC32C \"x\""}})"), 0}
                     : refuse(400, "Md5Mismatch")}};
  }
  // Puts an object of more than one part.
  [[nodiscard]] static Result<void> put_large(Store& store, const std::vector<std::byte>& content,
                                              const PutOptions& options = {}) {
    const std::span<const std::byte> piece{content};
    return store.put("a/large", {&piece, 1}, options);
  }
  [[nodiscard]] std::string completion() const { return is_google() ? "large?uploadId" : "comp=blocklist"; }
  const std::vector<std::byte> large = contract::some_bytes((std::size_t{2} << 20) + 1);
};
INSTANTIATE_TEST_SUITE_P(Clouds, ACloudStoreBehindAFaultyNetwork, testing::Values("gs", "az"), cloud_name);

TEST_P(ACloudStoreBehindAFaultyNetwork, PutsASmallObjectAfterAll) {
  const std::vector<std::byte> content = contract::some_bytes(10'000);
  const std::span<const std::byte> piece{content};
  for (const auto& [name, fault] : passing_faults()) {
    FaultProxy proxy{server().port(), first(2, is_google() ? "POST" : "PUT", fault)};
    const auto store = open(proxy.port());
    const auto put = store->put("a", {&piece, 1});
    EXPECT_TRUE(put) << name << ": " << put.error().message;
    EXPECT_EQ(store->get("a"), content) << name;
  }
}

TEST_P(ACloudStoreBehindAFaultyNetwork, SaysForWhatItTriesAgain) {
  const Store* asked = nullptr;
  std::vector<std::string> troubles;
  FaultProxy proxy{server().port(), [&](const ProxiedRequest&) {
                     troubles.push_back(asked->trouble());
                     return troubles.size() == 1 ? refuse(503, "ServerBusy", "Retry-After: 0\r\n") : Fault{};
                   }};
  const auto store = open(proxy.port());
  asked = store.get();
  ASSERT_TRUE(put_text(*store, "a", "x"));
  EXPECT_THAT(troubles, testing::ElementsAre("", HasSubstr("503")));
  EXPECT_EQ(store->trouble(), "");
}

TEST_P(ACloudStoreBehindAFaultyNetwork, GivesUpARemovalOnceAStopIsRequested) {
  std::stop_source stop;
  FaultProxy proxy{server().port(), [&](const ProxiedRequest& request) {
                     if (request.method != "DELETE") return Fault{};
                     stop.request_stop();
                     return Fault{Kind::stall, "", 0};
                   }};
  const auto store = open(proxy.port());
  ASSERT_TRUE(put_text(*store, "a", "x"));
  const std::vector<std::string> keys{"a"};
  EXPECT_EQ(store->remove_all(keys, stop.get_token()).error().kind, ErrorKind::cancelled);
}

TEST_P(ACloudStoreBehindAFaultyNetwork, PutsALargeObjectAfterAll) {
  const std::vector<std::string> targets = is_google()
                                               ? std::vector<std::string>{"?uploads", "partNumber=2", completion()}
                                               : std::vector<std::string>{"blockid=", completion()};
  for (const std::string& target : targets) {
    for (const auto& [name, fault] : passing_faults()) {
      int seen = 0;
      FaultProxy proxy{server().port(), [&](const ProxiedRequest& request) {
                         return request.target.find(target) != std::string::npos && ++seen <= 1 ? fault : Fault{};
                       }};
      const auto store = open(proxy.port());
      const auto put = put_large(*store, large);
      ASSERT_TRUE(put) << target << " " << name << ": " << put.error().message;
      EXPECT_GE(seen, 1) << target;
      EXPECT_EQ(store->get("a/large"), large) << target << " " << name;
    }
  }
}

TEST_P(ACloudStoreBehindAFaultyNetwork, ReadsAfterAll) {
  ASSERT_TRUE(put_large(*open(), large));
  std::vector<NamedFault> rows = passing_faults();
  rows.push_back({"half a reply", {Kind::half_reply, "", 0}});
  for (const auto& [name, fault] : rows) {
    FaultProxy proxy{server().port(), first(2, "GET", fault)};
    const auto store = open(proxy.port());
    EXPECT_EQ(store->list("").value().size(), 1U) << name;
    EXPECT_EQ(store->get("a/large"), large) << name;
    FaultProxy second{server().port(), first(2, "GET", fault)};
    std::vector<std::byte> range(large.size() - 1);
    const auto read = open(second.port())->get_range("a/large", 1, range);
    ASSERT_TRUE(read) << name << ": " << read.error().message;
    EXPECT_TRUE(std::equal(range.begin(), range.end(), large.begin() + 1)) << name;
  }
}

TEST_P(ACloudStoreBehindAFaultyNetwork, TriesAgainWhatTookLongerThanItsPatience) {
  // A stall is given up after one second at the soonest.
  http.patience = http.first_patience = std::chrono::milliseconds{300};
  FaultProxy proxy{server().port(), first(1, is_google() ? "POST" : "PUT", {Kind::stall, "", 0})};
  const auto put = put_text(*open(proxy.port()), "a", "x");
  EXPECT_TRUE(put) << put.error().message;
}

TEST_P(ACloudStoreBehindAFaultyNetwork, SaysAtOnceWhatDoesNotPass) {
  const std::vector<std::tuple<int, std::string, ErrorKind>> rows = {
      {403, is_google() ? "forbidden" : "AuthorizationPermissionMismatch", ErrorKind::forbidden},
      {401, is_google() ? "required" : "InvalidAuthenticationInfo", ErrorKind::unauthorized},
  };
  for (const auto& [status, code, kind] : rows) {
    FaultProxy proxy{server().port(), [fault = refuse(status, code)](const ProxiedRequest&) { return fault; }};
    const auto store = open(proxy.port());
    const auto nothing = [](const auto&) {};
    const std::vector<Result<void>> outcomes = {store->probe(), put_text(*store, "a", "x"),
                                                store->get("a").map(nothing), store->list("").map(nothing),
                                                store->remove("a")};
    for (const Result<void>& outcome : outcomes) {
      ASSERT_FALSE(outcome);
      EXPECT_EQ(outcome.error().kind, kind) << outcome.error().message;
      EXPECT_THAT(outcome.error().message, AllOf(HasSubstr(GetParam() + "://" + bucket), HasSubstr("(words)")));
    }
    EXPECT_EQ(proxy.request_count(), 5) << code;
  }
}

TEST_P(ACloudStoreBehindAFaultyNetwork, CreatesOnceThoughRepliesAreLost) {
  for (const bool is_large : {false, true}) {
    const std::vector<std::byte> content = is_large ? large : contract::some_bytes(10);
    FaultProxy proxy{server().port(),
                     each_write(is_large && !is_google() ? "blocklist" : bucket, {Kind::lose_reply, "", 0})};
    http.patience = http.first_patience = std::chrono::milliseconds{1};
    const auto lost = put_large(*open(proxy.port(), is_large ? "l" : "s"), content, {.if_absent = true});
    // The object exists; only its writer can find out who wrote it.
    ASSERT_FALSE(lost);
    EXPECT_EQ(lost.error().kind, ErrorKind::unavailable) << lost.error().message;
    const auto store = open(server().port(), is_large ? "l" : "s");
    const auto again = put_large(*store, content, {.if_absent = true});
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().kind, ErrorKind::already_exists) << again.error().message;
    EXPECT_EQ(store->get("a/large"), content);
  }
}

TEST_P(ACloudStoreBehindAFaultyNetwork, NoticesAReplyThatChangedOnItsWay) {
  ASSERT_TRUE(put_text(*open(), "a", "the right words"));
  FaultProxy once{server().port(), first(1, "GET", {Kind::corrupt_reply, "", 0})};
  EXPECT_EQ(get_text(*open(once.port()), "a"), "the right words");
  FaultProxy always{server().port(), first(1'000, "GET", {Kind::corrupt_reply, "", 0})};
  const auto got = get_text(*open(always.port()), "a");
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().kind, ErrorKind::corrupt);
  EXPECT_THAT(got.error().message, HasSubstr("checksum"));
}

TEST_P(ACloudStoreBehindAFaultyNetwork, LeavesNoObjectThatIsNotWhole) {
  http.patience = http.first_patience = std::chrono::milliseconds{300};
  const std::string part = is_google() ? "partNumber=2" : "blockid=";
  const std::vector<std::pair<std::string, FaultProxy::Decide>> rows = {
      {"a part is forbidden", each_write(part, refuse(403, "AuthorizationPermissionMismatch"))},
      {"a part always fails", each_write(part, refuse(500, "InternalError"))},
      {"a part is always lost", each_write(part, {Kind::reset_request, "", 10})},
      {"the completion is refused", each_write(completion(), refuse(400, "InvalidPart"))},
  };
  for (const auto& [name, decide] : rows) {
    FaultProxy proxy{server().port(), decide};
    EXPECT_FALSE(put_large(*open(proxy.port()), large)) << name;
    const auto store = open();
    EXPECT_EQ(store->get("a/large").error().kind, ErrorKind::not_found) << name;
    EXPECT_EQ(store->list(""), std::vector<ObjectInfo>{}) << name;
    std::vector<std::string> asked;
    ASSERT_TRUE(store->remove_unfinished([&](std::string_view folder) {
      asked.emplace_back(folder);
      return true;
    }));
    EXPECT_EQ(asked, std::vector<std::string>{}) << name << ": the server was told to forget the parts";
  }
}

TEST_P(ACloudStoreBehindAFaultyNetwork, SendsEachPartOnceThoughTheReplyOfTheCompletionIsLost) {
  int parts = 0;
  int completions = 0;
  FaultProxy proxy{server().port(), [&](const ProxiedRequest& request) {
                     const auto asks = [&](const std::string& words) {
                       return request.method[0] == 'P' && request.target.find(words) != std::string::npos;
                     };
                     if (asks(is_google() ? "partNumber=" : "blockid=")) ++parts;
                     return asks(completion()) && ++completions == 1 ? Fault{Kind::lose_reply, "", 0} : Fault{};
                   }};
  const auto store = open(proxy.port());
  const auto put = put_large(*store, large);
  ASSERT_TRUE(put) << put.error().message;
  EXPECT_EQ(parts, 3);
  EXPECT_EQ(completions, 2);
  EXPECT_EQ(store->get("a/large"), large);
}

TEST_P(ACloudStoreBehindAFaultyNetwork, StartsTheUploadAgainWhenTheServerForgotIt) {
  int completions = 0;
  const Fault forgotten = is_google()
                              ? Fault{Kind::reply, http_reply(404, "", "<Error><Code>NoSuchUpload</Code></Error>"), 0}
                              : refuse(400, "InvalidBlockList");
  FaultProxy proxy{server().port(), [&](const ProxiedRequest& request) {
                     const bool is_completion = request.target.find(completion()) != std::string::npos &&
                                                request.method[0] == 'P' &&
                                                request.target.find("partNumber") == std::string::npos;
                     return is_completion && ++completions == 1 ? forgotten : Fault{};
                   }};
  const auto store = open(proxy.port());
  const auto put = put_large(*store, large);
  ASSERT_TRUE(put) << put.error().message;
  EXPECT_EQ(completions, 2);
  EXPECT_EQ(store->get("a/large"), large);
}

TEST_P(ACloudStoreBehindAFaultyNetwork, GivesUpOnAServerThatKeepsRefusing) {
  FaultProxy proxy{server().port(), [fault = refuse(503, "ServerBusy")](const ProxiedRequest&) { return fault; }};
  http.first_patience = std::chrono::milliseconds{100};
  const auto put = put_text(*open(proxy.port()), "a", "x");
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().kind, ErrorKind::throttled) << put.error().message;
}

TEST_P(ACloudStoreBehindAFaultyNetwork, SaysSoonThatThereIsNoServer) {
  http.first_patience = std::chrono::milliseconds{100};
  const auto store = open(fakes::free_port());
  for (const auto& outcome : {store->probe(), put_text(*store, "a", "x")}) {
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().kind, ErrorKind::unavailable);
    EXPECT_THAT(outcome.error().message, HasSubstr("connect"));
  }
}

class Google : public CloudFixture {};
INSTANTIATE_TEST_SUITE_P(Clouds, Google, testing::Values("gs"), cloud_name);

TEST_P(Google, SendsALargeObjectInOneStreamWhereThereAreNoMultipartUploads) {
  const std::vector<std::byte> content = contract::some_bytes((std::size_t{2} << 20) + 1);
  const std::span<const std::byte> piece{content};
  for (const int status : {403, 404, 501}) {
    int refused = 0;
    FaultProxy proxy{server().port(), [&](const ProxiedRequest& request) {
                       if (request.target.find("?uploads") == std::string::npos) return Fault{};
                       ++refused;
                       return Fault{Kind::reply, http_reply(status, "", ""), 0};
                     }};
    const auto store = open(proxy.port(), fmt::format("run-{}", status));
    for (const char* key : {"one", "two"}) {
      const auto put = store->put(key, {&piece, 1});
      ASSERT_TRUE(put) << status << ": " << put.error().message;
      EXPECT_EQ(store->get(key), content);
    }
    EXPECT_EQ(refused, 1) << "it is asked once";
  }
}

TEST_P(Google, RemovesTheUploadsThatDeadWritersLeft) {
  const GcsSettings settings = make_gcs_settings(uri_of(), server().environment_at(server().port())).value();
  CloudClient client{{.endpoint = settings.endpoint,
                      .tokens = nullptr,
                      .query_token = {},
                      .sign = nullptr,
                      .error_of = [](const HttpReply&, std::string_view) { return Error{}; }},
                     http};
  for (const char* key : {"old/g-1/a", "new/g-2/a"}) {
    ASSERT_TRUE(begin_gcs_upload(client, {.xml_path = fmt::format("/{}/run/{}", bucket, key), .doing = "die"}));
  }
  std::vector<std::string> asked;
  const auto is_old = [&](std::string_view folder) {
    asked.emplace_back(folder);
    return folder == "old/g-1";
  };
  ASSERT_TRUE(open()->remove_unfinished(is_old));
  EXPECT_THAT(asked, testing::UnorderedElementsAre("old/g-1", "new/g-2"));
  asked.clear();
  ASSERT_TRUE(open()->remove_unfinished(is_old));
  EXPECT_THAT(asked, testing::ElementsAre("new/g-2"));
}

class Azure : public CloudFixture {};
INSTANTIATE_TEST_SUITE_P(Clouds, Azure, testing::Values("az"), cloud_name);

TEST_P(Azure, RefusesAWrongKeyAndDoesNotShowIt) {
  const std::string wrong = "d3Jvbmcta2V5LXdyb25nLWtleS13cm9uZw==";
  const auto store = try_open(server().environment_at(server().port(), wrong), uri_of()).value();
  const auto probed = store->probe();
  ASSERT_FALSE(probed);
  EXPECT_TRUE(probed.error().kind == ErrorKind::unauthorized || probed.error().kind == ErrorKind::forbidden)
      << probed.error().message;
  EXPECT_THAT(probed.error().message, Not(HasSubstr(wrong)));
  for (const char* text : {"not base64", "x"}) {
    const auto tried = try_open(server().environment_at(server().port(), text), uri_of()).value()->probe();
    ASSERT_FALSE(tried);
    EXPECT_EQ(tried.error().kind, ErrorKind::unauthorized) << tried.error().message;
    EXPECT_THAT(tried.error().message, HasSubstr("not base64"));
  }
}

TEST_P(Azure, TakesATokenAndDoesNotShowIt) {
  const auto at = [this](const std::string& token) {
    return try_open(server().environment_at(server().port(), token), uri_of()).value();
  };
  const std::string token = CloudServer::account_token;
  const auto store = at(token);
  ASSERT_TRUE(put_text(*store, "a", "x"));
  EXPECT_EQ(get_text(*store, "a"), "x");
  EXPECT_EQ(store->list(""), (std::vector<ObjectInfo>{{"a", 1}}));

  const std::string signature = "d3Jvbmctd3Jvbmctd3Jvbmctd3Jvbmctd3Jvbmctd3I";
  const auto wrong = at(token.substr(0, token.find("sig=")) + "sig=" + signature + "%3D");
  const auto nothing = [](const auto&) {};
  for (const auto& refused : {wrong->probe(), put_text(*wrong, "a", "x"), wrong->get("a").map(nothing)}) {
    ASSERT_FALSE(refused);
    EXPECT_FALSE(is_transient(refused.error().kind)) << refused.error().message;
    EXPECT_THAT(refused.error().message, Not(HasSubstr(signature)));
  }
}

}  // namespace
}  // namespace trainyard::storage
