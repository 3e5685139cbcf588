#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "storage/environment.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/storage/environment_table.hpp"
#include "tests/storage/server_process.hpp"

namespace trainyard::storage {

/// A server that stands in for a cloud's storage: gcp-storage-emulator for "gs", azurite for "az".
class CloudServer {
 public:
  /// nullptr when it does not start, or scripts/setup has not installed it.
  [[nodiscard]] static std::unique_ptr<CloudServer> start(const std::string& scheme);

  [[nodiscard]] const std::string& scheme() const { return scheme_; }
  [[nodiscard]] std::uint16_t port() const { return process_->port(); }
  void make_bucket(const std::string& name) const;
  /// The environment variables that name it, at its port or at a proxy's. `key` is the account's key, or a token, for
  /// "az".
  [[nodiscard]] std::map<std::string, std::string> variables_at(std::uint16_t port,
                                                                const std::string& key = account_key) const;
  [[nodiscard]] Environment environment_at(std::uint16_t port, const std::string& key = account_key) const {
    return environment_of(variables_at(port, key));
  }

  static constexpr const char* account_key =
      "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
  /// A token for all containers of the account until the year 2100, signed with the emulator's public key.
  static constexpr const char* account_token =
      "sv=2018-11-09&ss=b&srt=sco&sp=rwdlac&se=2100-01-01T00%3A00%3A00Z&"
      "sig=RDDDurbJp2cvHUsQPpwYRTbDWU4Ja0vOBapV13xEMmw%3D";

 private:
  explicit CloudServer(std::string scheme) : scheme_{std::move(scheme)} {}

  const std::string scheme_;
  fakes::TemporaryFolder folder_;
  std::unique_ptr<ServerProcess> process_;
};

}  // namespace trainyard::storage
