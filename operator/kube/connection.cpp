#include "operator/kube/connection.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <httplib.h>
#include <netinet/tcp.h>

#include <csignal>

#include "common/http_status.hpp"
#include "common/try.hpp"
#include "operator/kube/reply.hpp"
#include "operator/kube/request_watchdog.hpp"

namespace trainyard::kube {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr seconds connect_deadline_max{5};
constexpr std::size_t body_bytes_max = std::size_t{256} << 20;

void set_socket(socket_t socket) {
  const auto set = [&](int level, int option, int value) { setsockopt(socket, level, option, &value, sizeof value); };
  // A watch may be silent for minutes. Without probes a dead server would look like a silent one.
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 25'000);
}

milliseconds since(steady_clock::time_point start) {
  return std::chrono::duration_cast<milliseconds>(steady_clock::now() - start);
}

HttpReply to_reply(const httplib::Response& response, std::string body) {
  HttpReply reply{.status = response.status, .body = std::move(body), .retry_after = std::nullopt};
  if (response.has_header("Retry-After"))
    reply.retry_after = parse_retry_after(response.get_header_value("Retry-After"), retry_after_max);
  return reply;
}

}  // namespace

Connection::Connection(const ClientConfig& config) : config_{config} {}
Connection::~Connection() = default;

Result<std::unique_ptr<Connection>> Connection::make(const ClientConfig& config) {
  // OpenSSL writes with write(2), so that a closed connection would end this process by SIGPIPE.
  static const auto ignored = std::signal(SIGPIPE, SIG_IGN);
  static_cast<void>(ignored);
  std::unique_ptr<Connection> connection{new Connection{config}};
  TRY(connection->renew_client());
  return connection;
}

Result<void> Connection::renew_client() {
  if (client_ && is_reused()) return {};
  std::string ca_pem = config_.authorities.pem();
  if (client_ && ca_pem == ca_pem_) return {};
  auto made = std::make_unique<httplib::SSLClient>(config_.host, config_.port);
  auto& client = *made;
  TRY(set_up_tls(client.ssl_context(), config_, ca_pem, certificate_check_));
  // OpenSSL verifies within the handshake, by our authorities alone (set_up_tls). The library's own check, which
  // follows, would also trust the machine's public authorities.
  client.enable_server_certificate_verification(false);
  client.set_keep_alive(true);
  client.set_tcp_nodelay(true);
  client.set_socket_options([this](socket_t socket) {
    set_socket(socket);
    note_socket(socket);
  });
  client.set_url_encode(false);
  client_ = std::move(made);
  ca_pem_ = std::move(ca_pem);
  return {};
}

bool Connection::is_reused() const {
  return client_->is_socket_open() != 0;
}

httplib::Request Connection::prepare(const HttpRequest& request, const std::string& token) {
  certificate_check_.refusal.clear();
  httplib::Request made;
  made.method = request.method;
  made.path = config_.path_prefix + request.target;
  made.body = request.body;
  const bool is_ipv6 = config_.host.find(':') != std::string::npos;
  made.set_header("Host",
                  fmt::format("{}:{}", is_ipv6 ? fmt::format("[{}]", config_.host) : config_.host, config_.port));
  made.set_header("Accept", "application/json");
  made.set_header("User-Agent", "trainyard");
  if (!request.content_type.empty()) made.set_header("Content-Type", request.content_type);
  if (!token.empty()) made.set_header("Authorization", "Bearer " + token);
  return made;
}

Result<HttpReply> Connection::with_token(const std::function<Result<HttpReply>(const std::string& token)>& send) {
  const auto token = TRY(config_.token.token());
  auto reply = send(token);
  if (!reply || reply->status != 401 || !config_.token.refuse(token)) return reply;
  const auto renewed = TRY(config_.token.token());
  // A write may be sent again too: the server does nothing for a client that it does not know.
  return renewed == token ? reply : send(renewed);
}

Result<HttpReply> Connection::exchange(const HttpRequest& request, milliseconds deadline) {
  return with_token([&](const std::string& token) { return exchange_once(prepare(request, token), deadline); });
}

Result<HttpReply> Connection::exchange_once(httplib::Request request, milliseconds deadline) {
  TRY(renew_client());
  const auto start = steady_clock::now();
  client_->set_connection_timeout(std::min<milliseconds>(deadline, connect_deadline_max));
  client_->set_read_timeout(deadline);
  client_->set_write_timeout(deadline);
  std::string body;
  bool is_too_long = false;
  request.content_receiver = [&](const char* bytes, std::size_t count, std::uint64_t, std::uint64_t) {
    is_too_long = body.size() + count > body_bytes_max;
    if (is_too_long || since(start) > deadline) return false;
    body.append(bytes, count);
    return true;
  };
  auto watchdog = TRY(RequestWatchdog::start(deadline, [this] { shut_down(); }));
  const httplib::Result result = client_->send(request);
  watchdog.reset();
  if (is_too_long) return fail(ErrorKind::corrupt, fmt::format("the reply is longer than {} bytes", body_bytes_max));
  if (!result) return tl::unexpected(transport_error(static_cast<int>(result.error()), deadline, since(start)));
  return to_reply(*result, std::move(body));
}

