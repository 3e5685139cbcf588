#include <gtest/gtest.h>
#include <httplib.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <atomic>
#include <latch>
#include <thread>

#include "common/try.hpp"
#include "operator/kube/http_api.hpp"
#include "tests/fakes/scripted_api_server.hpp"
#include "tests/fakes/trickling_server.hpp"

// The form of each request, the name of its call in an error, and the number of times that it is sent.

namespace trainyard::kube {
namespace {

using fakes::answer_json;
using fakes::answer_status;
using fakes::ScriptedApiServer;
using std::chrono::milliseconds;
using std::chrono::seconds;

std::unique_ptr<HttpApi> api_for(ClientConfig config, HttpApiOptions options = {}) {
  auto api = HttpApi::make(std::move(config), options);
  EXPECT_TRUE(api) << api.error().message;
  return *std::move(api);
}

const json named_b{{"metadata", {{"name", "b"}}}};

TEST(HttpApiRequests, GoToThePathOfAProxyAndNameTheHostAndThePort) {
  std::string host;
  ScriptedApiServer server{[&](const httplib::Request& request, httplib::Response& response) {
    host = request.get_header_value("Host");
    answer_json(response, "{}");
  }};
  ClientConfig config = server.config();
  config.path_prefix = "/k8s/clusters/c-1";
  EXPECT_TRUE(api_for(config)->get(pods, "a", "b"));
  EXPECT_EQ(server.seen().at(0).target, "/k8s/clusters/c-1/api/v1/namespaces/a/pods/b");
  EXPECT_EQ(host, "127.0.0.1:" + std::to_string(server.port()));
}

TEST(HttpApiRequests, AreEncodedOnce) {
  ScriptedApiServer server{[](const auto&, auto& response) { answer_json(response, R"({"metadata":{},"items":[]})"); }};
  const auto api = api_for(server.config());
  EXPECT_TRUE(api->get(pods, "a", "x/../y z"));
  EXPECT_TRUE(api->list(pods, {.name_space = "a", .label_selector = "l=1,m"}));
  EXPECT_EQ(server.seen().at(0).target, "/api/v1/namespaces/a/pods/x%2F..%2Fy%20z");
  EXPECT_EQ(server.seen().at(1).target, "/api/v1/namespaces/a/pods?labelSelector=l%3D1%2Cm");
}

TEST(HttpApiRequests, DeleteAnyObjectOfTheNameWithItsOwnGracePeriodUnlessTheCallerSaysOtherwise) {
  ScriptedApiServer server{[](const auto&, auto& response) { answer_json(response, "{}"); }};
  EXPECT_TRUE(api_for(server.config())->remove(pods, "a", "b"));
  EXPECT_EQ(json::parse(server.seen().at(0).body),
            json::parse(R"({"apiVersion":"v1","kind":"DeleteOptions","propagationPolicy":"Background"})"));
}

TEST(HttpApiRequests, ReplaceBytesThatAreNoText) {
  ScriptedApiServer server{[](const auto&, auto& response) { answer_json(response, "{}"); }};
  EXPECT_TRUE(api_for(server.config())->create(pods, "a", {{"metadata", {{"name", "b\xff"}}}}));
  EXPECT_EQ(json::parse(server.seen().at(0).body)["metadata"]["name"], "b\uFFFD");
}

TEST(HttpApiRequests, SucceedWithEveryStatusOfSuccess) {
  std::atomic<int> status = 200;
  ScriptedApiServer server{
      [&](const auto&, auto& response) { answer_json(response, R"({"metadata":{"uid":"u"}})", status); }};
  const auto api = api_for(server.config());
  for (const int success : {200, 201, 202, 299}) {
    status = success;
    const auto created = api->create(pods, "a", named_b);
    ASSERT_TRUE(created) << created.error().message;
    EXPECT_EQ((*created)["metadata"]["uid"], "u");
    EXPECT_TRUE(api->remove(pods, "a", "b")) << success;
  }
  status = 300;
  EXPECT_FALSE(api->create(pods, "a", named_b));
}

TEST(HttpApiRequests, AreNamedInTheirErrors) {
  ScriptedApiServer server{[](const auto&, auto& response) { answer_status(response, 403, "Forbidden", "no"); }};
  const auto api = api_for(server.config());
  const std::vector<std::pair<Error, std::string>> errors_and_calls{
      {api->get(pods, "a", "b").error(), "get pods a/b"},
      {api->get(nodes, "", "n1").error(), "get nodes n1"},
      {api->list(pods, {.name_space = "a"}).error(), "list pods in a"},
      {api->list(pods, {}).error(), "list pods"},
      {api->watch(pods, {.name_space = "a"}, [](const WatchEvent&) {}, {}).error(), "watch pods in a"},
      {api->watch(nodes, {}, [](const WatchEvent&) {}, {}).error(), "watch nodes"},
      {api->create(pods, "a", named_b).error(), "create pods a/b"},
      {api->create(pods, "a", json::object()).error(), "create pods a/"},
      {api->update(leases, "a", named_b).error(), "update leases a/b"},
      {api->update_status(training_jobs, "a", named_b).error(), "update the status of trainingjobs a/b"},
      {api->patch(pods, "a", "b", PatchType::merge, json::object()).error(), "patch pods a/b"},
      {api->remove(pods, "a", "b").error(), "delete pods a/b"}};
  for (const auto& [error, call] : errors_and_calls) {
    EXPECT_EQ(error.message, call + ": no (HTTP 403 Forbidden)");
    EXPECT_EQ(error.kind, ErrorKind::forbidden) << call;
  }
}

TEST(HttpApiRequests, AreSentOnceWhereANewConnectionBreaks) {
  ScriptedApiServer server{
      [](const httplib::Request& request, auto&) { ::shutdown(SSL_get_fd(request.ssl), SHUT_RDWR); }};
  const auto got = api_for(server.config())->get(pods, "a", "b");
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().kind, ErrorKind::unavailable);
  EXPECT_EQ(server.seen().size(), 1U) << "the caller has the backoff";
}

TEST(HttpApiRequests, AreSentOnceWhereAKeptConnectionIsSilent) {
  std::function<void()> hang;
  std::atomic<int> count = 0;
  ScriptedApiServer server{[&](const auto&, auto& response) {
    if (++count == 2) hang();
    answer_json(response, "{}");
  }};
  hang = [&] { server.hang(); };
  const auto api = api_for(server.config(), {.request_deadline = milliseconds{200}});
  EXPECT_TRUE(api->get(pods, "a", "b"));
  const auto got = api->get(pods, "a", "b");
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().kind, ErrorKind::timeout);
  EXPECT_EQ(count, 2) << "a second wait would double the deadline";
}

