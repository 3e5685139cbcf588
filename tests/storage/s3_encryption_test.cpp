// Tests of the encryption that requests ask for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "storage/s3_store.hpp"
#include "tests/storage/environment_table.hpp"
#include "tests/storage/given_credentials.hpp"
#include "tests/storage/loopback_server.hpp"
#include "tests/storage/store_contract.hpp"

namespace trainyard::storage {
namespace {

using testing::HasSubstr;

const Uri bucket_uri{.scheme = Scheme::s3, .bucket = "models", .path = "run"};

TEST(S3Encryption, IsAskedForWhereAnObjectBeginsAndNowhereElse) {
  std::vector<std::string> asked;
  LoopbackServer server{[&](const httplib::Request& request, httplib::Response& response) {
    asked.push_back(request.method + " " + request.target.substr(0, request.target.find('=')) + " " +
                    request.get_header_value("x-amz-server-side-encryption") + " " +
                    request.get_header_value("x-amz-server-side-encryption-aws-kms-key-id"));
    response.set_header("ETag", "\"e\"");
    response.set_content("<R><UploadId>u</UploadId></R>", "text/xml");
  }};
  auto config = make_s3_config(bucket_uri, {.endpoint = server.url(), .sse = "aws:kms", .sse_kms_key_id = "key-1"},
                               environment_of({}));
  ASSERT_TRUE(config) << config.error().message;
  config->credentials = given_credentials({"id", "secret", ""});
  S3Store store{*config, {.transfer = {.part_bytes = 1'000, .connection_count = 1}}};
  const std::vector<std::byte> content = contract::some_bytes(1'500);
  const std::span<const std::byte> piece{content};
  ASSERT_TRUE(put_text(store, "small", "x"));
  ASSERT_TRUE(static_cast<Store&>(store).put("large", {&piece, 1}));
  EXPECT_EQ(asked, (std::vector<std::string>{"PUT /models/run/small aws:kms key-1",
                                             "POST /models/run/large?uploads aws:kms key-1",
                                             "PUT /models/run/large?partNumber  ", "PUT /models/run/large?partNumber  ",
                                             "POST /models/run/large?uploadId  "}));
}

TEST(S3Encryption, IsOneThatS3Has) {
  const auto open = [](const std::string& sse, const std::string& key) {
    return make_s3_config(bucket_uri, {.sse = sse, .sse_kms_key_id = key}, environment_of({}));
  };
  EXPECT_TRUE(open("", "")->encryption.empty());
  EXPECT_EQ(open("AES256", "")->encryption.size(), 1U);
  EXPECT_EQ(open("aws:kms", "")->encryption.size(), 1U);
  EXPECT_EQ(open("aws:kms:dsse", "k")->encryption.size(), 2U);
  for (const auto& [sse, key, says] :
       {std::tuple{"AES", "", "AES256, aws:kms or aws:kms:dsse"}, std::tuple{"AES256", "k", "a KMS key is named"},
        std::tuple{"", "k", "a KMS key is named"}}) {
    const auto config = open(sse, key);
    ASSERT_FALSE(config) << sse;
    EXPECT_EQ(config.error().kind, ErrorKind::invalid);
    EXPECT_THAT(config.error().message, HasSubstr(says));
  }
}

}  // namespace
}  // namespace trainyard::storage
