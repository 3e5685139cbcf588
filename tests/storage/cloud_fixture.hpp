#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "storage/azure_store.hpp"
#include "storage/gcs_store.hpp"
#include "tests/skips.hpp"
#include "tests/storage/cloud_server.hpp"

namespace trainyard::storage {

/// Tests over "gs" and "az". All tests of a program share the servers, and each test has its own bucket. A test is
/// skipped where its server is not installed, and fails there with CI=true.
class CloudFixture : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    auto& server = servers_[GetParam()];
    if (!server) server = CloudServer::start(GetParam());
    if (!server) {
      return tests::cannot_run(
          fmt::format("the server for {}:// is not installed or does not start: run scripts/setup all", GetParam()));
    }
    bucket = fmt::format("bucket-{}", ++bucket_count_);
    server->make_bucket(bucket);
  }

  [[nodiscard]] bool is_google() const { return GetParam() == "gs"; }
  [[nodiscard]] CloudServer& server() const { return *servers_.at(GetParam()); }
  [[nodiscard]] Uri uri_of(const std::string& prefix = "run") const {
    return parse_uri(fmt::format("{}://{}/{}", GetParam(), bucket, prefix)).value();
  }
  [[nodiscard]] Result<std::unique_ptr<Store>> try_open(const Environment& environment, const Uri& uri) const {
    if (is_google()) {
      return make_gcs_settings(uri, environment).map([&](GcsSettings settings) -> std::unique_ptr<Store> {
        return std::make_unique<GcsStore>(std::move(settings), GcsTuning{.http = http,
                                                                         .transfer = {.part_bytes = part_bytes},
                                                                         .page_objects = page_objects,
                                                                         .orphan_age_min = orphan_age_min});
      });
    }
    return make_azure_place(uri, environment).map([&](AzurePlace place) -> std::unique_ptr<Store> {
      return std::make_unique<AzureStore>(
          std::move(place),
          AzureTuning{.http = http, .transfer = {.part_bytes = part_bytes}, .page_blobs = page_objects});
    });
  }
  /// A store under `prefix` of this test's bucket, at the server's port or at a proxy's.
  [[nodiscard]] std::unique_ptr<Store> open(std::uint16_t port, const std::string& prefix = "run") const {
    return try_open(server().environment_at(port), uri_of(prefix)).value();
  }
  [[nodiscard]] std::unique_ptr<Store> open() const { return open(server().port()); }

  // The machine may be busy, and pauses are short.
  HttpTuning http{.connect_timeout = std::chrono::seconds{30},
                  .stall_timeout = std::chrono::seconds{60},
                  .patience = std::chrono::seconds{30},
                  .first_patience = std::chrono::seconds{30},
                  .backoff = {.initial = std::chrono::milliseconds{1}, .max = std::chrono::milliseconds{20}},
                  .ca_bundle = ""};
  std::uint64_t part_bytes = std::uint64_t{1} << 20;
  std::int64_t page_objects = 1000;
  std::chrono::milliseconds orphan_age_min{std::chrono::hours{1}};
  std::string bucket;

 private:
  static inline std::map<std::string, std::unique_ptr<CloudServer>> servers_;  // Until the program ends.
  static inline int bucket_count_ = 0;
};

/// The name of a test's cloud.
inline std::string cloud_name(const testing::TestParamInfo<std::string>& info) {
  return info.param;
}

}  // namespace trainyard::storage
