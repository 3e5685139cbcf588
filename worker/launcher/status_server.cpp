#include "worker/launcher/status_server.hpp"

#include <fmt/format.h>
#include <httplib.h>

namespace trainyard::launcher {
namespace {

constexpr std::size_t threads = 4;
constexpr time_t silence_seconds_max = 1;  // A client that says nothing must not keep a thread from the operator.

}  // namespace

StatusServer::StatusServer(const GroupEnvironment& environment, Status first)
    : environment_{environment}, status_{std::move(first)}, server_{std::make_unique<httplib::Server>()} {}

Result<std::unique_ptr<StatusServer>> StatusServer::start(const GroupEnvironment& environment, Reach reach,
                                                          std::uint16_t port, Status first) {
  std::unique_ptr<StatusServer> server{new StatusServer{environment, std::move(first)}};
  httplib::Server& http = *server->server_;
  http.new_task_queue = [] { return new httplib::ThreadPool{threads}; };
  http.set_keep_alive_max_count(1);
  http.set_read_timeout(silence_seconds_max);
  http.set_write_timeout(silence_seconds_max);
  // The library's own options would share the port with whoever has it, and a poller would ask the wrong one.
  http.set_socket_options([](int socket) {
    const int on = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  });
  http.Get("/status", [raw = server.get()](const httplib::Request& /*request*/, httplib::Response& response) {
    response.set_content(make_status_document(raw->environment_, raw->status()), "application/json");
  });
  http.Get("/metrics", [raw = server.get()](const httplib::Request& /*request*/, httplib::Response& response) {
    response.set_content(make_metrics_document(raw->environment_, raw->status()), "text/plain; version=0.0.4");
  });
  const bool is_bound = reach == Reach::loopback ? http.bind_to_port("127.0.0.1", port)
                                                 : http.bind_to_port("::", port) || http.bind_to_port("0.0.0.0", port);
  if (!is_bound) {
    return fail(ErrorKind::already_exists, fmt::format("port {}, where /status (TRAINYARD_STATUS_PORT) was to listen, "
                                                       "is in use by another program on this machine",
                                                       port));
  }
  server->thread_ = std::jthread{[&http] { http.listen_after_bind(); }};
  // stop() is lost on a server that does not run yet.
  while (!http.is_running()) std::this_thread::yield();
  return server;
}

StatusServer::~StatusServer() {
  server_->stop();
}

void StatusServer::update(Status status) {
  const std::scoped_lock lock{mutex_};
  status_ = std::move(status);
}

Status StatusServer::status() const {
  const std::scoped_lock lock{mutex_};
  return status_;
}

}  // namespace trainyard::launcher
