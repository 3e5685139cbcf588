#include "tests/fakes/fault_proxy.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "common/check.hpp"

namespace trainyard::fakes {
namespace {

constexpr std::size_t head_bytes_max = 64U << 10;
constexpr std::size_t read_bytes = 64U << 10;
constexpr std::chrono::milliseconds drip_interval{100};

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

bool send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

// Appends the next bytes of the stream, at most `bytes_max`; false at its end.
bool receive(int fd, std::string& into, std::size_t bytes_max = read_bytes) {
  std::string buffer(bytes_max, '\0');
  const ssize_t got = ::recv(fd, buffer.data(), buffer.size(), 0);
  if (got <= 0) return false;
  into.append(buffer, 0, static_cast<std::size_t>(got));
  return true;
}

std::size_t content_length(std::string_view head) {
  constexpr std::string_view name = "\r\ncontent-length:";
  const auto found = std::search(head.begin(), head.end(), name.begin(), name.end(),
                                 [](unsigned char a, unsigned char b) { return std::tolower(a) == b; });
  return found == head.end() ? 0 : std::strtoull(&*found + name.size(), nullptr, 10);
}

// True when the client waits for "100 Continue", which the proxy sends without asking the server.
bool take_expectation(std::string& head) {
  constexpr std::string_view line = "\r\nexpect: 100-continue";
  const auto found = std::search(head.begin(), head.end(), line.begin(), line.end(),
                                 [](unsigned char a, unsigned char b) { return std::tolower(a) == b; });
  if (found == head.end()) return false;
  head.erase(found, found + static_cast<std::ptrdiff_t>(line.size()));
  return true;
}

}  // namespace

std::string http_reply(int status, const std::string& headers, const std::string& body) {
  return fmt::format("HTTP/1.1 {} X\r\n{}Content-Length: {}\r\nConnection: close\r\n\r\n{}", status, headers,
                     body.size(), body);
}

class FaultProxy::Impl {
 public:
  Impl(std::uint16_t server_port, Decide decide) : server_port_{server_port}, decide_{std::move(decide)} {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = loopback(0);
    socklen_t length = sizeof address;
    check(::bind(listener_, reinterpret_cast<sockaddr*>(&address), length) == 0 && ::listen(listener_, 64) == 0 &&
              ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length) == 0,
          "a proxy can listen");
    port_ = ntohs(address.sin_port);
    acceptor_ = std::jthread{[this] { accept_all(); }};
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  ~Impl() {
    {
      const std::scoped_lock lock{mutex_};
      is_stopping_ = true;
      stopping_.notify_all();
      // Wakes the threads that read, write or accept.
      for (const int fd : open_) ::shutdown(fd, SHUT_RDWR);
      ::shutdown(listener_, SHUT_RDWR);
    }
    acceptor_.join();
    connections_.clear();
    ::close(listener_);
  }

  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] int request_count() const {
    const std::scoped_lock lock{mutex_};
    return request_count_;
  }

 private:
  void accept_all() {
    for (;;) {
      const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (!add(client)) return;
      connections_.emplace_back([this, client] {
        serve(client);
        remove(client);
      });
    }
  }

  // False once the proxy stops, or when `fd` is none.
  bool add(int fd) {
    const std::scoped_lock lock{mutex_};
    if (fd >= 0 && !is_stopping_) return open_.insert(fd).second;
    if (fd >= 0) ::close(fd);
    return false;
  }
  void remove(int fd) {
    const std::scoped_lock lock{mutex_};
    open_.erase(fd);
    ::close(fd);
  }
  // Waits until the client hangs up or the proxy stops.
  static void stay_silent(int client) {
    std::string rest;
    while (receive(client, rest)) rest.clear();
  }
  static void reset_on_close(int fd) {
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  }

