#include "storage/http_transfer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <chrono>
#include <ctime>
#include <string>
#include <vector>

#include "storage/http_client.hpp"
#include "storage/server_error.hpp"
#include "tests/fakes/fault_proxy.hpp"
#include "tests/fakes/set_variable.hpp"

namespace trainyard::storage {
namespace {

TEST(KindOfTransfer, RetriesFaultsOfTheNetwork) {
  struct Row {
    CURLcode code;
    ErrorKind kind;
  };
  const Row rows[] = {
      {CURLE_COULDNT_CONNECT, ErrorKind::unavailable},
      {CURLE_RECV_ERROR, ErrorKind::unavailable},
      {CURLE_SEND_FAIL_REWIND, ErrorKind::unavailable},
      {CURLE_UPLOAD_FAILED, ErrorKind::unavailable},
      {CURLE_BAD_CONTENT_ENCODING, ErrorKind::unavailable},
      {CURLE_SSL_SHUTDOWN_FAILED, ErrorKind::unavailable},
      {CURLE_PROXY, ErrorKind::unavailable},
      {CURLE_HTTP2_STREAM, ErrorKind::unavailable},
      {CURLE_NO_CONNECTION_AVAILABLE, ErrorKind::unavailable},
      {CURLE_UNRECOVERABLE_POLL, ErrorKind::unavailable},
      {CURLE_OPERATION_TIMEDOUT, ErrorKind::timeout},
      {CURLE_PEER_FAILED_VERIFICATION, ErrorKind::invalid},
      {CURLE_URL_MALFORMAT, ErrorKind::invalid},
      {CURLE_SSL_CERTPROBLEM, ErrorKind::invalid},
      {CURLE_UNSUPPORTED_PROTOCOL, ErrorKind::invalid},
      {CURLE_TOO_MANY_REDIRECTS, ErrorKind::invalid},
      {CURLE_SSL_CACERT_BADFILE, ErrorKind::invalid},
      {CURLE_SSL_CIPHER, ErrorKind::invalid},
      {CURLE_SSL_ISSUER_ERROR, ErrorKind::invalid},
      {CURLE_SSL_CRL_BADFILE, ErrorKind::invalid},
      {CURLE_SSL_INVALIDCERTSTATUS, ErrorKind::invalid},
      {CURLE_SSL_PINNEDPUBKEYNOTMATCH, ErrorKind::invalid},
      {CURLE_INTERFACE_FAILED, ErrorKind::invalid},
      {CURLE_COULDNT_RESOLVE_HOST, ErrorKind::unavailable},
      {CURLE_COULDNT_RESOLVE_PROXY, ErrorKind::unavailable},
      {CURLE_SSL_CONNECT_ERROR, ErrorKind::unavailable},
      {CURLE_GOT_NOTHING, ErrorKind::unavailable},
      {CURLE_SEND_ERROR, ErrorKind::unavailable},
      {CURLE_PARTIAL_FILE, ErrorKind::unavailable},
      {CURLE_FAILED_INIT, ErrorKind::internal},
      {CURLE_READ_ERROR, ErrorKind::internal},
      {CURLE_WRITE_ERROR, ErrorKind::internal},
      {CURLE_ABORTED_BY_CALLBACK, ErrorKind::internal},
      {CURLE_NOT_BUILT_IN, ErrorKind::internal},
      {CURLE_BAD_FUNCTION_ARGUMENT, ErrorKind::internal},
  };
  for (const Row& row : rows) EXPECT_EQ(kind_of_transfer(row.code), row.kind) << curl_easy_strerror(row.code);
}

TEST(KindOfStatus, SaysWhatTheCallerCanDoWithoutTheServersWords) {
  for (const auto& [status, kind] :
       {std::pair{409L, ErrorKind::unavailable}, std::pair{412L, ErrorKind::already_exists},
        std::pair{416L, ErrorKind::corrupt}, std::pair{503L, ErrorKind::throttled}, std::pair{507L, ErrorKind::io},
        std::pair{404L, ErrorKind::not_found}, std::pair{500L, ErrorKind::unavailable},
        std::pair{401L, ErrorKind::unauthorized}, std::pair{403L, ErrorKind::forbidden},
        std::pair{429L, ErrorKind::throttled}, std::pair{504L, ErrorKind::timeout},
        std::pair{400L, ErrorKind::invalid}}) {
    EXPECT_EQ(kind_of_status(status), kind) << status;
  }
}

/// The client's outcome when a server answers its first requests with `reply`.
class AnHttpClient : public testing::Test {
 protected:
  HttpCall call_to(std::uint16_t port) {
    return HttpCall{.doing = "ask",
                    .make = [port]() -> Result<HttpRequest> {
                      return HttpRequest{.method = "GET", .url = "http://127.0.0.1:" + std::to_string(port) + "/"};
                    },
                    .accept = [this](const HttpReply& reply) -> Result<void> {
                      last = reply;
                      if (reply.status / 100 == 2) return {};
                      return fail(kind_of_status(reply.status), "refused", retry_after_of(reply));
                    }};
  }
  Result<void> ask(std::uint16_t port, const std::stop_token& stop = {}) {
    const HttpCall call = call_to(port);
    HttpClient client{tuning};
    return client.perform({&call, 1}, 1, OnError::cut, stop);
  }
  HttpTuning tuning{.backoff = {.initial = std::chrono::milliseconds{1}, .max = std::chrono::milliseconds{5}}};
  HttpReply last;
};

TEST_F(AnHttpClient, KeepsOnlySoMuchOfARefusal) {
  fakes::FaultProxy server{
      1, [](const auto&) {
        return fakes::Fault{fakes::Fault::Kind::reply, fakes::http_reply(403, "", std::string(8 << 20, 'x')), 0};
      }};
  EXPECT_EQ(ask(server.port()).error().kind, ErrorKind::forbidden);
  EXPECT_EQ(last.status, 403);
  EXPECT_EQ(last.body.size(), 256U << 10);
}

TEST_F(AnHttpClient, WritesNothingBehindTheBufferOfACallWhoseServerSendsTooMuch) {
  constexpr std::size_t wanted = std::size_t{700} << 10;  // More than libcurl hands over at once.
  fakes::FaultProxy server{
      1, [](const auto&) {
        return fakes::Fault{fakes::Fault::Kind::reply, fakes::http_reply(206, "", std::string(2 * wanted, 'x')), 0};
      }};
  std::vector<std::byte> memory(3 * wanted);
  HttpCall call = call_to(server.port());
  call.make = [&, make = call.make]() -> Result<HttpRequest> {
    return make().map([&](HttpRequest request) {
      request.into = std::span{memory}.first(wanted);
      return request;
    });
  };
  HttpClient client{tuning};
  const auto asked = client.perform({&call, 1}, 1);
  ASSERT_FALSE(asked);
  EXPECT_EQ(asked.error().kind, ErrorKind::corrupt) << asked.error().message;
  EXPECT_THAT(std::span{memory}.subspan(wanted), testing::Each(std::byte{}));
}

TEST_F(AnHttpClient, ComesOnceMoreWhenItsPatienceEndsIfItIsAskedToStayAwayForLonger) {
  tuning.first_patience = std::chrono::milliseconds{1};
  tuning.patience = std::chrono::milliseconds{50};
  std::vector<std::chrono::steady_clock::time_point> requests;
  fakes::FaultProxy server{1, [&](const auto& request) {
                             requests.push_back(std::chrono::steady_clock::now());
                             return fakes::Fault{fakes::Fault::Kind::reply,
                                                 request.number == 1 ? fakes::http_reply(503, "Retry-After: 15\r\n", "")
                                                                     : fakes::http_reply(200, "", ""),
                                                 0};
                           }};
  const auto asked = ask(server.port());
  ASSERT_TRUE(asked) << asked.error().message;
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_GE(requests[1] - requests[0], std::chrono::milliseconds{49});
}

TEST_F(AnHttpClient, StaysAwayForItsOwnBackoffIfItIsAskedToComeAtOnce) {
  tuning.backoff = {.initial = std::chrono::milliseconds{200}, .max = std::chrono::milliseconds{200}};
  std::vector<std::chrono::steady_clock::time_point> requests;
  fakes::FaultProxy server{1, [&](const auto& request) {
                             requests.push_back(std::chrono::steady_clock::now());
                             return fakes::Fault{fakes::Fault::Kind::reply,
                                                 request.number == 1 ? fakes::http_reply(503, "Retry-After: 0\r\n", "")
                                                                     : fakes::http_reply(200, "", ""),
                                                 0};
                           }};
  const auto asked = ask(server.port());
  ASSERT_TRUE(asked) << asked.error().message;
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_GE(requests[1] - requests[0], std::chrono::milliseconds{100});
}

TEST_F(AnHttpClient, EndsWhenItIsStillAskedToStayAway) {
  tuning.first_patience = tuning.patience = std::chrono::milliseconds{20};
  fakes::FaultProxy server{
      1, [&](const auto&) {
        return fakes::Fault{fakes::Fault::Kind::reply, fakes::http_reply(503, "Retry-After: 3600\r\n", ""), 0};
      }};
  EXPECT_EQ(ask(server.port()).error().kind, ErrorKind::throttled);
  EXPECT_EQ(server.request_count(), 2);
}

TEST_F(AnHttpClient, TakesNoHeaderOfAnInterimReplyForTheReplysOwn) {
  fakes::FaultProxy server{1, [](const auto&) {
                             return fakes::Fault{fakes::Fault::Kind::reply,
                                                 "HTTP/1.1 103 Early Hints\r\nX-Of: the interim reply\r\n\r\n" +
                                                     fakes::http_reply(200, "X-Other: 1\r\n", ""),
                                                 0};
                           }};
  ASSERT_TRUE(ask(server.port()));
  EXPECT_EQ(last.status, 200);
  EXPECT_EQ(last.header("x-of"), "");
  EXPECT_EQ(last.header("x-other"), "1");
}

TEST_F(AnHttpClient, HasItsWholePatienceAgainAfterASuccessOfAnotherCall) {
  tuning.first_patience = tuning.patience = std::chrono::seconds{2};
  // The first call gets a Retry-After of its whole patience, and fails again after the second call has succeeded.
  fakes::FaultProxy server{1, [](const fakes::ProxiedRequest& request) {
                             const std::string reply = request.number == 1
                                                           ? fakes::http_reply(503, "Retry-After: 15\r\n", "")
                                                       : request.number == 3 ? fakes::http_reply(503, "", "")
                                                                             : fakes::http_reply(200, "", "");
                             return fakes::Fault{fakes::Fault::Kind::reply, reply, 0};
                           }};
  const std::vector<HttpCall> calls(2, call_to(server.port()));
  HttpClient client{tuning};
  const auto asked = client.perform(calls, 1);
  EXPECT_TRUE(asked) << asked.error().message;
  EXPECT_EQ(server.request_count(), 4);
}

TEST_F(AnHttpClient, HasItsWholePatienceInEveryPerformAfterItsFirstSuccess) {
  tuning.first_patience = std::chrono::milliseconds{1};
  tuning.patience = std::chrono::minutes{1};
  tuning.backoff = {.initial = std::chrono::milliseconds{20}, .max = std::chrono::milliseconds{20}};
  fakes::FaultProxy server{1, [](const fakes::ProxiedRequest& request) {
                             const int status = request.number == 2 ? 503 : 200;
                             return fakes::Fault{fakes::Fault::Kind::reply, fakes::http_reply(status, "", ""), 0};
                           }};
  const HttpCall call = call_to(server.port());
  HttpClient client{tuning};
  ASSERT_TRUE(client.perform({&call, 1}, 1));
  const auto asked = client.perform({&call, 1}, 1);
  EXPECT_TRUE(asked) << asked.error().message;
  EXPECT_EQ(server.request_count(), 3);
}

TEST_F(AnHttpClient, SaysForWhatItTriesAgainThoughAnotherCallHasEnded) {
  HttpClient client{tuning};
  fakes::FaultProxy refusing{1, [](const auto&) {
                               return fakes::Fault{fakes::Fault::Kind::reply, fakes::http_reply(403, "", ""), 0};
                             }};
  std::string trouble;
  fakes::FaultProxy failing{1, [&](const fakes::ProxiedRequest& request) {
                              if (request.number == 2) {
                                const HttpCall refused = call_to(refusing.port());
                                EXPECT_FALSE(client.perform({&refused, 1}, 1));
                                trouble = client.trouble();
                              }
                              const int status = request.number == 1 ? 503 : 200;
                              return fakes::Fault{fakes::Fault::Kind::reply, fakes::http_reply(status, "", ""), 0};
                            }};
  const HttpCall call = call_to(failing.port());
  EXPECT_TRUE(client.perform({&call, 1}, 1));
  EXPECT_NE(trouble, "");
  EXPECT_EQ(client.trouble(), "");
}

TEST_F(AnHttpClient, TriesACorruptReplyThreeTimesBesideAllOtherFailures) {
  for (const int outages : {0, 3}) {
    fakes::FaultProxy server{1, [&](const fakes::ProxiedRequest& request) {
                               const int status = request.number <= outages ? 503 : 200;
                               return fakes::Fault{fakes::Fault::Kind::reply, fakes::http_reply(status, "", ""), 0};
                             }};
    HttpCall call = call_to(server.port());
    call.accept = [](const HttpReply& reply) -> Result<void> {
      return fail(reply.status == 200 ? ErrorKind::corrupt : ErrorKind::unavailable, "bad");
    };
    HttpClient client{tuning};
    const auto asked = client.perform({&call, 1}, 1);
    ASSERT_FALSE(asked);
    EXPECT_EQ(asked.error().kind, ErrorKind::corrupt);
    EXPECT_EQ(server.request_count(), outages + 3);
  }
}

TEST_F(AnHttpClient, EndsAtOnceWhereItsPatienceWouldEndBeforeTheNextTry) {
  tuning.first_patience = std::chrono::seconds{2};
  tuning.backoff = {.initial = std::chrono::seconds{10}, .max = std::chrono::seconds{10}};
  fakes::FaultProxy server{1, [](const fakes::ProxiedRequest& request) {
                             const int status = request.number == 1 ? 503 : 200;
                             return fakes::Fault{fakes::Fault::Kind::reply, fakes::http_reply(status, "", ""), 0};
                           }};
  EXPECT_FALSE(ask(server.port()));
  EXPECT_EQ(server.request_count(), 1);
}

TEST_F(AnHttpClient, LetsOtherCallsGoFirstWhileOneWaitsForItsNextTry) {
  tuning.first_patience = tuning.patience = std::chrono::hours{2};
  std::stop_source stop;
  std::vector<std::string> targets;
  fakes::FaultProxy server{1, [&](const fakes::ProxiedRequest& request) {
                             targets.push_back(request.target);
                             if (targets.size() > 1) stop.request_stop();
                             const bool is_first = targets.size() == 1;
                             return fakes::Fault{fakes::Fault::Kind::reply,
                                                 is_first ? fakes::http_reply(503, "Retry-After: 3600\r\n", "")
                                                          : fakes::http_reply(200, "", ""),
                                                 0};
                           }};
  std::vector<HttpCall> calls(2, call_to(server.port()));
  calls[1].make = [&]() -> Result<HttpRequest> {
    return HttpRequest{.method = "GET", .url = "http://127.0.0.1:" + std::to_string(server.port()) + "/second"};
  };
  HttpClient client{tuning};
  EXPECT_FALSE(client.perform(calls, 1, OnError::cut, stop.get_token()));
  EXPECT_THAT(targets, testing::ElementsAre("/", "/second"));
}

TEST_F(AnHttpClient, TriesAgainWhatTookLongerThanItsPatience) {
  tuning.first_patience = std::chrono::milliseconds{200};
  fakes::FaultProxy server{1, [](const fakes::ProxiedRequest& request) {
                             const int status = request.number == 1 ? 503 : 200;
                             return fakes::Fault{fakes::Fault::Kind::reply, fakes::http_reply(status, "", ""), 0};
                           }};
  HttpCall call = call_to(server.port());
  call.make = [&, make = call.make] {
    const auto end = std::chrono::steady_clock::now() + tuning.first_patience;
    while (server.request_count() == 0 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    return make();
  };
  HttpClient client{tuning};
  const auto asked = client.perform({&call, 1}, 1);
  EXPECT_TRUE(asked) << asked.error().message;
}

TEST_F(AnHttpClient, ForgetsTheRequestsThatAnErrorCutShort) {
  HttpClient client{tuning};
  {
    fakes::FaultProxy silent{1, [](const auto&) { return fakes::Fault{fakes::Fault::Kind::stall, "", 0}; }};
    fakes::FaultProxy refusing{1, [](const auto&) {
                                 return fakes::Fault{fakes::Fault::Kind::reply, fakes::http_reply(403, "", ""), 0};
                               }};
    const std::vector<HttpCall> calls = {call_to(silent.port()), call_to(refusing.port())};
    EXPECT_EQ(client.perform(calls, 2).error().kind, ErrorKind::forbidden);
  }
  fakes::FaultProxy server{1, [](const auto&) {
                             return fakes::Fault{fakes::Fault::Kind::reply, fakes::http_reply(200, "", ""), 0};
                           }};
  const HttpCall call = call_to(server.port());
  EXPECT_TRUE(client.perform({&call, 1}, 1)) << "the connection of the first has ended meanwhile";
}

/// The time for which this thread has used a processor.
std::chrono::nanoseconds cpu_time_of_this_thread() {
  timespec time{};
  EXPECT_EQ(::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time), 0);
  return std::chrono::seconds{time.tv_sec} + std::chrono::nanoseconds{time.tv_nsec};
}

TEST_F(AnHttpClient, SleepsUntilItsNextTry) {
  tuning.backoff = {
      .initial = std::chrono::milliseconds{200}, .max = std::chrono::milliseconds{200}, .jitter_share = 0};
  fakes::FaultProxy server{1, [](const fakes::ProxiedRequest& request) {
                             const int status = request.number == 1 ? 503 : 200;
                             return fakes::Fault{fakes::Fault::Kind::reply, fakes::http_reply(status, "", ""), 0};
                           }};
  const HttpCall call = call_to(server.port());
  HttpClient client{tuning};
  const auto before = cpu_time_of_this_thread();
  EXPECT_TRUE(client.perform({&call, 1}, 1));
  EXPECT_LT(cpu_time_of_this_thread() - before, std::chrono::milliseconds{100});
}

TEST_F(AnHttpClient, GoesThroughTheProxyOfTheEnvironmentUnlessARequestIsDirect) {
  const auto answer = [](const auto&) {
    return fakes::Fault{fakes::Fault::Kind::reply, fakes::http_reply(200, "", ""), 0};
  };
  fakes::FaultProxy proxy{1, answer};
  fakes::FaultProxy server{1, answer};
  const fakes::SetVariable proxied{"http_proxy", "http://127.0.0.1:" + std::to_string(proxy.port())};
  const fakes::SetVariable nothing_else{"no_proxy", "example.com"};
  for (const bool is_direct : {false, true}) {
    HttpCall call = call_to(server.port());
    call.make = [&, make = call.make]() -> Result<HttpRequest> {
      return make().map([&](HttpRequest request) {
        request.is_direct = is_direct;
        return request;
      });
    };
    HttpClient client{tuning};
    EXPECT_TRUE(client.perform({&call, 1}, 1));
    EXPECT_EQ(proxy.request_count(), 1);
    EXPECT_EQ(server.request_count(), is_direct ? 1 : 0);
  }
}

TEST_F(AnHttpClient, BeginsABodyAnewOverASecondConnectionAfterAPartOfItWasSent) {
  const std::string body(std::size_t{16} << 20, 'x');  // More than the buffers of a connection hold.
  int redirects = 0;
  std::string taken;
  httplib::Server server;
  server.Put("/busy", [&](const httplib::Request&, httplib::Response& response, const httplib::ContentReader&) {
    ++redirects;
    response.set_redirect("/free", 307);  // Sent before the body is read.
  });
  server.Put("/free", [&](const httplib::Request& request, httplib::Response&) { taken = request.body; });
  const int port = server.bind_to_any_port("127.0.0.1");
  std::jthread thread{[&] { server.listen_after_bind(); }};
  while (!server.is_running()) std::this_thread::yield();
  HttpCall call = call_to(0);
  call.make = [&]() -> Result<HttpRequest> {
    return HttpRequest{.method = "PUT",
                       .url = "http://127.0.0.1:" + std::to_string(port) + "/busy",
                       .body = {std::as_bytes(std::span{body})},
                       .follows_redirects = true};
  };
  HttpClient client{tuning};
  const auto sent = client.perform({&call, 1}, 1);
  server.stop();
  thread.join();
  ASSERT_TRUE(sent) << sent.error().message;
  EXPECT_EQ(redirects, 1) << "the request was tried again";
  EXPECT_TRUE(taken == body) << taken.size() << " bytes came";
}

TEST_F(AnHttpClient, IsStoppedInTheMidstOfARequest) {
  std::stop_source stop;
  fakes::FaultProxy server{1, [&](const auto&) {
                             stop.request_stop();
                             return fakes::Fault{fakes::Fault::Kind::stall, "", 0};
                           }};
  const auto asked = ask(server.port(), stop.get_token());
  ASSERT_FALSE(asked);
  EXPECT_EQ(asked.error().kind, ErrorKind::cancelled);
}

}  // namespace
}  // namespace trainyard::storage
