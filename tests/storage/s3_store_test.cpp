#include "storage/s3_store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "storage/xml.hpp"
#include "tests/fakes/fault_proxy.hpp"
#include "tests/fakes/free_port.hpp"
#include "tests/storage/s3_fixture.hpp"
#include "tests/storage/store_contract.hpp"

namespace trainyard::storage {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class AnS3Store : public S3Fixture {
 protected:
  void SetUp() override {
    S3Fixture::SetUp();
    if (IsSkipped() || HasFailure()) return;
    s3_store = open(server().port());
  }
  [[nodiscard]] Store& store() { return *s3_store; }

  std::unique_ptr<S3Store> s3_store;
};

TEST_F(AnS3Store, GivesBackWhatWasPut) {
  contract::gives_back_what_was_put(store());
}
TEST_F(AnS3Store, SaysWhatIsNotThere) {
  contract::says_what_is_not_there(store());
}
TEST_F(AnS3Store, TellsAnObjectThatEndsTooEarly) {
  contract::tells_an_object_that_ends_too_early(store());
}
TEST_F(AnS3Store, ListsByPrefixInOrder) {
  contract::lists_by_prefix_in_order(store());
}
TEST_F(AnS3Store, CreatesAnObjectForOneWriterOnly) {
  contract::creates_an_object_for_one_writer_only(store());
}
TEST_F(AnS3Store, RemovesMany) {
  contract::removes_many(store());
}
TEST_F(AnS3Store, RefusesKeysThatLeadElsewhere) {
  contract::refuses_keys_that_lead_elsewhere(store());
}

TEST_F(AnS3Store, TakesAWholeBucketToo) {
  const auto whole = open(server().port(), "");
  contract::lists_by_prefix_in_order(*whole);
  EXPECT_EQ(whole->uri_of("a"), fmt::format("s3://{}/a", bucket));
}

TEST_F(AnS3Store, ListsInPages) {
  tuning.page_keys = 2;
  const auto paged = open(server().port());
  contract::lists_by_prefix_in_order(*paged);
}

TEST_F(AnS3Store, SeesNothingOfItsNeighbours) {
  ASSERT_TRUE(put_text(*open(server().port(), "run2"), "a", "x"));
  EXPECT_EQ(store().list(""), std::vector<ObjectInfo>{});
}

TEST_F(AnS3Store, TakesKeysWithAnyCharacter) {
  for (const char* key : {"with space", "plus+and&amp;<b>", "ünïcode", "a=b?c#d%20", "quotes'\"", "~tilde*!()"}) {
    const auto put = put_text(store(), key, key);
    ASSERT_TRUE(put) << put.error().message;
    EXPECT_EQ(get_text(store(), key), key);
    EXPECT_EQ(store().list(key), (std::vector<ObjectInfo>{{key, std::string_view{key}.size()}}));
    EXPECT_TRUE(store().remove(key));
  }
}

TEST_F(AnS3Store, SendsLargeObjectsInPartsFromTheCallersPieces) {
  const std::vector<std::byte> content = contract::some_bytes((std::size_t{12} << 20) + 345);
  const std::span<const std::byte> all{content};
  // Pieces that end before, at and after the parts' ends.
  const std::vector<std::span<const std::byte>> pieces = {all.first(7), all.subspan(7, (5U << 20) - 7),
                                                          all.subspan(5U << 20, 6U << 20), all.subspan(11U << 20)};
  const auto put = store().put("large", pieces);
  ASSERT_TRUE(put) << put.error().message;
  EXPECT_EQ(store().get("large"), content);
  std::vector<std::byte> range(11U << 20);
  ASSERT_TRUE(store().get_range("large", 777, range));
  EXPECT_TRUE(std::equal(range.begin(), range.end(), content.begin() + 777));
  EXPECT_EQ(store().get_range("large", 5U << 20, range).error().kind, ErrorKind::corrupt);
  EXPECT_EQ(unfinished_uploads(), "");
}

TEST_F(AnS3Store, CreatesALargeObjectOnceAndLeavesNoPartsOfTheSecond) {
  const std::vector<std::byte> content = contract::some_bytes(std::size_t{6} << 20);
  const std::span<const std::byte> piece{content};
  ASSERT_TRUE(store().put("large", {&piece, 1}, {.if_absent = true}));
  const auto again = store().put("large", {&piece, 1}, {.if_absent = true});
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().kind, ErrorKind::already_exists);
  EXPECT_EQ(unfinished_uploads(), "");
}

