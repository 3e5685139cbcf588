#include "operator/manager/health_server.hpp"

#include <gtest/gtest.h>
#include <httplib.h>

#include <atomic>

namespace trainyard::manager {
namespace {

TEST(HealthServer, AnswersProbesAndMetrics) {
  std::atomic<bool> is_live = true;
  std::atomic<bool> is_ready = false;
  const auto server = HealthServer::start("127.0.0.1:0", {.is_live = [&] { return is_live.load(); },
                                                          .is_ready = [&] { return is_ready.load(); },
                                                          .metrics = [] { return std::string{"x 1\n"}; }});
  ASSERT_TRUE(server) << server.error().message;
  httplib::Client client{"127.0.0.1", (*server)->port()};
  const auto alive = client.Get("/healthz");
  EXPECT_EQ(alive->status, 200);
  EXPECT_EQ(alive->body, "ok\n");
  EXPECT_EQ(alive->get_header_value("Connection"), "close") << "no idle connection keeps a probe waiting";
  is_live = false;
  const auto silent = client.Get("/healthz");
  EXPECT_EQ(silent->status, 503);
  EXPECT_EQ(silent->body, "the API server does not answer\n");
  const auto unready = client.Get("/readyz");
  EXPECT_EQ(unready->status, 503);
  EXPECT_EQ(unready->body, "not ready\n");
  is_ready = true;
  const auto ready = client.Get("/readyz");
  EXPECT_EQ(ready->status, 200);
  EXPECT_EQ(ready->body, "ok\n");
  const auto metrics = client.Get("/metrics");
  EXPECT_EQ(metrics->body, "x 1\n");
  EXPECT_EQ(metrics->get_header_value("Content-Type"), "text/plain; version=0.0.4");
  EXPECT_EQ(client.Get("/other")->status, 404);
}

TEST(IsHeard, HoldsForAsLongAsTheApiServerMayBeSilent) {
  const Instant last{std::chrono::hours{1}};
  const std::chrono::seconds limit{300};
  EXPECT_TRUE(is_heard(last, last, limit));
  EXPECT_TRUE(is_heard(last, last + limit, limit));
  EXPECT_FALSE(is_heard(last, last + limit + std::chrono::milliseconds{1}, limit));
  EXPECT_TRUE(is_heard(last, last + std::chrono::hours{24}, std::chrono::seconds{0})) << "nobody asked for a limit";
}

TEST(HealthServer, TakesAnIpv6AddressInBrackets) {
  httplib::Server probe;
  const bool has_ipv6 = probe.bind_to_any_port("::1") > 0;
  const auto server = HealthServer::start(
      "[::1]:0", {.is_live = [] { return true; }, .is_ready = [] { return true; }, .metrics = [] { return ""; }});
  ASSERT_EQ(server.has_value(), has_ipv6);
  if (!server) return;
  httplib::Client client{"::1", (*server)->port()};
  const auto alive = client.Get("/healthz");
  ASSERT_TRUE(alive);
  EXPECT_EQ(alive->status, 200);
}

TEST(HealthServer, SaysThatThePortIsTaken) {
  const auto first = HealthServer::start("127.0.0.1:0", {});
  ASSERT_TRUE(first) << first.error().message;
  const auto second = HealthServer::start("127.0.0.1:" + std::to_string((*first)->port()), {});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, ErrorKind::io);
}

TEST(HealthServer, RefusesAnAddressThatIsNone) {
  for (const char* address : {"", "8080", ":8080", "host", "host:", "host:x", "host:70000", "host:65536", "host:-1",
                              "host:80x", "host: 80", "[]:80", "[::1]"}) {
    const auto server = HealthServer::start(address, {});
    ASSERT_FALSE(server) << address;
    EXPECT_EQ(server.error().kind, ErrorKind::invalid) << address;
  }
}

}  // namespace
}  // namespace trainyard::manager
