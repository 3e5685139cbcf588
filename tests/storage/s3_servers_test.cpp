// S3 servers that lack a feature or answer differently. A proxy in front of a real server plays them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "storage/s3_store.hpp"
#include "tests/storage/s3_faults.hpp"
#include "tests/storage/s3_fixture.hpp"
#include "tests/storage/store_contract.hpp"

namespace trainyard::storage {
namespace {

using fakes::http_reply;
using Kind = Fault::Kind;
using testing::AllOf;
using testing::HasSubstr;

bool has_checksum(const ProxiedRequest& request) {
  return request.head.find("x-amz-checksum") != std::string::npos;
}

bool is_completion(const ProxiedRequest& request) {
  return request.method == "POST" && request.target.find("uploadId=") != std::string::npos;
}

// A server that no longer knows an upload once it is completed.
Fault lose_the_first_reply(int completions) {
  if (completions == 1) return {Kind::lose_reply, "", 0};
  return completions == 2 ? refuse(404, "NoSuchUpload") : Fault{};
}

class AnS3StoreAtAnotherServer : public S3Fixture {
 protected:
  static Result<void> put_large(Store& store, const PutOptions& options = {}) {
    const std::span<const std::byte> piece{large()};
    return store.put("large", {&piece, 1}, options);
  }
  static const std::vector<std::byte>& large() {
    static const std::vector<std::byte> bytes = contract::some_bytes((std::size_t{6} << 20) + 1);
    return bytes;
  }
};

TEST_F(AnS3StoreAtAnotherServer, SendsNoChecksumsToAServerThatDoesNotKnowThem) {
  const auto refusal = [](int status, const std::string& message) {
    return Fault{Kind::reply,
                 http_reply(status, "", fmt::format("<Error><Code>X</Code><Message>{}</Message></Error>", message)), 0};
  };
  for (const Fault& fault : {refusal(400, "Unsupported header 'x-amz-checksum-crc32c' received for this API call."),
                             refusal(501, "A header you provided implies functionality that is not implemented")}) {
    int refused = 0;
    FaultProxy proxy{server().port(), [&](const ProxiedRequest& request) {
                       if (!has_checksum(request)) return Fault{};
                       ++refused;
                       return fault;
                     }};
    const auto store = open(proxy.port(), fault.reply.substr(9, 3));
    const auto created = put_text(*store, "claim", "mine", {.if_absent = true});
    ASSERT_TRUE(created) << created.error().message;
    EXPECT_TRUE(store->has_conditional_create()) << "what is lacking are the checksums";
    EXPECT_EQ(refused, 1);
    const auto put = put_large(*store);
    ASSERT_TRUE(put) << put.error().message;
    EXPECT_EQ(store->get("large"), large());
    EXPECT_EQ(put_text(*store, "claim", "other", {.if_absent = true}).error().kind, ErrorKind::already_exists);
    EXPECT_EQ(refused, 1) << "it is learnt once";

    // The first request gets this answer, whichever it is.
    const auto large_first = open(proxy.port(), "large-first");
    EXPECT_TRUE(put_large(*large_first));
    EXPECT_EQ(open(proxy.port(), "large-first")->get("large"), large());
  }
}

TEST_F(AnS3StoreAtAnotherServer, SendsChecksumsAsItsConfigurationSays) {
  int with_checksum = 0;
  FaultProxy proxy{server().port(), [&](const ProxiedRequest& request) {
                     if (!has_checksum(request)) return Fault{};
                     ++with_checksum;
                     return Fault{Kind::reply, s3_refusal(501, "NotImplemented"), 0};
                   }};
  S3Config config = config_at(proxy.port());
  config.checksums = S3Checksums::off;
  EXPECT_TRUE(put_text(*std::make_unique<S3Store>(config, tuning), "a", "x"));
  EXPECT_EQ(with_checksum, 0);
  config.checksums = S3Checksums::required;
  S3Store strict{config, tuning};
  EXPECT_EQ(put_text(strict, "a", "x").error().kind, ErrorKind::invalid);
  EXPECT_EQ(with_checksum, 1);
}

TEST_F(AnS3StoreAtAnotherServer, LearnsThatItHasNoConditionalCreateAndKeepsItsChecksums) {
  int with_checksum = 0;
  FaultProxy proxy{server().port(), [&](const ProxiedRequest& request) {
                     if (request.head.find("if-none-match") != std::string::npos) return refuse(501, "NotImplemented");
                     with_checksum += has_checksum(request) ? 1 : 0;
                     return Fault{};
                   }};
  const auto store = open(proxy.port());
  EXPECT_TRUE(store->has_conditional_create());
  EXPECT_EQ(put_text(*store, "a", "x", {.if_absent = true}).error().kind, ErrorKind::invalid);
  EXPECT_FALSE(store->has_conditional_create());
  EXPECT_TRUE(put_text(*store, "a", "x"));
  EXPECT_EQ(with_checksum, 1);
}

TEST_F(AnS3StoreAtAnotherServer, KnowsAnObjectThatIsThereBy412Alone) {
  FaultProxy proxy{server().port(), fail_all("PUT", {Kind::reply, http_reply(412, "", ""), 0})};
  EXPECT_EQ(put_text(*open(proxy.port()), "a", "x", {.if_absent = true}).error().kind, ErrorKind::already_exists);
  EXPECT_EQ(proxy.request_count(), 1);
}

TEST_F(AnS3StoreAtAnotherServer, SeesThatACompletionMadeAnotherObject) {
  const std::string other =
      "<CompleteMultipartUploadResult><ChecksumCRC32C>AAAAAA==-2</ChecksumCRC32C>"
      "</CompleteMultipartUploadResult>";
  int completions = 0;
  FaultProxy proxy{server().port(), [&](const ProxiedRequest& request) {
                     if (!is_completion(request)) return Fault{};
                     ++completions;
                     return Fault{Kind::reply, http_reply(200, "", other), 0};
                   }};
  const auto put = put_large(*open(proxy.port()));
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().kind, ErrorKind::corrupt);
  EXPECT_THAT(put.error().message, HasSubstr("other bytes than were sent"));
  EXPECT_EQ(completions, 3);
}

TEST_F(AnS3StoreAtAnotherServer, TakesARefusalWithinASuccessfulCompletionAsOneByStatus) {
  struct Row {
    std::string code;
    ErrorKind kind;
    int completions;
  };
  const Row rows[] = {{"BadDigest", ErrorKind::corrupt, 3},
                      {"XAmzContentChecksumMismatch", ErrorKind::corrupt, 3},
                      {"InvalidRequest", ErrorKind::invalid, 1},
                      {"InvalidPart", ErrorKind::invalid, 1},
                      {"AccessDenied", ErrorKind::forbidden, 1}};
  for (const Row& row : rows) {
    for (const int status : {200, 400}) {
      int completions = 0;
      FaultProxy proxy{server().port(), [&](const ProxiedRequest& request) {
                         if (!is_completion(request)) return Fault{};
                         ++completions;
                         return refuse(status, row.code);
                       }};
      const auto put = put_large(*open(proxy.port()));
      ASSERT_FALSE(put) << row.code << " " << status;
      EXPECT_EQ(put.error().kind, row.kind) << row.code << " " << status;
      EXPECT_THAT(put.error().message, HasSubstr(fmt::format("answered {} {}", status, row.code)));
      EXPECT_EQ(completions, row.completions) << row.code << " " << status;
      EXPECT_EQ(unfinished_uploads(), "");
    }
  }
}

TEST_F(AnS3StoreAtAnotherServer, DoesNotTakeAnotherObjectForTheOneWhoseCompletionsReplyWasLost) {
  int completions = 0;
  int parts = 0;
  FaultProxy proxy{server().port(), [&](const ProxiedRequest& request) {
                     if (request.method == "PUT") ++parts;
                     if (request.method == "HEAD") {
                       return Fault{Kind::reply,
                                    fmt::format("HTTP/1.1 200 X\r\nContent-Length: {}\r\nx-amz-checksum-crc32c: "
                                                "AAAAAA==-2\r\nConnection: close\r\n\r\n",
                                                large().size()),
                                    0};
                     }
                     return is_completion(request) ? lose_the_first_reply(++completions) : Fault{};
                   }};
  const auto put = put_large(*open(proxy.port()));
  ASSERT_TRUE(put) << put.error().message;
  EXPECT_EQ(parts, 4) << "it is sent again";
}

TEST_F(AnS3StoreAtAnotherServer, NeverReportsAsCreatedWhatMayBeSomebodyElses) {
  int completions = 0;
  FaultProxy proxy{server().port(), [&](const ProxiedRequest& request) {
                     return is_completion(request) ? lose_the_first_reply(++completions) : Fault{};
                   }};
  const auto store = open(proxy.port());
  const auto put = put_large(*store, {.if_absent = true});
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().kind, ErrorKind::already_exists) << put.error().message;
  EXPECT_EQ(store->get("large"), large());
  EXPECT_EQ(unfinished_uploads(), "");
}

