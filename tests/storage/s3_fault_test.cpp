// An S3 store while the network and the server fail. A proxy in front of a real server causes the faults.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "storage/s3_store.hpp"
#include "tests/fakes/fault_proxy.hpp"
#include "tests/storage/s3_faults.hpp"
#include "tests/storage/s3_fixture.hpp"
#include "tests/storage/store_contract.hpp"

namespace trainyard::storage {
namespace {

using fakes::http_reply;
using Kind = Fault::Kind;
using testing::HasSubstr;

struct FaultRow {
  std::string name;
  Fault fault;
};

// Faults that pass when the request is retried.
const std::vector<FaultRow>& passing_faults() {
  static const std::vector<FaultRow> rows = {
      {"reset before the body", {Kind::reset_request, "", 0}},
      {"reset in the body", {Kind::reset_request, "", 3'000}},
      {"the reply is lost", {Kind::lose_reply, "", 0}},
      {"500", refuse(500, "InternalError")},
      {"502 of a balancer without words", {Kind::reply, http_reply(502, "", "Bad Gateway"), 0}},
      {"503 SlowDown", refuse(503, "SlowDown", "Retry-After: 0\r\n")},
      {"429", refuse(429, "TooManyRequests", "Retry-After: 0\r\n")},
      {"400 RequestTimeout", refuse(400, "RequestTimeout")},
      {"409", refuse(409, "OperationAborted")},
      {"400 BadDigest", refuse(400, "BadDigest")},
  };
  return rows;
}

class AnS3StoreBehindAFaultyNetwork : public S3Fixture {};

TEST_F(AnS3StoreBehindAFaultyNetwork, PutsASmallObjectAfterAll) {
  for (const FaultRow& row : passing_faults()) {
    FaultProxy proxy{server().port(), fail_first(2, "PUT", row.fault)};
    const auto store = open(proxy.port());
    const std::vector<std::byte> content = contract::some_bytes(10'000);
    const std::span<const std::byte> piece{content};
    const auto put = static_cast<Store&>(*store).put("a", {&piece, 1});
    EXPECT_TRUE(put) << row.name << ": " << put.error().message;
    EXPECT_EQ(store->get("a"), content) << row.name;
  }
}

TEST_F(AnS3StoreBehindAFaultyNetwork, PutsALargeObjectAfterAll) {
  const std::vector<std::byte> content = contract::some_bytes((std::size_t{11} << 20) + 1);
  const std::span<const std::byte> piece{content};
  for (const char* method : {"POST", "PUT"}) {
    for (const FaultRow& row : passing_faults()) {
      FaultProxy proxy{server().port(), fail_first(2, method, row.fault)};
      const auto store = open(proxy.port());
      const auto put = static_cast<Store&>(*store).put("large", {&piece, 1});
      ASSERT_TRUE(put) << method << " " << row.name << ": " << put.error().message;
      ASSERT_EQ(store->get("large"), content) << method << " " << row.name;
    }
  }
}

TEST_F(AnS3StoreBehindAFaultyNetwork, ReadsAfterAll) {
  const std::vector<std::byte> content = contract::some_bytes((std::size_t{11} << 20) + 1);
  const std::span<const std::byte> piece{content};
  ASSERT_TRUE(static_cast<Store&>(*open(server().port())).put("large", {&piece, 1}));
  std::vector<FaultRow> rows = passing_faults();
  rows.push_back({"half a reply", {Kind::half_reply, "", 0}});
  for (const FaultRow& row : rows) {
    FaultProxy proxy{server().port(), fail_first(2, "GET", row.fault)};
    const auto store = open(proxy.port());
    EXPECT_EQ(store->list("").value().size(), 1U) << row.name;
    EXPECT_EQ(store->get("large"), content) << row.name;
    FaultProxy second{server().port(), fail_first(2, "GET", row.fault)};
    std::vector<std::byte> range(content.size() - 1);
    const auto read = open(second.port())->get_range("large", 1, range);
    ASSERT_TRUE(read) << row.name << ": " << read.error().message;
    EXPECT_TRUE(std::equal(range.begin(), range.end(), content.begin() + 1)) << row.name;
  }
}

TEST_F(AnS3StoreBehindAFaultyNetwork, TriesAStalledTransferAgain) {
  tuning.http.stall_timeout = std::chrono::seconds{1};
  FaultProxy proxy{server().port(), fail_first(1, "PUT", {Kind::stall, "", 0})};
  const auto store = open(proxy.port());
  const auto put = put_text(*store, "a", "x");
  EXPECT_TRUE(put) << put.error().message;
  EXPECT_EQ(get_text(*store, "a"), "x");
}

TEST_F(AnS3StoreBehindAFaultyNetwork, TriesAgainWhatTookLongerThanItsPatience) {
  // A stall is given up after one second at the soonest.
  tuning.http.patience = tuning.http.first_patience = std::chrono::milliseconds{300};
  FaultProxy proxy{server().port(), fail_first(1, "PUT", {Kind::stall, "", 0})};
  const auto put = put_text(*open(proxy.port()), "a", "x");
  EXPECT_TRUE(put) << put.error().message;
}

TEST_F(AnS3StoreBehindAFaultyNetwork, GivesACompletionItsOwnTimeAndNoLimitOnSilence) {
  tuning.http.stall_timeout = std::chrono::seconds{1};
  tuning.completion_deadline = std::chrono::milliseconds{2'500};
  const std::vector<std::byte> content = contract::some_bytes((std::size_t{6} << 20) + 1);
  const std::span<const std::byte> piece{content};
  std::vector<std::chrono::steady_clock::time_point> completions;
  FaultProxy proxy{server().port(), [&](const ProxiedRequest& request) {
                     if (request.method != "POST" || request.target.find("uploadId=") == std::string::npos)
                       return Fault{};
                     completions.push_back(std::chrono::steady_clock::now());
                     return completions.size() == 1 ? Fault{Kind::stall, "", 0} : Fault{};
                   }};
  const auto put = static_cast<Store&>(*open(proxy.port())).put("large", {&piece, 1});
  ASSERT_TRUE(put) << put.error().message;
  ASSERT_EQ(completions.size(), 2U);
  EXPECT_GE(completions[1] - completions[0], std::chrono::milliseconds{2'400});
}

TEST_F(AnS3StoreBehindAFaultyNetwork, FindsWhatACompletionDidWhoseReplyWasLostAndSendsItOnce) {
  const std::vector<std::byte> content = contract::some_bytes((std::size_t{6} << 20) + 1);
  const std::span<const std::byte> piece{content};
  for (const bool is_done : {true, false}) {
    int completions = 0;
    int parts = 0;
    FaultProxy proxy{server().port(), [&](const ProxiedRequest& request) {
                       if (request.method == "PUT") ++parts;
                       if (request.method != "POST" || request.target.find("uploadId=") == std::string::npos)
                         return Fault{};
                       ++completions;
                       if (completions == 1)
                         return is_done ? Fault{Kind::lose_reply, "", 0} : Fault{Kind::reset_request, "", 0};
                       return completions == 2 ? refuse(404, "NoSuchUpload") : Fault{};
                     }};
    const auto store = open(proxy.port(), is_done ? "done" : "not-done");
    const auto put = static_cast<Store&>(*store).put("large", {&piece, 1});
    ASSERT_TRUE(put) << put.error().message;
    EXPECT_EQ(parts, is_done ? 2 : 4);
    EXPECT_EQ(store->get("large"), content);
    EXPECT_EQ(unfinished_uploads(), "");
  }
}

TEST_F(AnS3StoreBehindAFaultyNetwork, DistinguishesAListThatBreaksOffFromOneThatEnds) {
  const std::string page = "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>";
  FaultProxy proxy{server().port(), fail_all("GET", {Kind::reply, http_reply(200, "", page), 0})};
  const auto listed = open(proxy.port())->list("");
  ASSERT_FALSE(listed);
  EXPECT_EQ(listed.error().kind, ErrorKind::unavailable);
}

TEST_F(AnS3StoreBehindAFaultyNetwork, DoesNotTryForLongToForgetAnUpload) {
  // Patience is two minutes here.
  const std::vector<std::byte> content = contract::some_bytes((std::size_t{6} << 20) + 1);
  const std::span<const std::byte> piece{content};
  FaultProxy proxy{server().port(), [](const ProxiedRequest& request) {
                     if (request.method == "PUT") return refuse(403, "AccessDenied");
                     return request.method == "DELETE" ? refuse(500, "InternalError") : Fault{};
                   }};
  const auto start = std::chrono::steady_clock::now();
  const auto put = static_cast<Store&>(*open(proxy.port())).put("large", {&piece, 1});
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().kind, ErrorKind::forbidden);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds{30});
}

TEST_F(AnS3StoreBehindAFaultyNetwork, NoticesAReplyThatChangedOnItsWay) {
  ASSERT_TRUE(put_text(*open(server().port()), "a", "the right words"));
  FaultProxy once{server().port(), fail_first(1, "GET", {Kind::corrupt_reply, "", 0})};
  EXPECT_EQ(get_text(*open(once.port()), "a"), "the right words");
  FaultProxy always{server().port(), fail_all("GET", {Kind::corrupt_reply, "", 0})};
  const auto got = get_text(*open(always.port()), "a");
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().kind, ErrorKind::corrupt);
  EXPECT_THAT(got.error().message, HasSubstr("checksum"));
  EXPECT_EQ(always.request_count(), 3);
}

TEST_F(AnS3StoreBehindAFaultyNetwork, ForgetsTheUploadOnEveryErrorPath) {
  const std::vector<std::byte> content = contract::some_bytes((std::size_t{11} << 20) + 1);
  const std::span<const std::byte> piece{content};
  struct Row {
    std::string name;
    FaultProxy::Decide decide;
  };
  const auto on = [](std::string words, Fault fault) -> FaultProxy::Decide {
    return [words, fault](const ProxiedRequest& request) {
      return request.target.find(words) != std::string::npos && request.method[0] == 'P' ? fault : Fault{};
    };
  };
  const Row rows[] = {
      {"a part is forbidden", on("partNumber=2", refuse(403, "AccessDenied"))},
      {"a part always fails", on("partNumber=3", refuse(500, "InternalError"))},
      {"a part is always lost", on("partNumber=1", {Kind::reset_request, "", 10})},
      {"the completion is refused", on("large?uploadId", refuse(400, "InvalidPart"))},
      {"the completion fails after it was accepted",
       on("large?uploadId", {Kind::reply, s3_refusal(200, "InternalError"), 0})},
      {"the completion meets another", on("large?uploadId", refuse(409, "ConditionalRequestConflict"))},
  };
  tuning.http.patience = std::chrono::milliseconds{300};
  for (const Row& row : rows) {
    FaultProxy proxy{server().port(), row.decide};
    const auto store = open(proxy.port());
    const auto put = static_cast<Store&>(*store).put("large", {&piece, 1});
    EXPECT_FALSE(put) << row.name;
    EXPECT_EQ(unfinished_uploads(), "") << row.name;
    EXPECT_EQ(store->list(""), std::vector<ObjectInfo>{}) << row.name;
  }
}

TEST_F(AnS3StoreBehindAFaultyNetwork, StartsTheUploadAgainWhenTheServerForgotIt) {
  const std::vector<std::byte> content = contract::some_bytes((std::size_t{6} << 20) + 1);
  const std::span<const std::byte> piece{content};
  for (const Fault& fault : {refuse(404, "NoSuchUpload"), refuse(409, "ConditionalRequestConflict")}) {
    int completions = 0;
    FaultProxy proxy{server().port(), [&](const ProxiedRequest& request) {
                       const bool is_completion =
                           request.method == "POST" && request.target.find("uploadId=") != std::string::npos;
                       return is_completion && ++completions == 1 ? fault : Fault{};
                     }};
    const auto store = open(proxy.port());
    const auto put = static_cast<Store&>(*store).put("large", {&piece, 1});
    ASSERT_TRUE(put) << put.error().message;
    EXPECT_EQ(completions, 2);
    EXPECT_EQ(store->get("large"), content);
    EXPECT_EQ(unfinished_uploads(), "");
  }
}

TEST_F(AnS3StoreBehindAFaultyNetwork, TakesNoOlderObjectOfThatLengthForAnUploadThatTheServerForgot) {
  const std::vector<std::byte> older = contract::some_bytes((std::size_t{6} << 20) + 1);
  std::vector<std::byte> newer = older;
  newer.back() ^= std::byte{1};
  const std::span<const std::byte> older_piece{older};
  const std::span<const std::byte> newer_piece{newer};
  int completions = 0;
  FaultProxy proxy{server().port(), [&](const ProxiedRequest& request) {
                     const bool is_completion =
                         request.method == "POST" && request.target.find("uploadId=") != std::string::npos;
                     return is_completion && ++completions == 2 ? refuse(404, "NoSuchUpload") : Fault{};
                   }};
  S3Config config = config_at(proxy.port());
  config.checksums = S3Checksums::off;  // With them the objects could be told apart.
  S3Store store{config, tuning};
  ASSERT_TRUE(store.put("large", {&older_piece, 1}, {}));
  ASSERT_TRUE(store.put("large", {&newer_piece, 1}, {}));
  EXPECT_EQ(store.get("large"), newer);
}

TEST_F(AnS3StoreBehindAFaultyNetwork, CreatesOnceThoughRepliesAreLost) {
  FaultProxy proxy{server().port(), fail_first(1, "PUT", {Kind::lose_reply, "", 0})};
  const auto store = open(proxy.port());
  const auto put = put_text(*store, "claim", "mine", {.if_absent = true});
  // The object exists; only its writer can find out who wrote it.
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().kind, ErrorKind::already_exists);
  EXPECT_EQ(get_text(*store, "claim"), "mine");
}

TEST_F(AnS3StoreBehindAFaultyNetwork, GivesUpWhenItsPatienceEnds) {
  tuning.http.first_patience = std::chrono::milliseconds{100};
  FaultProxy proxy{server().port(), fail_all("PUT", refuse(503, "SlowDown"))};
  const auto put = put_text(*open(proxy.port()), "a", "x");
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().kind, ErrorKind::throttled);
  EXPECT_THAT(put.error().message, HasSubstr("SlowDown (words)"));
}

TEST_F(AnS3StoreBehindAFaultyNetwork, DoesNotRepeatWhatCannotPass) {
  for (const auto& [status, code] :
       {std::pair{403, "AccessDenied"}, std::pair{403, "SignatureDoesNotMatch"}, std::pair{404, "NoSuchBucket"},
        std::pair{403, "InvalidAccessKeyId"}, std::pair{301, "PermanentRedirect"}}) {
    FaultProxy proxy{server().port(), fail_all("PUT", refuse(status, code))};
    EXPECT_FALSE(put_text(*open(proxy.port()), "a", "x"));
    EXPECT_EQ(proxy.request_count(), 1) << code;
  }
}

}  // namespace
}  // namespace trainyard::storage
