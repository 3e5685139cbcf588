#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/fakes/temporary_folder.hpp"
#include "tests/storage/server_process.hpp"

namespace trainyard::storage {

/// A real S3 server for a test: versitygw over a temporary folder.
class Versitygw {
 public:
  static constexpr const char* name = "versitygw";
  static constexpr const char* access_key_id = "test-key";
  static constexpr const char* secret_access_key = "test-secret-0123456789";
  // A second user with all rights.
  static constexpr const char* other_key_id = "other-key";
  static constexpr const char* other_secret = "other-secret-0123456789";

  /// True when scripts/setup has installed the program.
  [[nodiscard]] static bool is_installed();

  /// nullptr when it does not start. `options` are further options of the program, such as --cert.
  [[nodiscard]] static std::unique_ptr<Versitygw> start(const std::vector<std::string>& options = {});

  [[nodiscard]] std::uint16_t port() const { return process_->port(); }
  /// "http://127.0.0.1:12345", for AWS_ENDPOINT_URL_S3.
  [[nodiscard]] std::string endpoint() const;
  void make_bucket(const std::string& name);
  /// With all that is in it, whatever the server does just then.
  void remove_bucket(const std::string& name);

 private:
  explicit Versitygw(const std::vector<std::string>& options);

  fakes::TemporaryFolder folder_;
  std::unique_ptr<ServerProcess> process_;  // nullptr when it did not start.
};

}  // namespace trainyard::storage
