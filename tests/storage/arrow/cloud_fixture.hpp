#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "storage/arrow_module.hpp"
#include "tests/paths/paths.hpp"
#include "tests/skips.hpp"
#include "tests/storage/arrow/cloud_server.hpp"

namespace trainyard::storage {

/// Tests over "gs" and "az", through the module as programs load it, on servers that all of a test program share, each
/// test with a bucket of its own. Skipped where a server or the module is not there, but for CI.
class CloudFixture : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    auto& server = servers_[GetParam()];
    if (!module_) return tests::cannot_run(module_.error().message);
    if (!server) server = CloudServer::start(GetParam());
    if (!server) {
      return tests::cannot_run(
          fmt::format("the server for {}:// is not installed or does not start: run scripts/setup all", GetParam()));
    }
    bucket = fmt::format("bucket-{}", ++bucket_count_);
    server->make_bucket(bucket);
  }

  [[nodiscard]] CloudServer& server() const { return *servers_.at(GetParam()); }
  [[nodiscard]] Uri uri_of(const std::string& prefix = "run") const {
    return parse_uri(fmt::format("{}://{}/{}", GetParam(), bucket, prefix)).value();
  }
  [[nodiscard]] Result<std::unique_ptr<Store>> try_open(const Environment& environment, const Uri& uri) const {
    return (*module_)->open(uri, environment, tuning);
  }
  /// A store under `prefix` of this test's bucket, at the server's port or at a proxy's.
  [[nodiscard]] std::unique_ptr<Store> open(std::uint16_t port, const std::string& prefix = "run") const {
    return try_open(server().environment_at(port), uri_of(prefix)).value();
  }
  [[nodiscard]] std::unique_ptr<Store> open() const { return open(server().port()); }

  // The machine may be busy, and pauses are short.
  ArrowTuning tuning{.connect_timeout = std::chrono::seconds{30},
                     .patience = std::chrono::minutes{2},
                     .first_patience = std::chrono::minutes{2},
                     .backoff = {.initial = std::chrono::milliseconds{1}, .max = std::chrono::milliseconds{20}}};
  std::string bucket;

 private:
  static inline std::map<std::string, std::unique_ptr<CloudServer>> servers_;  // Until the program ends.
  static inline int bucket_count_ = 0;
  const Result<const ArrowModule*> module_ = load_arrow_module(paths::build("bin"));
};

/// The name of a test's cloud.
inline std::string cloud_name(const testing::TestParamInfo<std::string>& info) {
  return info.param;
}

}  // namespace trainyard::storage