  void serve(int client) {
    std::string text;
    while (text.find("\r\n\r\n") == std::string::npos) {
      if (text.size() > head_bytes_max || !receive(client, text)) return;
    }
    const std::size_t head_end = text.find("\r\n\r\n") + 4;
    std::string head = text.substr(0, head_end);
    std::string body = text.substr(head_end);
    if (take_expectation(head)) send_all(client, "HTTP/1.1 100 Continue\r\n\r\n");
    const Fault fault = ask(head);
    const std::size_t length = content_length(head);
    const std::size_t wanted = fault.kind == Fault::Kind::reset_request ? std::min(fault.bytes, length) : length;
    // Some of the body may have come with the head.
    for (std::size_t taken = 0; fault.kind == Fault::Kind::drip_request && taken < wanted; ++taken) {
      if (!pause() || (taken >= body.size() && !receive(client, body, 1))) return;
    }
    while (body.size() < wanted) {
      if (!receive(client, body)) return;
    }
    act(client, fault, head, body);
  }

  // Waits between two bytes; false once the proxy stops.
  bool pause() {
    std::unique_lock lock{mutex_};
    return !stopping_.wait_for(lock, drip_interval, [this] { return is_stopping_; });
  }

  Fault ask(const std::string& head) {
    const std::size_t first_space = head.find(' ');
    const std::size_t second_space = head.find(' ', first_space + 1);
    const std::scoped_lock lock{mutex_};
    return decide_({.number = ++request_count_,
                    .method = head.substr(0, first_space),
                    .target = head.substr(first_space + 1, second_space - first_space - 1),
                    .head = head});
  }

  void act(int client, const Fault& fault, const std::string& head, const std::string& body) {
    using Kind = Fault::Kind;
    if (fault.kind == Kind::reset_request) return reset_on_close(client);
    if (fault.kind == Kind::stall) return stay_silent(client);
    if (fault.kind == Kind::reply) {
      send_all(client, fault.reply);
      return;
    }
    std::string reply = ask_server(head, body);
    if (fault.kind == Kind::lose_reply) return reset_on_close(client);
    if (fault.kind == Kind::hold_reply) return stay_silent(client);
    const std::size_t body_begin = reply.find("\r\n\r\n") + 4;
    const std::size_t middle = body_begin + (reply.size() - body_begin) / 2;
    if (fault.kind == Kind::corrupt_reply && middle < reply.size())
      reply[middle] = static_cast<char>(reply[middle] ^ 1);
    if (fault.kind == Kind::half_reply) reply.resize(middle);
    if (fault.kind == Kind::drip_reply) {
      for (std::size_t i = 0; i < reply.size(); ++i) {
        if (!pause() || !send_all(client, std::string_view{reply}.substr(i, 1))) return;
      }
    } else {
      send_all(client, reply);
    }
    ::shutdown(client, SHUT_WR);
  }

  std::string ask_server(const std::string& head, const std::string& body) {
    const int server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (!add(server)) return {};
    const sockaddr_in address = loopback(server_port_);
    std::string reply;
    // One request a connection: the end of the connection is the end of the reply.
    const std::string last_head = head.substr(0, head.size() - 2) + "Connection: close\r\n\r\n";
    if (::connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
        send_all(server, last_head) && send_all(server, body)) {
      while (receive(server, reply)) {
      }
    }
    remove(server);
    return reply;
  }

  const std::uint16_t server_port_;
  const Decide decide_;
  int listener_ = -1;
  std::uint16_t port_ = 0;
  mutable std::mutex mutex_;  // guards open_, request_count_, is_stopping_, and calls of decide_
  std::condition_variable stopping_;
  std::set<int> open_;
  int request_count_ = 0;
  bool is_stopping_ = false;
  std::vector<std::jthread> connections_;  // Only the acceptor adds to them.
  std::jthread acceptor_;
};

FaultProxy::FaultProxy(std::uint16_t server_port, Decide decide)
    : impl_{std::make_unique<Impl>(server_port, std::move(decide))} {}

FaultProxy::~FaultProxy() = default;

std::uint16_t FaultProxy::port() const {
  return impl_->port();
}

int FaultProxy::request_count() const {
  return impl_->request_count();
}

}  // namespace trainyard::fakes
