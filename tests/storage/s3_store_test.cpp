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

class AnS3Store : public S3Fixture {};

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

TEST_F(AnS3Store, NamesAServerThatDoesNotSpeakS3) {
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
