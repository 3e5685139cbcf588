#include "operator/manager/status_fetch.hpp"

#include <gtest/gtest.h>
#include <httplib.h>

#include <condition_variable>
#include <mutex>
#include <thread>

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