/// Begins an answer, and sends `byte` after it every few milliseconds until the client disconnects.
void answer_byte_by_byte(const httplib::Request& request, std::string_view beginning, char byte = 'x') {
  SSL* const connection = const_cast<SSL*>(request.ssl);  // The library gives its handlers a const one.
  int sent = SSL_write(connection, beginning.data(), static_cast<int>(beginning.size()));
  while (sent > 0) {
    std::this_thread::sleep_for(milliseconds{5});  // this server is slow on purpose
    sent = SSL_write(connection, &byte, 1);
  }
}

TEST(HttpApiRequests, EndAtTheDeadlineWhereHeadersComeByteByByte) {
  for (const char* beginning : {"HTTP/1.1 2", "HTTP/1.1 200 OK\r\nX-Name: "}) {
    ScriptedApiServer server{[&](const auto& request, auto&) { answer_byte_by_byte(request, beginning); }};
    const auto start = std::chrono::steady_clock::now();
    const auto got = api_for(server.config(), {.request_deadline = seconds{1}})->get(pods, "a", "b");
    ASSERT_FALSE(got) << beginning;
    EXPECT_EQ(got.error().kind, ErrorKind::timeout) << beginning;
    EXPECT_LT(std::chrono::steady_clock::now() - start, seconds{10}) << beginning;
  }
}

