// A put or a get whose fault does not pass ends soon, with an error that says what to do, and leaves the object as it
// was or whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "storage/s3_store.hpp"
#include "tests/fakes/fault_proxy.hpp"
#include "tests/storage/s3_faults.hpp"
#include "tests/storage/s3_fixture.hpp"
#include "tests/storage/store_contract.hpp"

namespace trainyard::storage {
namespace {

using testing::HasSubstr;
using Kind = Fault::Kind;
using std::chrono::steady_clock;

class AnS3StoreInAnOutage : public S3Fixture {
 protected:
  static Result<void> put_bytes(Store& store, std::string_view key, const std::vector<std::byte>& content) {
    const std::span<const std::byte> piece{content};
    return store.put(key, {&piece, 1});
  }
};

// Runs all in parallel, since they mostly wait.
TEST_F(AnS3StoreInAnOutage, EndsATransferThatDripsAndTriesItAgain) {
  tuning.http.stall_timeout = std::chrono::seconds{1};
  const std::vector<std::byte> small = contract::some_bytes(900);
  const std::vector<std::byte> large = contract::some_bytes(std::size_t{4} << 20);  // More than sockets hold.
  ASSERT_TRUE(put_bytes(*open(server().port()), "there", small));
  std::vector<std::jthread> tries;
  for (const auto* content : {&small, &large}) {
    tries.emplace_back([&, content] {
      FaultProxy proxy{server().port(), fail_first(1, "PUT", {Kind::drip_request, "", 0})};
      const auto store = open(proxy.port(), content == &small ? "small" : "large");
      const auto put = put_bytes(*store, "a", *content);
      EXPECT_TRUE(put) << put.error().message;
      EXPECT_EQ(proxy.request_count(), 2);
      EXPECT_EQ(store->get("a"), *content);
    });
  }
  tries.emplace_back([&] {
    FaultProxy proxy{server().port(), fail_first(1, "GET", {Kind::drip_reply, "", 0})};
    EXPECT_EQ(open(proxy.port())->get("there"), small);
    EXPECT_EQ(proxy.request_count(), 2);
  });
  S3Tuning impatient = tuning;
  impatient.http.patience = impatient.http.first_patience = std::chrono::seconds{1};
  const auto says_so = [](const Error& error, std::string_view object) {
    EXPECT_EQ(error.kind, ErrorKind::timeout) << error.message;
    EXPECT_THAT(error.message, HasSubstr("too slow. Less than 1024 bytes/sec"));
    EXPECT_THAT(error.message, HasSubstr(object));
  };
  tries.emplace_back([&] {
    FaultProxy proxy{server().port(), fail_all("PUT", {Kind::drip_request, "", 0})};
    S3Store store{config_at(proxy.port()), impatient};
    const auto put = put_bytes(store, "never", small);
    ASSERT_FALSE(put);
    says_so(put.error(), "/run/never");
    EXPECT_GE(proxy.request_count(), 2) << "it is tried again first";
  });
  tries.emplace_back([&] {
    FaultProxy proxy{server().port(), fail_all("GET", {Kind::drip_reply, "", 0})};
    S3Store store{config_at(proxy.port()), impatient};
    const auto got = store.get("there");
    ASSERT_FALSE(got);
    says_so(got.error(), "/run/there");
    EXPECT_GE(proxy.request_count(), 2);
  });
}

TEST_F(AnS3StoreInAnOutage, WaitsAsLongAsTheServerAsks) {
  for (const auto& [status, code] : {std::pair{503, "SlowDown"}, std::pair{429, "TooManyRequests"}}) {
    std::vector<steady_clock::time_point> asked;
    FaultProxy proxy{server().port(), [&, status = status, code = code](const ProxiedRequest&) {
                       asked.push_back(steady_clock::now());
                       return asked.size() == 1 ? refuse(status, code, "Retry-After: 1\r\n") : Fault{};
                     }};
    const auto put = put_text(*open(proxy.port()), "a", "x");
    ASSERT_TRUE(put) << put.error().message;
    ASSERT_EQ(asked.size(), 2U);
    EXPECT_GE(asked[1] - asked[0], std::chrono::milliseconds{990}) << code;
  }
}

TEST_F(AnS3StoreInAnOutage, ReturnsTheErrorKindThatARunActsOn) {
  struct Row {
    int status;
    std::string code;
    ErrorKind kind;
  };
  // None of them is a conflict, which would mean that another run has taken over.
  const Row rows[] = {
      {403, "AccessDenied", ErrorKind::forbidden},
      {403, "ExpiredToken", ErrorKind::unauthorized},
      {404, "NoSuchBucket", ErrorKind::not_found},
      {409, "OperationAborted", ErrorKind::unavailable},
      {409, "Conflict", ErrorKind::unavailable},
      {409, "ConditionalRequestConflict", ErrorKind::unavailable},
      {412, "PreconditionFailed", ErrorKind::already_exists},
      {429, "TooManyRequests", ErrorKind::throttled},
      {500, "InternalError", ErrorKind::unavailable},
      {503, "SlowDown", ErrorKind::throttled},
      {503, "ServiceUnavailable", ErrorKind::unavailable},
      {507, "XMinioStorageFull", ErrorKind::io},
      {403, "QuotaExceeded", ErrorKind::io},
      {400, "BadDigest", ErrorKind::corrupt},
      {400, "RequestTimeout", ErrorKind::timeout},
  };
  tuning.http.patience = tuning.http.first_patience = std::chrono::milliseconds{50};
  const std::vector<std::byte> small = contract::some_bytes(100);
  const std::vector<std::byte> large = contract::some_bytes((std::size_t{5} << 20) + 1);
  for (const Row& row : rows) {
    for (const auto* content : {&small, &large}) {
      FaultProxy proxy{server().port(), fail_all("PUT", refuse(row.status, row.code))};
      const auto put = put_bytes(*open(proxy.port()), "a", *content);
      ASSERT_FALSE(put) << row.code;
      EXPECT_EQ(put.error().kind, row.kind) << row.code << ", " << content->size() << " bytes";
      EXPECT_THAT(put.error().message, HasSubstr(row.code));
    }
  }
}

TEST_F(AnS3StoreInAnOutage, SaysThatTheBucketIsGoneWhenItWasDeletedInMidUpload) {
  tuning.transfer.connection_count = 1;
  const std::vector<std::byte> content = contract::some_bytes((std::size_t{11} << 20) + 1);
  bool is_gone = false;
  FaultProxy proxy{server().port(), [&](const ProxiedRequest& request) {
                     if (request.target.find("partNumber=2") != std::string::npos && !std::exchange(is_gone, true))
                       server().remove_bucket(bucket);
                     return Fault{};
                   }};
  const auto store = open(proxy.port());
  const auto start = steady_clock::now();
  const auto put = put_bytes(*store, "large", content);
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().kind, ErrorKind::not_found) << put.error().message;
  EXPECT_THAT(put.error().message, HasSubstr("Create the bucket"));
  EXPECT_LT(steady_clock::now() - start, std::chrono::seconds{60});
  server().make_bucket(bucket);
  const auto again = put_bytes(*store, "large", content);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(store->get("large"), content);
}

TEST_F(AnS3StoreInAnOutage, LeavesAnObjectAsItWasOrWholeWhicheverRequestItsWriterDiesAt) {
  const std::vector<std::byte> old_content = contract::some_bytes(1'000);
  const std::vector<std::byte> new_content = contract::some_bytes((std::size_t{6} << 20) + 1);
  const auto direct = open(server().port());
  int replaced = 0;
  for (const bool is_last_done : {false, true}) {
    for (int last = 1; last <= 4; ++last) {  // To begin, two parts, to complete.
      ASSERT_TRUE(put_bytes(*direct, "a", old_content));
      FaultProxy proxy{server().port(), [&](const ProxiedRequest& request) {
                         if (request.number < last) return Fault{};
                         // A final error is not retried, so this writer makes no further request.
                         const bool is_done = request.number == last && is_last_done;
                         return is_done ? Fault{Kind::lose_reply, "", 0} : refuse(403, "AccessDenied");
                       }};
      EXPECT_FALSE(put_bytes(*open(proxy.port()), "a", new_content));
      const auto now = direct->get("a");
      ASSERT_TRUE(now);
      EXPECT_TRUE(*now == old_content || *now == new_content) << "request " << last;
      if (*now == new_content) ++replaced;
      EXPECT_EQ(direct->list("").value().size(), 1U);
    }
  }
  EXPECT_EQ(replaced, 1) << "only when the completion was done";
}

}  // namespace
}  // namespace trainyard::storage
