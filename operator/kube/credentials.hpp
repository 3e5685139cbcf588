#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "common/result.hpp"
#include "operator/kube/authorities.hpp"

namespace trainyard::kube {

class ExecPlugin;

/// A bearer token: none, a fixed one, a file that somebody else renews (the kubelet, for service accounts), or what a
/// credential plugin gives. Copies share the plugin. Any thread may call.
class TokenSource {
 public:
  TokenSource() = default;
  [[nodiscard]] static TokenSource of_text(std::string token);
  [[nodiscard]] static TokenSource of_file(std::filesystem::path file);
  [[nodiscard]] static TokenSource of_plugin(std::shared_ptr<ExecPlugin> plugin);

  /// Empty: none. A file is read at every call, so that a renewed token is used at once: it is a kilobyte of page cache
  /// a request. A plugin is run when what it gave has expired, which may take as long as its deadline.
  /// ErrorKind::unauthorized when the file cannot be read or is empty, or the plugin gives no token; timeout and
  /// unavailable when the plugin may give one later.
  [[nodiscard]] Result<std::string> token() const;

  /// The server did not take `token`. Whether token() may now give another: only a plugin is asked anew for that.
  [[nodiscard]] bool refuse(std::string_view token) const;

 private:
  std::string text_;
  std::filesystem::path file_;
  std::shared_ptr<ExecPlugin> plugin_;
};

/// Where an API server is, how it proves who it is, and how we prove who we are.
struct ClientConfig {
  std::string host;  ///< A name or an address; IPv6 without brackets.
  std::uint16_t port = 443;
  std::string path_prefix;      ///< "/k8s/clusters/c-1" behind some proxies; no slash at its end.
  AuthoritySource authorities;  ///< Only these vouch for the server.
  std::string certificate_pem;  ///< Our client certificate, its chain after it; empty: none.
  std::string key_pem;          ///< Its private key.
  TokenSource token;
  std::string name_space;  ///< The namespace of a user who names none.
};

/// ErrorKind::io when the file cannot be read; `what` ("the CA of cluster a") begins the message.
[[nodiscard]] Result<std::string> read_file(std::string_view what, const std::filesystem::path& file);

/// Splits "https://host:port/prefix" into `config`. ErrorKind::invalid for anything else, http:// included: whoever
/// answered there would be handed our token unproved.
[[nodiscard]] Result<void> set_server(ClientConfig& config, std::string_view url);

}  // namespace trainyard::kube
