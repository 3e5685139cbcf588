#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tests/fakes/temporary_folder.hpp"
#include "tests/storage/server_process.hpp"

namespace trainyard::storage {

/// A real S3 server, MinIO over a temporary folder, of a test's own.
class Minio {
 public:
  static constexpr const char* name = "MinIO";
  static constexpr const char* access_key_id = "test-key";
  static constexpr const char* secret_access_key = "test-secret-0123456789";

  /// Whether scripts/setup has installed the program.
  [[nodiscard]] static bool is_installed();

  /// Nothing when it does not come up.
  [[nodiscard]] static std::unique_ptr<Minio> start();

  [[nodiscard]] std::uint16_t port() const { return process_->port(); }
  void make_bucket(const std::string& bucket);

 private:
  Minio();
  [[nodiscard]] bool is_ready() const;

  fakes::TemporaryFolder folder_;
  std::unique_ptr<ServerProcess> process_;  // Nothing when it did not come up.
};

}  // namespace trainyard::storage
