#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "storage/s3_store.hpp"
#include "tests/skips.hpp"
#include "tests/storage/given_credentials.hpp"
#include "tests/storage/versitygw.hpp"

namespace trainyard::storage {

/// Tests over a server (Versitygw or Minio) that all tests of a suite share. Each test has its own bucket. A test is
/// skipped where the server is not installed, and fails there with CI=true.
template <typename Server>
class S3FixtureOf : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (Server::is_installed()) server_ = Server::start();
  }
  static void TearDownTestSuite() { server_.reset(); }

  void SetUp() override {
    if (!Server::is_installed())
      return tests::cannot_run(fmt::format("{} is not installed: run scripts/setup cluster", Server::name));
    ASSERT_TRUE(server_) << Server::name << " does not start";
    bucket = fmt::format("bucket-{}", ++bucket_count_);
    server_->make_bucket(bucket);
  }

  /// A store under `prefix` of this test's bucket, at the server's port or at a proxy's.
  [[nodiscard]] std::unique_ptr<S3Store> open(std::uint16_t port, const std::string& prefix = "run") const {
    return std::make_unique<S3Store>(config_at(port, prefix), tuning);
  }
  [[nodiscard]] S3Config config_at(std::uint16_t port, const std::string& prefix = "run") const {
    return {.bucket = bucket,
            .prefix = prefix,
            .region = "us-east-1",
            .scheme = "http",
            .host = fmt::format("127.0.0.1:{}", port),
            .path_style = true,
            .credentials = given_credentials({Server::access_key_id, Server::secret_access_key, ""}),
            .ca_bundle = ""};
  }
  [[nodiscard]] static Server& server() { return *server_; }

  /// The uploads of which the server still has parts.
  [[nodiscard]] std::string unfinished_uploads() const {
    S3Client client{config_at(server_->port()), tuning.http};
    const auto reply = client.send("list uploads", {.method = "GET", .object = {}, .query = {{"uploads", ""}}});
    if (!reply) return reply.error().message;
    return reply->body.find("<Upload>") == std::string::npos ? "" : reply->body;
  }

  // 5 MiB: the smallest part that S3 allows. Patience is long, since the machine may be busy, and pauses are short.
  S3Tuning tuning{.http = {.connect_timeout = std::chrono::seconds{30},
                           .stall_timeout = std::chrono::seconds{60},
                           .patience = std::chrono::minutes{2},
                           .first_patience = std::chrono::minutes{2},
                           .backoff = {.initial = std::chrono::milliseconds{1}, .max = std::chrono::milliseconds{20}},
                           .ca_bundle = ""},
                  .transfer = {.part_bytes = std::uint64_t{5} << 20, .connection_count = 4},
                  .page_keys = 1000};
  std::string bucket;

 private:
  static inline std::unique_ptr<Server> server_;
  static inline int bucket_count_ = 0;
};

using S3Fixture = S3FixtureOf<Versitygw>;

}  // namespace trainyard::storage