TEST_F(AnS3Store, RemovesUploadsThatNobodyCompleted) {
  S3Client client{config_at(server().port()), tuning.http};
  for (const char* object : {"run/step-1/g-1/data", "run/step-1/g-2/data", "other/step-1/g-1/data"}) {
    const auto begun = client.send("begin", {.method = "POST", .object = object, .query = {{"uploads", ""}}});
    ASSERT_TRUE(begun) << begun.error().message;
    const std::vector<std::byte> part = contract::some_bytes(1'000);
    const std::string id{xml::text_of(begun->body, "UploadId")};
    ASSERT_TRUE(client.send("send", {.method = "PUT",
                                     .object = object,
                                     .query = {{"partNumber", "1"}, {"uploadId", id}},
                                     .headers = {},
                                     .body = {part}}));
  }
  const auto is_abandoned = [](std::string_view folder) { return folder == "step-1/g-1"; };
  ASSERT_TRUE(open(server().port())->remove_unfinished(is_abandoned));
  EXPECT_THAT(unfinished_uploads(), HasSubstr("run/step-1/g-1/data")) << "it is too young";
  tuning.orphan_age_min = std::chrono::minutes{-1};
  ASSERT_TRUE(put_text(*open(server().port()), "step-1/g-1/whole", "x"));
  const auto removed = open(server().port())->remove_unfinished(is_abandoned);
  ASSERT_TRUE(removed) << removed.error().message;
  EXPECT_THAT(unfinished_uploads(), AllOf(Not(HasSubstr("run/step-1/g-1/data")), HasSubstr("run/step-1/g-2/data"),
                                          HasSubstr("other/step-1/g-1/data")));
  EXPECT_EQ(get_text(*open(server().port()), "step-1/g-1/whole"), "x");
}

TEST_F(AnS3Store, LeavesUploadsToTheBucketWhereTheyMayNotBeListed) {
  for (const auto& [status, code, is_fine] :
       {std::tuple{403, "AccessDenied", true}, std::tuple{501, "NotImplemented", true},
        std::tuple{404, "NoSuchBucket", false}}) {
    fakes::FaultProxy proxy{
        server().port(), [&, status = status, code = code](const fakes::ProxiedRequest&) {
          return fakes::Fault{fakes::Fault::Kind::reply,
                              fakes::http_reply(status, "", fmt::format("<Error><Code>{}</Code></Error>", code)), 0};
        }};
    EXPECT_EQ(open(proxy.port())->remove_unfinished([](std::string_view) { return true; }).has_value(), is_fine)
        << code;
  }
}

TEST_F(AnS3Store, AnswersAProbe) {
  EXPECT_TRUE(store().probe());
}

TEST_F(AnS3Store, IsUsedByManyThreads) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([this, i] {
      for (int k = 0; k < 5; ++k) {
        const std::string key = fmt::format("{}/{}", i, k);
        ASSERT_TRUE(put_text(store(), key, key));
        ASSERT_EQ(get_text(store(), key), key);
      }
    });
  }
}

TEST_F(AnS3Store, SaysWhatIsWrongWithThePlaceOrTheKeyAndWhatToDo) {
  struct Row {
    std::string_view name;
    S3Config config;
    ErrorKind kind;
    std::vector<std::string> says;
  };
  const S3Config good = config_at(server().port());
  std::vector<Row> rows(5, Row{"", good, ErrorKind::internal, {}});
  rows[0] = {
      "missing bucket", good, ErrorKind::not_found, {"NoSuchBucket", "s3://no-such-bucket/", "Create the bucket"}};
  rows[0].config.bucket = "no-such-bucket";
  rows[1] = {"unknown key", good, ErrorKind::unauthorized, {"AWS_ACCESS_KEY_ID"}};
  rows[1].config.credentials = given_credentials({"nobody", Versitygw::secret_access_key, ""});
  rows[2] = {"wrong secret", good, ErrorKind::unauthorized, {"SignatureDoesNotMatch", "AWS_SECRET_ACCESS_KEY"}};
  rows[2].config.credentials = given_credentials({Versitygw::access_key_id, "wrong-secret", ""});
  rows[3] = {"wrong region", good, ErrorKind::invalid, {"region"}};
  rows[3].config.region = "eu-west-7";
  rows[4] = {"no TLS there", good, ErrorKind::unavailable, {"https://127.0.0.1"}};
  rows[4].config.scheme = "https";
  tuning.http.first_patience = std::chrono::milliseconds{200};
  for (const Row& row : rows) {
    S3Store wrong{row.config, tuning};
    for (const Result<void>& done : {wrong.probe(), put_text(wrong, "a", "x")}) {
      ASSERT_FALSE(done) << row.name;
      EXPECT_EQ(done.error().kind, row.kind) << row.name << ": " << done.error().message;
      for (const std::string& words : row.says) EXPECT_THAT(done.error().message, HasSubstr(words)) << row.name;
      EXPECT_THAT(done.error().message, testing::Not(HasSubstr("secret-"))) << row.name;
    }
  }
}

TEST_F(AnS3Store, GivesUpSoonOnAnEndpointThatNeverAnswered) {
  struct Row {
    std::string_view name;
    std::string host;
    std::string says;
  };
  const Row rows[] = {
      {"nobody listens", fmt::format("127.0.0.1:{}", fakes::free_port()), "that the server runs"},
      {"no such name", "no-such-host.invalid", "Check the endpoint's name"},
  };
  tuning.http.first_patience = std::chrono::milliseconds{200};
  for (const Row& row : rows) {
    S3Config config = config_at(1);
    config.host = row.host;
    S3Store away{config, tuning};
    const auto probed = away.probe();
    ASSERT_FALSE(probed);
    EXPECT_EQ(probed.error().kind, ErrorKind::unavailable) << probed.error().message;
    EXPECT_THAT(probed.error().message, HasSubstr(row.says)) << row.name;
    EXPECT_THAT(probed.error().message, HasSubstr(row.host)) << row.name;
  }
}

TEST_F(AnS3Store, TellsAServerThatSpeaksSomethingElse) {
  fakes::FaultProxy website{
      server().port(), [](const auto&) {
        return fakes::Fault{fakes::Fault::Kind::reply, fakes::http_reply(200, "", "<html>Welcome</html>"), 0};
      }};
  const auto probed = open(website.port())->probe();
  ASSERT_FALSE(probed);
  EXPECT_EQ(probed.error().kind, ErrorKind::invalid);
  EXPECT_THAT(probed.error().message, HasSubstr("is this an S3 server?"));
}

}  // namespace
}  // namespace trainyard::storage
