// Uploads in parts, to servers whose replies the tests give.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "storage/s3_store.hpp"
#include "tests/storage/environment_table.hpp"
#include "tests/storage/given_credentials.hpp"
#include "tests/storage/loopback_server.hpp"
#include "tests/storage/store_contract.hpp"

namespace trainyard::storage {
namespace {

TEST(S3Upload, FailsForGoodWhereTheEndpointIsNoS3Server) {
  LoopbackServer server{[](const httplib::Request&, httplib::Response& response) {
    response.set_content("<html>Welcome</html>", "text/html");
  }};
  auto config = make_s3_config({.scheme = Scheme::s3, .bucket = "models", .path = "run"}, {.endpoint = server.url()},
                               environment_of({}));
  ASSERT_TRUE(config) << config.error().message;
  config->credentials = given_credentials({"id", "secret", ""});
  S3Store store{*config, {.transfer = {.part_bytes = 1'000, .connection_count = 1}}};
  const std::vector<std::byte> content = contract::some_bytes(1'500);
  const std::span<const std::byte> piece{content};
  const auto put = static_cast<Store&>(store).put("large", {&piece, 1});
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().kind, ErrorKind::invalid);
  EXPECT_THAT(put.error().message, testing::HasSubstr(server.url() + " began no upload: is it an S3 server?"));
  EXPECT_EQ(server.request_count(), 1);
}

}  // namespace
}  // namespace trainyard::storage
