// What a store over Arrow does while the network and the server fail: a proxy in front of the server does the harm.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/fakes/fault_proxy.hpp"
#include "tests/fakes/free_port.hpp"
#include "tests/storage/arrow/cloud_fixture.hpp"
#include "tests/storage/store_contract.hpp"

namespace trainyard::storage {
namespace {

using fakes::Fault;
using fakes::FaultProxy;
using fakes::http_reply;
using fakes::ProxiedRequest;
using Kind = fakes::Fault::Kind;
using testing::ElementsAre;
using testing::HasSubstr;

class ACloudStoreBehindAFaultyNetwork : public CloudFixture {
 protected:
  // The first `count` requests that go to the bucket suffer `fault`; what asks whether there is a server does not.
  FaultProxy::Decide first(int count, Fault fault) const {
    return [this, count, fault = std::move(fault), seen = 0](const ProxiedRequest& request) mutable {
      return request.target.find(bucket) != std::string::npos && ++seen <= count ? fault : Fault{};
    };
  }
  static Fault refuse(int status, const std::string& code) {
    return {
        Kind::reply,
        http_reply(status, fmt::format("x-ms-error-code: {}\r\n", code),
                   fmt::format("<?xml version=\"1.0\"?><Error><Code>{0}</Code><Message>words</Message></Error>", code)),
        0};
  }
};
INSTANTIATE_TEST_SUITE_P(Clouds, ACloudStoreBehindAFaultyNetwork, testing::Values("gs", "az"), cloud_name);

TEST_P(ACloudStoreBehindAFaultyNetwork, DoesItAfterAll) {
  const std::vector<std::pair<std::string, Fault>> rows = {
      {"reset", {Kind::reset_request, "", 0}},
      {"the reply is lost", {Kind::lose_reply, "", 0}},
      {"503", refuse(503, "ServerBusy")},
      {"500", refuse(500, "InternalError")},
  };
  for (const auto& [name, fault] : rows) {
    FaultProxy proxy{server().port(), first(1, fault)};
    const auto store = open(proxy.port());
    const auto put = put_text(*store, "a/b", name);
    ASSERT_TRUE(put) << name << ": " << put.error().message;
    FaultProxy reading{server().port(), first(1, fault)};
    const auto reader = open(reading.port());
    EXPECT_EQ(get_text(*reader, "a/b"), name) << name;
    EXPECT_EQ(reader->list(""), (std::vector<ObjectInfo>{{"a/b", name.size()}})) << name;
  }
}

TEST_P(ACloudStoreBehindAFaultyNetwork, SaysAtOnceWhatDoesNotPass) {
  const std::vector<std::tuple<int, std::string, ErrorKind>> rows = {
      {403, "AuthorizationPermissionMismatch", ErrorKind::forbidden},
      {401, "InvalidAuthenticationInfo", ErrorKind::unauthorized},
  };
  for (const auto& [status, code, kind] : rows) {
    FaultProxy proxy{server().port(), first(1'000, refuse(status, code))};
    const auto store = open(proxy.port());
    const auto nothing = [](const auto&) {};
    const std::vector<Result<void>> outcomes = {store->probe(), put_text(*store, "a", "x"),
                                                store->get("a").map(nothing), store->list("").map(nothing)};
    for (const Result<void>& outcome : outcomes) {
      ASSERT_FALSE(outcome);
      EXPECT_EQ(outcome.error().kind, kind) << outcome.error().message;
      EXPECT_THAT(outcome.error().message, HasSubstr(GetParam() + "://" + bucket));
    }
  }
}

TEST_P(ACloudStoreBehindAFaultyNetwork, GivesUpOnAServerThatKeepsRefusing) {
  FaultProxy proxy{server().port(), first(1'000'000, refuse(503, "ServerBusy"))};
  tuning.first_patience = std::chrono::milliseconds{1};
  const auto store = open(proxy.port());
  const auto started = std::chrono::steady_clock::now();
  const auto put = put_text(*store, "a", "x");
  ASSERT_FALSE(put);
  EXPECT_TRUE(is_transient(put.error().kind)) << put.error().message;
  EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds{60});
}

TEST_P(ACloudStoreBehindAFaultyNetwork, LeavesNoObjectThatIsNotWhole) {
  const std::vector<std::byte> content = contract::some_bytes(std::size_t{20} << 20);
  const std::span<const std::byte> piece{content};
  // Google's uploads go past the proxy once they have begun: there the first request is the one that fails.
  FaultProxy proxy{server().port(), [this, seen = 0](const ProxiedRequest& request) mutable {
                     const bool is_write = request.method == "PUT" || request.method == "POST";
                     const int last = GetParam() == "az" ? 1 : 0;
                     return is_write && request.target.find(bucket) != std::string::npos && ++seen > last
                                ? refuse(403, "AuthorizationPermissionMismatch")
                                : Fault{};
                   }};
  const auto put = open(proxy.port())->put("a/large", {&piece, 1});
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().kind, ErrorKind::forbidden) << put.error().message;
  const auto store = open();
  EXPECT_EQ(store->get("a/large").error().kind, ErrorKind::not_found);
  EXPECT_EQ(store->list(""), std::vector<ObjectInfo>{});
  std::vector<std::string> asked;
  ASSERT_TRUE(store->remove_unfinished([&](std::string_view folder) {
    asked.emplace_back(folder);
    return true;
  }));
  EXPECT_EQ(asked, GetParam() == "az" ? std::vector<std::string>{"a"} : std::vector<std::string>{});
  asked.clear();
  ASSERT_TRUE(store->remove_unfinished([&](std::string_view folder) {
    asked.emplace_back(folder);
    return true;
  }));
  EXPECT_EQ(asked, std::vector<std::string>{});
}

TEST_P(ACloudStoreBehindAFaultyNetwork, SaysSoonThatThereIsNoServer) {
  tuning.first_patience = std::chrono::milliseconds{100};
  const auto store = open(fakes::free_port());
  const auto started = std::chrono::steady_clock::now();
  for (const auto& outcome : {store->probe(), put_text(*store, "a", "x")}) {
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().kind, ErrorKind::unavailable);
    EXPECT_THAT(outcome.error().message, HasSubstr("connect"));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds{10});
}

TEST_P(ACloudStoreBehindAFaultyNetwork, SaysSoonThatAServerIsSilent) {
  FaultProxy proxy{server().port(), [](const ProxiedRequest&) { return Fault{Kind::stall, "", 0}; }};
  tuning.connect_timeout = std::chrono::milliseconds{300};
  tuning.first_patience = std::chrono::milliseconds{100};
  const auto probed = open(proxy.port())->probe();
  ASSERT_FALSE(probed);
  EXPECT_TRUE(is_transient(probed.error().kind)) << probed.error().message;
}

class Azure : public CloudFixture {};
INSTANTIATE_TEST_SUITE_P(Clouds, Azure, testing::Values("az"), cloud_name);

TEST_P(Azure, IsAskedOnlyForFoldersThatLeadToThePrefix) {
  const auto store = open();
  for (const char* key : {"step-1/g-1/a", "step-2/g-1/a", "step-2/g-2/a", "step-3", "snapshots/g-1/step-1.json",
                          "snapshots/g-2/step-2.json", "generations/1.json"}) {
    ASSERT_TRUE(put_text(*store, key, key));
  }
  std::vector<std::string> asked;
  FaultProxy proxy{
      server().port(), [&](const ProxiedRequest& request) {
        const std::size_t folder = request.target.find("prefix=");
        if (folder != std::string::npos)
          asked.push_back(request.target.substr(folder + 7, request.target.find('&', folder) - folder - 7));
        return Fault{};
      }};
  const auto reader = open(proxy.port());
  EXPECT_EQ(contract::keys_of(reader->list("step-").value()),
            (std::vector<std::string>{"step-1/g-1/a", "step-2/g-1/a", "step-2/g-2/a", "step-3"}));
  EXPECT_THAT(asked, ElementsAre("run/", "run/step-1/", "run/step-1/g-1/", "run/step-2/", "run/step-2/g-1/",
                                 "run/step-2/g-2/"));
  asked.clear();
  EXPECT_EQ(contract::keys_of(reader->list("snapshots/g-1/").value()),
            std::vector<std::string>{"snapshots/g-1/step-1.json"});
  EXPECT_THAT(asked, ElementsAre("run/snapshots/g-1/"));
}

TEST_P(Azure, RefusesAWrongKeyAndDoesNotShowIt) {
  const std::string wrong = "d3Jvbmcta2V5LXdyb25nLWtleS13cm9uZw==";
  const auto store = try_open(server().environment_at(server().port(), wrong), uri_of()).value();
  const auto probed = store->probe();
  ASSERT_FALSE(probed);
  EXPECT_TRUE(probed.error().kind == ErrorKind::unauthorized || probed.error().kind == ErrorKind::forbidden)
      << probed.error().message;
  EXPECT_THAT(probed.error().message, testing::Not(HasSubstr(wrong)));
  for (const char* text : {"not base64", "x"}) {
    const auto opened = try_open(server().environment_at(server().port(), text), uri_of());
    const auto tried = opened ? (*opened)->probe() : Result<void>{tl::unexpected(opened.error())};
    ASSERT_FALSE(tried);
    EXPECT_FALSE(is_transient(tried.error().kind)) << tried.error().message;
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
    EXPECT_THAT(refused.error().message, testing::Not(HasSubstr(signature)));
  }
}

}  // namespace
}  // namespace trainyard::storage