TEST(HttpApiRequests, StreamNothingFromAServerWhoseHeadersComeByteByByte) {
  ScriptedApiServer server{
      [](const auto& request, auto&) { answer_byte_by_byte(request, "HTTP/1.1 200 OK\r\nX-Name: "); }};
  const ClientConfig config = server.config();
  const auto connection = Connection::make(config);
  ASSERT_TRUE(connection) << connection.error().message;
  const auto start = std::chrono::steady_clock::now();
  const auto streamed =
      (*connection)->stream({"GET", "/", {}, {}}, milliseconds{200}, [](std::string_view) { return true; }, {});
  ASSERT_FALSE(streamed);
  EXPECT_EQ(streamed.error().kind, ErrorKind::timeout);
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds{10});
}

TEST(HttpApiRequests, EndAtTheDeadlineWhereTheHandshakeComesByteByByte) {
  // A TLS record of a handshake that has 16 KiB, of which the server never sends more than a part.
  const fakes::TricklingServer server{std::string{"\x16\x03\x03\x40\x00", 5}};
  const ScriptedApiServer trusted{[](const auto&, auto&) {}};
  ClientConfig config = trusted.config();
  config.port = server.port();
  const auto start = std::chrono::steady_clock::now();
  const auto got = api_for(config, {.request_deadline = milliseconds{200}})->get(pods, "a", "b");
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().kind, ErrorKind::timeout) << got.error().message;
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds{10});
}

TEST(HttpApiRequests, StreamNothingOnceAskedToStopDuringTheHandshake) {
  const fakes::TricklingServer server{std::string{"\x16\x03\x03\x40\x00", 5}};
  const ScriptedApiServer trusted{[](const auto&, auto&) {}};
  ClientConfig config = trusted.config();
  config.port = server.port();
  const auto connection = Connection::make(config);
  ASSERT_TRUE(connection) << connection.error().message;
  std::stop_source stop;
  std::jthread stopper{[&] {
    server.wait_for_client();
    stop.request_stop();
  }};
  const auto start = std::chrono::steady_clock::now();
  const auto streamed =
      (*connection)
          ->stream(
              {"GET", "/", {}, {}}, std::chrono::minutes{10}, [](std::string_view) { return true; }, stop.get_token());
  ASSERT_FALSE(streamed);
  EXPECT_EQ(streamed.error().kind, ErrorKind::cancelled);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::minutes{1});
}

