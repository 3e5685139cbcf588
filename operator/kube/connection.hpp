#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "common/file_descriptor.hpp"
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
  /// Lets shut_down() end the request that uses `socket`.
  void note_socket(int socket);
  /// Ends the request in flight, also while it connects. Any thread may call. The library's own stop() waits until the
  /// connection is made.
  void shut_down();
  [[nodiscard]] Error transport_error(int httplib_error, std::chrono::milliseconds limit,
                                      std::chrono::milliseconds silent_for) const;

  const ClientConfig& config_;
  CertificateCheck certificate_check_;  // outlives client_, whose handshakes write it
  std::string ca_pem_;                  // the authorities that client_ trusts
  std::unique_ptr<httplib::SSLClient> client_;
  std::mutex socket_mutex_;  // guards socket_
  FileDescriptor socket_;    // a duplicate of the descriptor of the last connection that client_ began
};

/// At most `connections_max` connections, each lent to one thread at a time. The connection that was returned last is
/// lent first. Any thread may call.
class ConnectionPool {
 public:
  /// Returns the connection to the pool in its destructor.
  class Handle {
   public:
    Handle(ConnectionPool& pool, std::unique_ptr<Connection> connection)
        : pool_{&pool}, connection_{std::move(connection)} {}
    Handle(Handle&&) = default;
    Handle& operator=(Handle&&) = delete;
    ~Handle() {
      if (connection_) pool_->give_back(std::move(connection_));
    }
    Connection* operator->() const { return connection_.get(); }

   private:
    ConnectionPool* pool_;
    std::unique_ptr<Connection> connection_;
  };

  /// `config` must outlive the pool.
  ConnectionPool(const ClientConfig& config, std::size_t connections_max)
      : config_{config}, connections_max_{connections_max} {}

  /// ErrorKind::timeout if no connection is free within `deadline`.
  [[nodiscard]] Result<Handle> acquire(std::chrono::milliseconds deadline);

 private:
  void give_back(std::unique_ptr<Connection> connection);

  const ClientConfig& config_;
  const std::size_t connections_max_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable returned_;
  std::size_t lent_count_ = 0;
  std::vector<std::unique_ptr<Connection>> idle_;
};

}  // namespace trainyard::kube
