#include "operator/manager/health_server.hpp"

#include <fmt/format.h>
#include <httplib.h>

#include <charconv>

#include "common/try.hpp"

namespace trainyard::manager {
namespace {

struct Address {
  std::string host;
  std::uint16_t port = 0;
};

Result<Address> parse_address(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  std::string_view host = text.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  std::uint16_t port = 0;
  const std::string_view digits = colon == std::string_view::npos ? std::string_view{} : text.substr(colon + 1);
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (host.empty() || digits.empty() || failure != std::errc{} || end != digits.data() + digits.size()) {
    return fail(ErrorKind::invalid, fmt::format("the address to listen on, \"{}\", is not HOST:PORT", text));
  }
  return Address{std::string{host}, port};
}

}  // namespace

bool is_heard(Instant last_answer, Instant now, std::chrono::seconds silence_max) {
  return silence_max.count() == 0 || now - last_answer <= silence_max;
}

HealthServer::HealthServer(HealthAnswers answers)
    : answers_{std::move(answers)}, server_{std::make_unique<httplib::Server>()} {
  server_->new_task_queue = [] { return new httplib::ThreadPool(2); };  // the server owns it
  server_->set_payload_max_length(1024);
  // No kept-alive connections: each would keep a thread from the kubelet's probes.
  server_->set_keep_alive_max_count(1);
  server_->set_read_timeout(5);
  server_->set_write_timeout(5);
  server_->Get("/healthz", [this](const httplib::Request&, httplib::Response& response) {
    const bool is_live = answers_.is_live();
    response.status = is_live ? 200 : 503;
    response.set_content(is_live ? "ok\n" : "the API server does not answer\n", "text/plain");
  });
  server_->Get("/readyz", [this](const httplib::Request&, httplib::Response& response) {
    const bool is_ready = answers_.is_ready();
    response.status = is_ready ? 200 : 503;
    response.set_content(is_ready ? "ok\n" : "not ready\n", "text/plain");
  });
  server_->Get("/metrics", [this](const httplib::Request&, httplib::Response& response) {
    response.set_content(answers_.metrics(), "text/plain; version=0.0.4");
  });
}

Result<std::unique_ptr<HealthServer>> HealthServer::start(std::string_view text, HealthAnswers answers) {
  const auto address = TRY(parse_address(text));
  std::unique_ptr<HealthServer> health{new HealthServer{std::move(answers)}};
  httplib::Server& server = *health->server_;
  // The library's default would let a second process share the port and get half of the probes.
  server.set_socket_options([](socket_t socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  if (address.port == 0) {
    health->port_ = server.bind_to_any_port(address.host);
  } else {
    health->port_ = server.bind_to_port(address.host, address.port) ? address.port : -1;
  }
  if (health->port_ <= 0) {
    return fail(ErrorKind::io,
                fmt::format("cannot listen on {}: the port is taken, or the address is not this machine's", text));
  }
  health->thread_ = std::jthread{[&server] { server.listen_after_bind(); }};
  while (!server.is_running()) std::this_thread::yield();
  return health;
}

HealthServer::~HealthServer() {
  server_->stop();
}

}  // namespace trainyard::manager
