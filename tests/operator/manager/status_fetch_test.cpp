#include "operator/manager/status_fetch.hpp"

#include <gtest/gtest.h>
#include <httplib.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "common/check.hpp"
#include "operator/control/interruptible_wait.hpp"

namespace trainyard::manager {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// A rank 0 on a free port.
class Rank0 {
 public:
  explicit Rank0(httplib::Server::Handler answer) {
    server_.Get("/status", std::move(answer));
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::jthread{[this] { server_.listen_after_bind(); }};
    while (!server_.is_running()) std::this_thread::yield();
  }
  ~Rank0() { server_.stop(); }
  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/status"; }

 private:
  httplib::Server server_;
  int port_ = 0;
  std::jthread thread_;
};

TEST(FetchStatus, GivesTheBody) {
  const Rank0 rank_0{
      [](const httplib::Request&, httplib::Response& response) { response.set_content("{}", "application/json"); }};
  EXPECT_EQ(fetch_status(rank_0.url(), seconds{30}), "{}");
}

TEST(FetchStatus, SaysWhatCameBackInstead) {
  const Rank0 rank_0{[](const httplib::Request&, httplib::Response& response) { response.status = 404; }};
  const auto body = fetch_status(rank_0.url(), seconds{30});
  ASSERT_FALSE(body);
  EXPECT_EQ(body.error().message, "GET " + rank_0.url() + ": HTTP 404");
}

TEST(FetchStatus, SaysThatNobodyListens) {
  std::string url;
  {
    const Rank0 rank_0{[](const httplib::Request&, httplib::Response&) {}};
    url = rank_0.url();
  }
  const auto body = fetch_status(url, seconds{30});
  ASSERT_FALSE(body);
  EXPECT_EQ(body.error().kind, ErrorKind::unavailable);
}

TEST(FetchStatus, GivesUpAtTheDeadline) {
  std::mutex mutex;
  std::condition_variable over;
  bool is_over = false;
  const Rank0 rank_0{[&](const httplib::Request&, httplib::Response&) {
    std::unique_lock lock{mutex};
    over.wait(lock, [&] { return is_over; });
  }};
  const auto body = fetch_status(rank_0.url(), milliseconds{100});
  ASSERT_FALSE(body);
  EXPECT_EQ(body.error().kind, ErrorKind::timeout);
  {
    const std::scoped_lock lock{mutex};
    is_over = true;
  }
  over.notify_all();
}

/// A server that begins an answer and sends a byte every few milliseconds until its client disconnects.
class Trickle {
 public:
  explicit Trickle(std::string beginning) : beginning_{std::move(beginning)} {
    socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    check(::bind(socket_, reinterpret_cast<sockaddr*>(&address), length) == 0 && ::listen(socket_, 1) == 0 &&
              ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &length) == 0,
          "a port to listen on");
    port_ = ntohs(address.sin_port);
    thread_ = std::jthread{[this](const std::stop_token& stop) { run(stop); }};
  }
  ~Trickle() {
    ::shutdown(socket_, SHUT_RDWR);
    thread_.request_stop();
    thread_.join();
    ::close(socket_);
  }
  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/status"; }

 private:
  void run(const std::stop_token& stop) const {
    const int client = ::accept(socket_, nullptr, nullptr);
    ::send(client, beginning_.data(), beginning_.size(), MSG_NOSIGNAL);
    while (control::wait_unless_stopped(stop, milliseconds{5}) && ::send(client, "x", 1, MSG_NOSIGNAL) == 1) {
    }
    ::close(client);
  }

  const std::string beginning_;
  int socket_ = -1;
  int port_ = 0;
  std::jthread thread_;
};

TEST(FetchStatus, GivesUpAtTheDeadlineOnOneThatSendsAByteNowAndThen) {
  for (const char* beginning :
       {"HTTP/1.1 2", "HTTP/1.1 200 OK\r\nX-Name: ", "HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n"}) {
    const Trickle rank_0{beginning};
    const auto start = std::chrono::steady_clock::now();
    const auto body = fetch_status(rank_0.url(), milliseconds{200});
    ASSERT_FALSE(body) << beginning;
    EXPECT_EQ(body.error().kind, ErrorKind::timeout) << beginning;
    EXPECT_LT(std::chrono::steady_clock::now() - start, seconds{10}) << beginning;
  }
}

TEST(FetchStatus, RefusesAnAnswerWithoutEnd) {
  const Rank0 rank_0{[](const httplib::Request&, httplib::Response& response) {
    response.set_chunked_content_provider("text/plain", [](std::size_t, httplib::DataSink& sink) {
      const std::string block(4096, 'x');
      return sink.write(block.data(), block.size());
    });
  }};
  const auto body = fetch_status(rank_0.url(), seconds{30});
  ASSERT_FALSE(body);
  EXPECT_EQ(body.error().kind, ErrorKind::corrupt);
}

}  // namespace
}  // namespace trainyard::manager
