// Tests of what every S3 server gives, on each of the real servers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "storage/s3_store.hpp"
#include "storage/s3_upload.hpp"
#include "tests/storage/minio.hpp"
#include "tests/storage/s3_fixture.hpp"
#include "tests/storage/store_contract.hpp"

namespace trainyard::storage {
namespace {

using testing::HasSubstr;
using testing::Not;

template <typename Server>
class AnS3Server : public S3FixtureOf<Server> {
 protected:
  void SetUp() override {
    S3FixtureOf<Server>::SetUp();
    if (this->IsSkipped() || this->HasFailure()) return;
    s3_store = this->open(this->server().port());
  }
  [[nodiscard]] Store& store() { return *s3_store; }

  std::unique_ptr<S3Store> s3_store;
};

class ServerName {
 public:
  template <typename Server>
  static std::string GetName(int) {
    return Server::name;
  }
};
using Servers = testing::Types<Versitygw, Minio>;
TYPED_TEST_SUITE(AnS3Server, Servers, ServerName);

class AnS3StoreAtMinio : public S3FixtureOf<Minio> {};

TYPED_TEST(AnS3Server, GivesBackWhatWasPut) {
  contract::gives_back_what_was_put(this->store());
}
TYPED_TEST(AnS3Server, SaysWhatIsNotThere) {
  contract::says_what_is_not_there(this->store());
}
TYPED_TEST(AnS3Server, ReportsAnObjectThatEndsTooEarly) {
  contract::reports_an_object_that_ends_too_early(this->store());
}
TYPED_TEST(AnS3Server, ListsByPrefixInOrder) {
  contract::lists_by_prefix_in_order(this->store());
}
TYPED_TEST(AnS3Server, CreatesAnObjectForOneWriterOnly) {
  contract::creates_an_object_for_one_writer_only(this->store());
}
TYPED_TEST(AnS3Server, RemovesMany) {
  contract::removes_many(this->store());
}
TYPED_TEST(AnS3Server, RefusesKeysThatLeadElsewhere) {
  contract::refuses_keys_that_lead_elsewhere(this->store());
}

TYPED_TEST(AnS3Server, TakesAWholeBucketToo) {
  const auto whole = this->open(this->server().port(), "");
  contract::lists_by_prefix_in_order(*whole);
  EXPECT_EQ(whole->uri_of("a"), fmt::format("s3://{}/a", this->bucket));
}

TYPED_TEST(AnS3Server, ListsInPages) {
  this->tuning.page_keys = 2;
  const auto paged = this->open(this->server().port());
  contract::lists_by_prefix_in_order(*paged);
}

TYPED_TEST(AnS3Server, SeesNothingOfItsNeighbours) {
  ASSERT_TRUE(put_text(*this->open(this->server().port(), "run2"), "a", "x"));
  EXPECT_EQ(this->store().list(""), std::vector<ObjectInfo>{});
}

TYPED_TEST(AnS3Server, TakesKeysWithAnyCharacter) {
  for (const char* key : {"with space", "plus+and&amp;<b>", "ünïcode", "a=b?c#d%20", "quotes'\"", "~tilde*!()"}) {
    const auto put = put_text(this->store(), key, key);
    ASSERT_TRUE(put) << put.error().message;
    EXPECT_EQ(get_text(this->store(), key), key);
    EXPECT_EQ(this->store().list(key), (std::vector<ObjectInfo>{{key, std::string_view{key}.size()}}));
    EXPECT_TRUE(this->store().remove(key));
  }
}

TYPED_TEST(AnS3Server, SendsLargeObjectsInPartsFromTheCallersPieces) {
  const std::vector<std::byte> content = contract::some_bytes((std::size_t{12} << 20) + 345);
  const std::span<const std::byte> all{content};
  // Pieces that end before, at and after the parts' ends.
  const std::vector<std::span<const std::byte>> pieces = {all.first(7), all.subspan(7, (5U << 20) - 7),
                                                          all.subspan(5U << 20, 6U << 20), all.subspan(11U << 20)};
  const auto put = this->store().put("large", pieces);
  ASSERT_TRUE(put) << put.error().message;
  EXPECT_EQ(this->store().get("large"), content);
  std::vector<std::byte> range(11U << 20);
  ASSERT_TRUE(this->store().get_range("large", 777, range));
  EXPECT_TRUE(std::equal(range.begin(), range.end(), content.begin() + 777));
  EXPECT_EQ(this->store().get_range("large", 5U << 20, range).error().kind, ErrorKind::corrupt);
  EXPECT_EQ(this->unfinished_uploads(), "");
}

TYPED_TEST(AnS3Server, CreatesALargeObjectOnceAndLeavesNoPartsOfTheSecond) {
  const std::vector<std::byte> content = contract::some_bytes(std::size_t{6} << 20);
  const std::span<const std::byte> piece{content};
  ASSERT_TRUE(this->store().put("large", {&piece, 1}, {.if_absent = true}));
  const auto again = this->store().put("large", {&piece, 1}, {.if_absent = true});
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().kind, ErrorKind::already_exists);
  EXPECT_EQ(this->unfinished_uploads(), "");
}

TYPED_TEST(AnS3Server, SendsBytesThatTheServerCanCheck) {
  // The proxy changes one bit on the way to the server, which refuses the wrong checksum.
  S3Client client{this->config_at(this->server().port()), this->tuning.http};
  const std::string text = "some bytes";
  const S3Call call{.make = [&]() -> S3Request {
                      return {.method = "PUT",
                              .object = "run/a",
                              .query = {},
                              .headers = {{"x-amz-checksum-crc32c", "AAAAAA=="}},
                              .body = {std::as_bytes(std::span{text})}};
                    },
                    .accept = [](const HttpReply&) -> Result<void> { return {}; },
                    .doing = "put with a wrong checksum"};
  EXPECT_FALSE(client.perform({&call, 1}, 1));
}

TYPED_TEST(AnS3Server, HoldsTheChecksumOfWhatWasSent) {
  ASSERT_TRUE(put_text(this->store(), "a", "x"));
  S3Client client{this->config_at(this->server().port()), this->tuning.http};
  const auto reply = client.send("look", {.method = "HEAD",
                                          .object = "run/a",
                                          .query = {},
                                          .headers = {},
                                          .checksums = {{"x-amz-checksum-mode", "ENABLED"}}});
  ASSERT_TRUE(reply) << reply.error().message;
  const std::span<const std::byte> piece = std::as_bytes(std::span{std::string_view{"x"}});
  EXPECT_EQ(reply->header("x-amz-checksum-crc32c"), checksum_text({&piece, 1}));
  EXPECT_TRUE(client.has_checksums());
}

TYPED_TEST(AnS3Server, AnswersAProbe) {
  EXPECT_TRUE(this->store().probe());
}

TYPED_TEST(AnS3Server, IsUsedByManyThreads) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([this, i] {
      for (int k = 0; k < 5; ++k) {
        const std::string key = fmt::format("{}/{}", i, k);
        ASSERT_TRUE(put_text(this->store(), key, key));
        ASSERT_EQ(get_text(this->store(), key), key);
      }
    });
  }
}