TEST_F(AnS3StoreAtAnotherServer, AbortsOnceWhereItMayNotLookForParts) {
  int aborts = 0;
  FaultProxy proxy{server().port(), [&](const ProxiedRequest& request) {
                     aborts += request.method == "DELETE" ? 1 : 0;
                     return request.method == "POST" || request.method == "DELETE" ? Fault{}
                                                                                   : refuse(403, "AccessDenied");
                   }};
  EXPECT_EQ(put_large(*open(proxy.port())).error().kind, ErrorKind::forbidden);
  EXPECT_EQ(aborts, 1);
  EXPECT_EQ(unfinished_uploads(), "");
}

// ---- DeleteObjects

TEST_F(AnS3StoreAtAnotherServer, RemovesAThousandObjectsByOneRequest) {
  FaultProxy proxy{server().port(), [](const ProxiedRequest&) { return Fault{}; }};
  const auto store = open(proxy.port());
  std::vector<std::string> keys;
  for (int i = 0; i < 1'001; ++i) keys.push_back(fmt::format("step-1/a&b {}", i));
  const auto direct = open(server().port());
  for (const std::size_t i : {0U, 500U, 1'000U}) ASSERT_TRUE(put_text(*direct, keys[i], "x"));
  ASSERT_TRUE(put_text(*direct, "other", "x"));
  const auto removed = store->remove_all(keys, {});
  ASSERT_TRUE(removed) << removed.error().message;
  EXPECT_EQ(contract::keys_of(direct->list("").value()), std::vector<std::string>{"other"});
  EXPECT_EQ(proxy.request_count(), 2);
}

TEST_F(AnS3StoreAtAnotherServer, RemovesOneByOneWhereThereIsNoSuchRequestAndAsksOnce) {
  for (const Fault& fault : {refuse(501, "NotImplemented"), refuse(405, "MethodNotAllowed"),
                             refuse(400, "MalformedXML"), Fault{Kind::reply, http_reply(404, "", ""), 0}}) {
    int asked = 0;
    FaultProxy proxy{server().port(), [&](const ProxiedRequest& request) {
                       if (request.method != "POST") return Fault{};
                       ++asked;
                       return fault;
                     }};
    const auto store = open(proxy.port());
    for (int round = 0; round < 2; ++round) contract::removes_many(*store);
    EXPECT_EQ(asked, 1) << fault.reply;
  }
}

TEST_F(AnS3StoreAtAnotherServer, RepeatsARemovalOfWhichSomePassesAndNamesWhatDoesNot) {
  const auto said_of = [](const std::string& code) {
    return Fault{
        Kind::reply,
        http_reply(200, "",
                   fmt::format("<DeleteResult><Error><Key>run/a</Key><Code>{}</Code></Error></DeleteResult>", code)),
        0};
  };
  const auto direct = open(server().port());
  const std::vector<std::string> keys = {"a", "b"};
  for (const std::string& key : keys) ASSERT_TRUE(put_text(*direct, key, "x"));
  FaultProxy denied{server().port(), fail_all("POST", said_of("AccessDenied"))};
  const auto refused = open(denied.port())->remove_all(keys, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::forbidden);
  EXPECT_THAT(refused.error().message, AllOf(HasSubstr("remove 2 objects under s3://"), HasSubstr("run/a")));
  EXPECT_EQ(denied.request_count(), 1);
  FaultProxy busy{server().port(), fail_first(1, "POST", said_of("SlowDown"))};
  EXPECT_TRUE(open(busy.port())->remove_all(keys, {}));
  EXPECT_EQ(busy.request_count(), 2);
  EXPECT_EQ(direct->list(""), std::vector<ObjectInfo>{});
}

TEST_F(AnS3StoreAtAnotherServer, GivesARemovalUpWhenItIsStopped) {
  std::stop_source stop;
  FaultProxy proxy{server().port(), [&](const ProxiedRequest&) {
                     stop.request_stop();
                     return Fault{Kind::stall, "", 0};
                   }};
  const std::vector<std::string> keys = {"a", "b"};
  EXPECT_EQ(open(proxy.port())->remove_all(keys, stop.get_token()).error().kind, ErrorKind::cancelled);
}

}  // namespace
}  // namespace trainyard::storage
