#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "common/result.hpp"

namespace trainyard::kube {

/// The certificate authorities that vouch for a server: the machine's own, a fixed text, or a file that another program
/// renews (the kubelet, for service accounts). Copies share the file's last contents. Any thread may call.
class AuthoritySource {
 public:
  /// The machine's own authorities.
  AuthoritySource() = default;
  [[nodiscard]] static AuthoritySource of_text(std::string pem);
  /// ErrorKind::io when the file cannot be read now.
  [[nodiscard]] static Result<AuthoritySource> of_file(const std::filesystem::path& file);

  /// The certificates in PEM; empty: the machine's own. Reads a file at every call, so that the next connection trusts
  /// a renewed authority. If the file can no longer be read, or holds no certificate, returns its last good contents
  /// and logs a warning once.
  [[nodiscard]] std::string pem() const;

 private:
  struct File;

  std::string text_;
  std::shared_ptr<File> file_;
};

class ExecPlugin;

/// Source of a bearer token: none, a fixed text, a file that another program renews (the kubelet, for service
/// accounts), or a credential plugin. Copies share the plugin. Any thread may call.
class TokenSource {
 public:
  TokenSource() = default;
  [[nodiscard]] static TokenSource of_text(std::string token);
  [[nodiscard]] static TokenSource of_file(std::filesystem::path file);
  [[nodiscard]] static TokenSource of_plugin(std::shared_ptr<ExecPlugin> plugin);

  /// The token; empty if there is none. Reads a file at every call (a kilobyte of page cache), so that a renewed token
  /// is used at once. Runs a plugin again when its token has expired, which may take as long as the plugin's deadline.
  ///
  /// ErrorKind::unauthorized: the file cannot be read or is empty, or the plugin returned no token; timeout and
  /// unavailable: the plugin may return one later.
  [[nodiscard]] Result<std::string> token() const;

  /// Records that the server refused `token`. True if token() may now return another one; only a plugin is then run
  /// again.
  [[nodiscard]] bool refuse(std::string_view token) const;

 private:
  std::string text_;
  std::filesystem::path file_;
  std::shared_ptr<ExecPlugin> plugin_;
};

/// Address of an API server, the authorities that vouch for it, and our credentials.
struct ClientConfig {
  std::string host;  ///< A name or an address; IPv6 without brackets.
  std::uint16_t port = 443;
  std::string path_prefix;      ///< "/k8s/clusters/c-1" behind some proxies; no slash at its end.
  AuthoritySource authorities;  ///< No other authority is trusted.
  std::string certificate_pem;  ///< Our client certificate, its chain after it; empty: none.
  std::string key_pem;          ///< Its private key.
  TokenSource token;
  std::string name_space;  ///< The namespace of a user who names none.
};

/// Reads a file. ErrorKind::io when that fails; `what` ("the CA of cluster a") begins the message.
[[nodiscard]] Result<std::string> read_file(std::string_view what, const std::filesystem::path& file);

/// Splits "https://host:port/prefix" into `config`. ErrorKind::invalid for anything else. Refuses http:// too, because
/// it would give our token to a server that has not proved its identity.
[[nodiscard]] Result<void> set_server(ClientConfig& config, std::string_view url);

}  // namespace trainyard::kube
