#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <latch>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "common/check.hpp"
#include "common/file_descriptor.hpp"
#include "common/interruptible_wait.hpp"

namespace trainyard::fakes {

/// A server on loopback that sends `beginning` to its first client, and then one more byte every few milliseconds until
/// the client disconnects.
class TricklingServer {
 public:
  explicit TricklingServer(std::string beginning) : beginning_{std::move(beginning)} {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    check(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), length) == 0 &&
              ::listen(listener_.get(), 1) == 0 &&
              ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &length) == 0,
          "a port to listen on");
    port_ = ntohs(address.sin_port);
    thread_ = std::jthread{[this](const std::stop_token& stop) { run(stop); }};
  }
  ~TricklingServer() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.request_stop();
    thread_.join();
  }
  [[nodiscard]] std::uint16_t port() const { return port_; }
  /// Returns once a client has the beginning.
  void wait_for_client() const { has_begun_.wait(); }

 private:
  void run(const std::stop_token& stop) {
    const FileDescriptor client{::accept(listener_.get(), nullptr, nullptr)};
    ::send(client.get(), beginning_.data(), beginning_.size(), MSG_NOSIGNAL);
    has_begun_.count_down();
    while (wait_unless_stopped(stop, std::chrono::milliseconds{5}) && ::send(client.get(), "x", 1, MSG_NOSIGNAL) == 1) {
    }
  }

  const std::string beginning_;
  FileDescriptor listener_{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::uint16_t port_ = 0;
  std::latch has_begun_{1};
  std::jthread thread_;
};

}  // namespace trainyard::fakes