TYPED_TEST(AnS3Server, SaysWhatIsWrongWithThePlaceOrTheKeyAndWhatToDo) {
  struct Row {
    std::string_view name;
    S3Config config;
    ErrorKind kind;
    std::vector<std::string> says;
  };
  const S3Config good = this->config_at(this->server().port());
  std::vector<Row> rows(5, Row{"", good, ErrorKind::internal, {}});
  rows[0] = {
      "missing bucket", good, ErrorKind::not_found, {"NoSuchBucket", "s3://no-such-bucket/", "Create the bucket"}};
  rows[0].config.bucket = "no-such-bucket";
  rows[1] = {"unknown key", good, ErrorKind::unauthorized, {"AWS_ACCESS_KEY_ID"}};
  rows[1].config.credentials = given_credentials({"nobody", TypeParam::secret_access_key, ""});
  rows[2] = {"wrong secret", good, ErrorKind::unauthorized, {"SignatureDoesNotMatch", "AWS_SECRET_ACCESS_KEY"}};
  rows[2].config.credentials = given_credentials({TypeParam::access_key_id, "wrong-secret", ""});
  rows[3] = {"wrong region", good, ErrorKind::invalid, {"region"}};
  rows[3].config.region = "eu-west-7";
  rows[4] = {"no TLS there", good, ErrorKind::unavailable, {"https://127.0.0.1"}};
  rows[4].config.scheme = "https";
  this->tuning.http.first_patience = std::chrono::milliseconds{200};
  for (const Row& row : rows) {
    S3Store wrong{row.config, this->tuning};
    for (const Result<void>& done : {wrong.probe(), put_text(wrong, "a", "x")}) {
      ASSERT_FALSE(done) << row.name;
      EXPECT_EQ(done.error().kind, row.kind) << row.name << ": " << done.error().message;
      for (const std::string& words : row.says) EXPECT_THAT(done.error().message, HasSubstr(words)) << row.name;
      EXPECT_THAT(done.error().message, Not(HasSubstr("secret-"))) << row.name;
    }
  }
}

// MinIO lists only the uploads of the object that the prefix names in full, and itself drops uploads after a day.
TEST_F(AnS3StoreAtMinio, LeavesUploadsThatItCannotListToTheServer) {
  S3Client client{config_at(server().port()), tuning.http};
  const S3Request begin{.method = "POST", .object = "run/step-1/g-1/data", .query = {{"uploads", ""}}};
  ASSERT_TRUE(client.send("begin", begin));
  tuning.orphan_age_min = std::chrono::minutes{-1};
  const auto removed = open(server().port())->remove_unfinished([](std::string_view) { return true; });
  EXPECT_TRUE(removed) << removed.error().message;
  S3Request look{.method = "GET", .object = {}, .query = {{"uploads", ""}, {"prefix", "run/"}}};
  const auto below = client.send("list below", look);
  ASSERT_TRUE(below) << below.error().message;
  EXPECT_THAT(below->body, Not(HasSubstr("<Upload>")));
  look.query = {{"uploads", ""}, {"prefix", begin.object}};
  const auto whole = client.send("list by name", look);
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_THAT(whole->body, HasSubstr("<Upload>"));
}

}  // namespace
}  // namespace trainyard::storage
