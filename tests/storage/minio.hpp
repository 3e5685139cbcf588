#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tests/fakes/temporary_folder.hpp"
#include "tests/storage/server_process.hpp"

namespace trainyard::storage {

/// A real S3 server for a test: MinIO over a temporary folder.
class Minio {
 public:
  static constexpr const char* name = "MinIO";
  static constexpr const char* access_key_id = "test-key";
  static constexpr const char* secret_access_key = "test-secret-0123456789";

  /// True when scripts/setup has installed the program.
  [[nodiscard]] static bool is_installed();

  /// nullptr when it does not start.
  [[nodiscard]] static std::unique_ptr<Minio> start();

  [[nodiscard]] std::uint16_t port() const { return process_->port(); }
  void make_bucket(const std::string& bucket);

 private:
  Minio();
  [[nodiscard]] bool is_ready() const;

  fakes::TemporaryFolder folder_;
  std::unique_ptr<ServerProcess> process_;  // nullptr when it did not start.
};

}  // namespace trainyard::storage