constexpr seconds silence_max{2};
constexpr milliseconds slow_reading{4'500};  // longer than twice the silence, after which a watchdog looks again

TEST(HttpApiRequests, StreamToAReaderThatTakesItsTime) {
  std::latch first_is_read{1};
  ScriptedApiServer server{[&](const auto&, httplib::Response& response) {
    response.set_chunked_content_provider("text/plain", [&, sent = 0](std::size_t, httplib::DataSink& sink) mutable {
      if (sent == 1) first_is_read.wait();
      if (++sent == 2) sink.done();
      return sent == 2 || sink.write("one", 3);
    });
  }};
  const ClientConfig config = server.config();
  const auto connection = Connection::make(config);
  ASSERT_TRUE(connection) << connection.error().message;
  const auto on_bytes = [&](std::string_view) {
    std::this_thread::sleep_for(slow_reading);  // this reader is slow on purpose
    first_is_read.count_down();
    return true;
  };
  const auto streamed = (*connection)->stream({"GET", "/", {}, {}}, silence_max, on_bytes, {});
  EXPECT_TRUE(streamed) << streamed.error().message;
}

TEST(HttpApiRequests, StreamNothingMoreFromAServerThatIsSlowAfterItsReaderWas) {
  ScriptedApiServer server{[](const auto& request, auto&) {
    // A chunk, and the size of the next one, which never ends.
    answer_byte_by_byte(request, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n", '0');
  }};
  const ClientConfig config = server.config();
  const auto connection = Connection::make(config);
  ASSERT_TRUE(connection) << connection.error().message;
  const auto on_bytes = [](std::string_view) {
    std::this_thread::sleep_for(slow_reading);  // this reader is slow on purpose
    return true;
  };
  const auto streamed = (*connection)->stream({"GET", "/", {}, {}}, silence_max, on_bytes, {});
  ASSERT_FALSE(streamed);
  EXPECT_EQ(streamed.error().kind, ErrorKind::timeout) << streamed.error().message;
}

TEST(HttpApiRequests, StreamNoRefusalWhoseTextComesByteByByte) {
  ScriptedApiServer server{[](const auto& request, auto&) {
    answer_byte_by_byte(request, "HTTP/1.1 403 Forbidden\r\nContent-Length: 9999999\r\n\r\n");
  }};
  const ClientConfig config = server.config();
  const auto connection = Connection::make(config);
  ASSERT_TRUE(connection) << connection.error().message;
  const auto start = std::chrono::steady_clock::now();
  const auto streamed =
      (*connection)->stream({"GET", "/", {}, {}}, milliseconds{500}, [](std::string_view) { return true; }, {});
  ASSERT_FALSE(streamed);
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds{10});
}

/// Streams parts of one letter for longer than `silence_max` in all. The server then ends the stream, or breaks it.
Result<HttpReply> stream_of_many_parts(bool breaks) {
  constexpr int parts = 25;
  ScriptedApiServer server{[&](const httplib::Request& request, httplib::Response& response) {
    const int socket = SSL_get_fd(request.ssl);
    response.set_chunked_content_provider("text/plain", [=, sent = 0](std::size_t, httplib::DataSink& sink) mutable {
      std::this_thread::sleep_for(milliseconds{100});  // this server is slow on purpose
      if (++sent <= parts) return sink.write("x", 1);
      if (breaks) ::shutdown(socket, SHUT_RDWR);
      if (!breaks) sink.done();
      return !breaks;
    });
  }};
  const ClientConfig config = server.config();
  const auto connection = TRY(Connection::make(config));
  std::string came;
  const auto on_bytes = [&](std::string_view bytes) {
    came += bytes;
    return true;
  };
  auto streamed = connection->stream({"GET", "/", {}, {}}, silence_max, on_bytes, {});
  EXPECT_EQ(came, std::string(parts, 'x'));
  return streamed;
}

TEST(HttpApiRequests, StreamForLongerThanTheLongestSilence) {
  const auto streamed = stream_of_many_parts(/*breaks=*/false);
  EXPECT_TRUE(streamed) << streamed.error().message;
}

TEST(HttpApiRequests, DoNotCallAStreamSilentThatBreaksAfterALongTime) {
  const auto streamed = stream_of_many_parts(/*breaks=*/true);
  ASSERT_FALSE(streamed);
  EXPECT_EQ(streamed.error().kind, ErrorKind::unavailable) << streamed.error().message;
}

TEST(HttpApiRequests, StreamUntilNothingComesForTheLongestSilence) {
  std::function<void()> hang;
  ScriptedApiServer server{[&](const auto&, auto&) { hang(); }};
  hang = [&] { server.hang(); };
  const ClientConfig config = server.config();
  const auto connection = Connection::make(config);
  ASSERT_TRUE(connection) << connection.error().message;
  const auto streamed =
      (*connection)->stream({"GET", "/", {}, {}}, milliseconds{200}, [](std::string_view) { return true; }, {});
  ASSERT_FALSE(streamed);
  EXPECT_EQ(streamed.error().kind, ErrorKind::timeout);
}

TEST(HttpApiRequests, EndAStreamWhoseReaderHasEnough) {
  ScriptedApiServer server{[](const auto&, httplib::Response& response) { response.set_content("one", "text/plain"); }};
  const ClientConfig config = server.config();
  const auto connection = Connection::make(config);
  ASSERT_TRUE(connection) << connection.error().message;
  const auto streamed =
      (*connection)->stream({"GET", "/", {}, {}}, seconds{60}, [](std::string_view) { return false; }, {});
  ASSERT_FALSE(streamed);
  EXPECT_EQ(streamed.error().kind, ErrorKind::cancelled);
}

TEST(HttpApiRequests, PassNoPartOfARefusalOnAsALog) {
  ScriptedApiServer server{[](const auto&, auto& response) { answer_status(response, 404, "NotFound", "no pod"); }};
  std::string log;
  const auto ended =
      api_for(server.config())->stream_log("a", "p", {}, [&](std::string_view bytes) { log += bytes; }, {});
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().kind, ErrorKind::not_found);
  EXPECT_EQ(log, "");
}

}  // namespace
}  // namespace trainyard::kube
