#include "worker/launcher/status_server.hpp"

#include <fmt/format.h>
#include <httplib.h>

#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "api/contract.hpp"
#include "common/logging.hpp"

namespace trainyard::launcher {
namespace {

/// How a server's thread ended.
class ServerEnd {
 public:
  void set(std::string why) {
    const std::scoped_lock lock{mutex_};
    why_ = std::move(why);
  }
  [[nodiscard]] std::optional<std::string> get() const {
    const std::scoped_lock lock{mutex_};
    return why_;
  }

 private:
  mutable std::mutex mutex_;  // guards why_
  std::optional<std::string> why_;
};

}  // namespace

Result<std::jthread> start_serving(std::function<bool()> listen, const std::function<bool()>& is_running) {
  const auto end = std::make_shared<ServerEnd>();
  std::jthread thread{[listen = std::move(listen), end] {
    std::string why = "the server was stopped";
    try {
      if (!listen()) {
        why = "accepting connections failed";
        logging::error("server ended", {{"error", why}});
      }
    } catch (const std::exception& error) {
      why = error.what();
      logging::error("server ended", {{"error", why}});
    }
    end->set(std::move(why));
  }};
  while (!is_running()) {
    if (const auto why = end->get()) return fail(ErrorKind::io, fmt::format("the server cannot listen: {}", *why));
    std::this_thread::yield();
  }
  return thread;
}

namespace {

constexpr std::size_t threads = 4;
constexpr time_t silence_seconds_max = 1;  // A silent client must not keep a thread from the operator.
// So much of a body that is too long is read and dropped, so that the client gets an answer and not a reset connection.
constexpr std::size_t skipped_bytes_max = 65'536;

/// The body, or its beginning when it is longer than any request. The library itself would keep all of a long body.
std::string read_body(const httplib::Request& request, const httplib::ContentReader& content) {
  std::string body;
  if (request.is_multipart_form_data())
    return body;  // The library reads such bodies in another way, and they are not requests.
  std::size_t size = 0;
  content([&](const char* bytes, std::size_t count) {
    size += count;
    if (body.size() <= contract::checkpoint_request_bytes_max) body.append(bytes, count);
    return size <= skipped_bytes_max;
  });
  return body;
}

}  // namespace

StatusServer::StatusServer(const rank::GroupEnvironment& environment, const CheckpointEndpointSettings& requests,
                           Status first)
    : environment_{environment},
      status_{std::move(first)},
      endpoint_{requests},
      server_{std::make_unique<httplib::Server>()} {}

Result<std::unique_ptr<StatusServer>> StatusServer::start(const rank::GroupEnvironment& environment, rank::Reach reach,
                                                          std::uint16_t port,
                                                          const CheckpointEndpointSettings& requests, Status first) {
  std::unique_ptr<StatusServer> server{new StatusServer{environment, requests, std::move(first)}};
  httplib::Server& http = *server->server_;
  http.new_task_queue = [] { return new httplib::ThreadPool{threads}; };
  http.set_keep_alive_max_count(1);
  http.set_read_timeout(silence_seconds_max);
  http.set_write_timeout(silence_seconds_max);
  // The library's default options would share the port with another program, and a poller could reach the wrong one.
  http.set_socket_options([](int socket) {
    const int on = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  });
  server->add_handlers();
  const bool is_bound = reach == rank::Reach::loopback
                            ? http.bind_to_port("127.0.0.1", port)
                            : http.bind_to_port("::", port) || http.bind_to_port("0.0.0.0", port);
  if (!is_bound) {
    return fail(ErrorKind::already_exists, fmt::format("port {}, where /status (TRAINYARD_STATUS_PORT) was to listen, "
                                                       "is in use by another program on this machine: end that program "
                                                       "(ss -ltnp lists it), or give the group another port",
                                                       port));
  }
  auto thread = start_serving([&http] { return http.listen_after_bind(); }, [&http] { return http.is_running(); });
  if (!thread) return fail(fmt::format("serving /status on port {}", port), thread.error());
  server->thread_ = std::move(*thread);
  return server;
}

void StatusServer::add_handlers() {
  // Refuses other paths here, because the library reads the whole body of a POST into memory before it looks for a
  // handler.
  server_->set_pre_routing_handler([](const httplib::Request& request, httplib::Response& response) {
    const bool is_read = request.method == "GET" || request.method == "HEAD";
    if (is_read || (request.method == "POST" && request.path == contract::checkpoint_request_path))
      return httplib::Server::HandlerResponse::Unhandled;
    response.status = 404;
    return httplib::Server::HandlerResponse::Handled;
  });
  server_->Get(std::string{contract::status_path},
               [this](const httplib::Request& /*request*/, httplib::Response& response) {
                 response.set_content(make_status_document(environment_, status()), "application/json");
               });
  server_->Get("/metrics", [this](const httplib::Request& /*request*/, httplib::Response& response) {
    response.set_content(make_metrics_document(environment_, status()), "text/plain; version=0.0.4");
  });
  server_->Post(
      std::string{contract::checkpoint_request_path},
      [this](const httplib::Request& request, httplib::Response& response, const httplib::ContentReader& content) {
        const std::string body = read_body(request, content);
        const CheckpointAnswer answer = post(request.get_header_value("Authorization"), body);
        response.status = answer.http_status;
        if (answer.http_status == 401) response.set_header("WWW-Authenticate", "Bearer");
        response.set_content(answer.body, "application/json");
      });
}

StatusServer::~StatusServer() {
  server_->stop();
}

void StatusServer::update(Status status, bool is_training_over) {
  const std::scoped_lock lock{mutex_};
  if (status.progress) endpoint_.on_report(status.progress->checkpoint_request);
  if (is_training_over) endpoint_.close();
  status_ = std::move(status);
}

std::optional<rank::CheckpointRequest> StatusServer::take_checkpoint_request() {
  const std::scoped_lock lock{mutex_};
  return endpoint_.take_request();
}

std::optional<rank::RequestRecord> StatusServer::request_record() const {
  const std::scoped_lock lock{mutex_};
  return endpoint_.record();
}

Status StatusServer::status() const {
  const std::scoped_lock lock{mutex_};
  Status status = status_;
  status.checkpoint_request = endpoint_.record();
  return status;
}

CheckpointAnswer StatusServer::post(std::string_view authorization, std::string_view body) {
  const std::scoped_lock lock{mutex_};
  return endpoint_.post(authorization, body);
}

}  // namespace trainyard::launcher
