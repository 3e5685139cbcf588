#pragma once

#include <httplib.h>

#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace trainyard::storage {

/// An HTTP server on a free port of the loopback address. The test gives every reply.
class LoopbackServer {
 public:
  /// Called under a lock, one request at a time.
  using Answer = std::function<void(const httplib::Request&, httplib::Response&)>;

  explicit LoopbackServer(Answer answer) : answer_{std::move(answer)} {
    const auto handle = [this](const httplib::Request& request, httplib::Response& response) {
      const std::scoped_lock lock{mutex_};
      ++request_count_;
      answer_(request, response);
    };
    server_.Get(".*", handle).Put(".*", handle).Post(".*", handle).Delete(".*", handle);
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::jthread{[this] { server_.listen_after_bind(); }};
    while (!server_.is_running()) std::this_thread::yield();
  }
  LoopbackServer(const LoopbackServer&) = delete;
  LoopbackServer& operator=(const LoopbackServer&) = delete;
  ~LoopbackServer() { server_.stop(); }

  /// "http://127.0.0.1:12345"
  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] int request_count() const {
    const std::scoped_lock lock{mutex_};
    return request_count_;
  }

 private:
  const Answer answer_;
  mutable std::mutex mutex_;  // guards request_count_, and calls of answer_
  int request_count_ = 0;
  httplib::Server server_;
  int port_ = 0;
  std::jthread thread_;
};

}  // namespace trainyard::storage