Result<HttpReply> Connection::stream(const HttpRequest& request, milliseconds silence_max,
                                     const std::function<bool(std::string_view)>& on_bytes,
                                     const std::stop_token& stop) {
  return with_token(
      [&](const std::string& token) { return stream_once(prepare(request, token), silence_max, on_bytes, stop); });
}

Result<HttpReply> Connection::stream_once(httplib::Request request, milliseconds silence_max,
                                          const std::function<bool(std::string_view)>& on_bytes,
                                          const std::stop_token& stop) {
  const Error stopped{ErrorKind::cancelled, "stopped", {}};
  TRY(renew_client());
  client_->set_connection_timeout(connect_deadline_max);
  client_->set_read_timeout(silence_max);
  client_->set_write_timeout(connect_deadline_max);
  auto heard_at = steady_clock::now();
  std::string refusal;
  int status = 0;
  bool is_refused_by_caller = false;
  auto watchdog = TRY(RequestWatchdog::start(
      silence_max, [this] { shut_down(); }, stop));
  request.response_handler = [&](const httplib::Response& response) {
    status = response.status;
    return !stop.stop_requested();
  };
  request.content_receiver = [&](const char* bytes, std::size_t count, std::uint64_t, std::uint64_t) {
    if (stop.stop_requested()) return false;
    const std::string_view text{bytes, count};
    if (status == 200) {
      watchdog->pause();
      is_refused_by_caller = !on_bytes(text);
      heard_at = steady_clock::now();
      watchdog->restart();
      return !is_refused_by_caller;
    }
    refusal += text;
    return refusal.size() <= body_bytes_max;
  };
  if (stop.stop_requested()) return tl::unexpected(stopped);
  const httplib::Result result = client_->send(request);
  watchdog.reset();
  if (is_refused_by_caller || stop.stop_requested()) return tl::unexpected(stopped);
  if (!result) return tl::unexpected(transport_error(static_cast<int>(result.error()), silence_max, since(heard_at)));
  return to_reply(*result, std::move(refusal));
}

void Connection::note_socket(int socket) {
  const std::scoped_lock lock{socket_mutex_};
  socket_ = FileDescriptor{::fcntl(socket, F_DUPFD_CLOEXEC, 0)};
}

void Connection::shut_down() {
  const std::scoped_lock lock{socket_mutex_};
  if (socket_) ::shutdown(socket_.get(), SHUT_RDWR);
}

Error Connection::transport_error(int httplib_error, milliseconds limit, milliseconds silent_for) const {
  const std::string server = fmt::format("the API server at {}:{}", config_.host, config_.port);
  const std::string waited = fmt::format("{} did not answer within {} ms", server, limit.count());
  const auto error = static_cast<httplib::Error>(httplib_error);
  if (error == httplib::Error::SSLConnection && !certificate_check_.refusal.empty()) {
    return {.kind = ErrorKind::unavailable,
            .message = fmt::format("the certificate of {} is not trusted: {}; check the CA and the server's name",
                                   server, certificate_check_.refusal),
            .retry_after = {}};
  }
  // The library returns one error for a read that timed out and for a broken connection, and Canceled for what
  // exchange_once() has refused after its deadline.
  if (silent_for >= limit || error == httplib::Error::Canceled)
    return {.kind = ErrorKind::timeout, .message = waited, .retry_after = {}};
  switch (error) {
    case httplib::Error::SSLConnection:
      return {.kind = ErrorKind::unavailable,
              .message = fmt::format("the TLS handshake with {} failed", server),
              .retry_after = {}};
    case httplib::Error::ConnectionTimeout:
      return {
          .kind = ErrorKind::timeout, .message = fmt::format("no connection to {} in time", server), .retry_after = {}};
    case httplib::Error::Connection:
      return {.kind = ErrorKind::unavailable, .message = fmt::format("no connection to {}", server), .retry_after = {}};
    default:
      return {.kind = ErrorKind::unavailable,
              .message = fmt::format("the connection to {} broke", server),
              .retry_after = {}};
  }
}

Result<ConnectionPool::Handle> ConnectionPool::acquire(std::chrono::milliseconds deadline) {
  std::unique_lock lock{mutex_};
  if (!returned_.wait_for(lock, deadline, [&] { return lent_count_ < connections_max_; })) {
    return fail(ErrorKind::timeout, fmt::format("all {} connections to the API server were in use for {} ms",
                                                connections_max_, deadline.count()));
  }
  std::unique_ptr<Connection> connection;
  if (idle_.empty()) {
    connection = TRY(Connection::make(config_));
  } else {
    connection = std::move(idle_.back());
    idle_.pop_back();
  }
  ++lent_count_;
  return Handle{*this, std::move(connection)};
}

void ConnectionPool::give_back(std::unique_ptr<Connection> connection) {
  {
    const std::scoped_lock lock{mutex_};
    --lent_count_;
    idle_.push_back(std::move(connection));
  }
  returned_.notify_one();
}

}  // namespace trainyard::kube
