#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "common/result.hpp"
#include "operator/kube/credentials.hpp"
#include "operator/kube/tls.hpp"

namespace httplib {
class SSLClient;
struct Request;
}  // namespace httplib

namespace trainyard::kube {

struct HttpRequest {
  std::string method;
  std::string target;  ///< Path and query, encoded.
  std::string body;
  std::string content_type;
};
struct HttpReply {
  int status = 0;
  std::string body;
  std::optional<std::chrono::milliseconds> retry_after;
};

/// One TLS connection to the API server. It is made at the first request, kept alive, and made again with the
/// authorities of that time when it broke. One thread at a time. TCP notices within half a minute that the server's
/// machine is gone, whatever the deadline of the request.
class Connection {
 public:
  /// Does not connect yet. ErrorKind::invalid when certificates or key of `config` cannot be used. `config` must
  /// outlive the connection.
  [[nodiscard]] static Result<std::unique_ptr<Connection>> make(const ClientConfig& config);
  ~Connection();

  /// Returns the reply, whatever its HTTP status. After a 401 the request is sent once more if the token's source then
  /// has another token. A credential plugin's time does not count for `deadline`: the plugin has a deadline of its own.
  ///
  /// ErrorKind::unavailable: no connection, a broken one, or a refused certificate; timeout: no whole reply within
  /// `deadline`; unauthorized: the token cannot be read; corrupt: the body is longer than any of an API server.
  [[nodiscard]] Result<HttpReply> exchange(const HttpRequest& request, std::chrono::milliseconds deadline);

  /// Like exchange(), but passes the body of a 200 to `on_bytes` as it arrives, until `on_bytes` returns false
  /// (cancelled), `stop` is requested (cancelled), the server ends the body, or nothing arrives for `silence_max`.
  [[nodiscard]] Result<HttpReply> stream(const HttpRequest& request, std::chrono::milliseconds silence_max,
                                         const std::function<bool(std::string_view)>& on_bytes,
                                         const std::stop_token& stop);

  /// True when an earlier exchange has left the connection open. The server may have closed it since then.
  [[nodiscard]] bool is_reused() const;

 private:
  explicit Connection(const ClientConfig& config);
  /// Replaces client_ if its next request will make a new connection and the authorities have changed since client_ was
  /// made.
  [[nodiscard]] Result<void> renew_client();
  [[nodiscard]] httplib::Request prepare(const HttpRequest& request, const std::string& token);
  /// Calls `send` with our token, and once more if the server answers 401 and the token's source then has another
  /// token.
  [[nodiscard]] Result<HttpReply> with_token(const std::function<Result<HttpReply>(const std::string& token)>& send);
  [[nodiscard]] Result<HttpReply> exchange_once(httplib::Request request, std::chrono::milliseconds deadline);
  [[nodiscard]] Result<HttpReply> stream_once(httplib::Request request, std::chrono::milliseconds silence_max,
                                              const std::function<bool(std::string_view)>& on_bytes,
                                              const std::stop_token& stop);
  [[nodiscard]] Error transport_error(int httplib_error, std::chrono::milliseconds limit,
                                      std::chrono::milliseconds silent_for) const;

  const ClientConfig& config_;
  CertificateCheck certificate_check_;  // outlives client_, whose handshakes write it
  std::string ca_pem_;                  // the authorities that client_ trusts
  std::unique_ptr<httplib::SSLClient> client_;
};

}  // namespace trainyard::kube
