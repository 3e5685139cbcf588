#include "operator/kube/http_api.hpp"

#include <gtest/gtest.h>
#include <httplib.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <atomic>

#include "common/text.hpp"
#include "operator/kube/config_sources.hpp"
#include "operator/kube/exec_plugin.hpp"
#include "tests/fakes/scripted_api_server.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/operator/kube/plugin_program.hpp"

namespace trainyard::kube {
namespace {

using fakes::answer_json;
using fakes::answer_status;
using fakes::ScriptedApiServer;
using std::chrono::milliseconds;
using std::chrono::seconds;

std::unique_ptr<HttpApi> api_of(const ScriptedApiServer& server, HttpApiOptions options = {}) {
  auto api = HttpApi::make(server.config(), options);
  EXPECT_TRUE(api) << api.error().message;
  return *std::move(api);
}

TEST(HttpApi, KnowsWhenTheServerAnsweredLastWhateverItSaid) {
  std::atomic<int> status = 200;
  auto server = std::make_unique<ScriptedApiServer>([&](const auto&, auto& response) {
    if (status == 200) return answer_json(response, "{}");
    answer_status(response, status, "Refused", "no");
  });
  const auto api = api_of(*server);
  for (const int answer : {200, 401, 500}) {
    status = answer;
    const Instant before = std::chrono::steady_clock::now();
    static_cast<void>(api->get(pods, "a", "b"));
    EXPECT_GE(api->last_answer(), before) << answer;
  }
  server.reset();
  const Instant before = std::chrono::steady_clock::now();
  EXPECT_FALSE(api->get(pods, "a", "b"));
  EXPECT_LT(api->last_answer(), before);
}

TEST(HttpApi, SaysWhoAsksAndForWhichForm) {
  std::string accepted;
  std::string agent;
  ScriptedApiServer server{[&](const auto& request, auto& response) {
    accepted = request.get_header_value("Accept");
    agent = request.get_header_value("User-Agent");
    answer_json(response, "{}");
  }};
  EXPECT_TRUE(api_of(server)->get(pods, "a", "b"));
  EXPECT_EQ(accepted, "application/json");
  EXPECT_EQ(agent, "trainyard");
}

TEST(HttpApi, SendsEachCallAsTheApiServerExpectsIt) {
  ScriptedApiServer server{[](const auto&, auto& response) { answer_json(response, R"({"metadata":{"name":"b"}})"); }};
  const auto api = api_of(server);
  const json object{{"metadata", {{"name", "b"}}}};
  EXPECT_TRUE(api->get(pods, "a", "b"));
  EXPECT_TRUE(api->create(pods, "a", object, {.is_dry_run = true, .is_strict = true}));
  EXPECT_TRUE(api->update(leases, "a", object));
  EXPECT_TRUE(api->update_status(training_jobs, "a", object));
  EXPECT_TRUE(api->patch(pods, "a", "b", PatchType::merge, {{"x", 1}}));
  EXPECT_TRUE(api->patch(pods, "a", "b", PatchType::json_patch, json::array()));
  EXPECT_TRUE(api->remove(pods, "a", "b", {.uid = "u", .grace_period_seconds = 0}));

  const std::string pod = "/api/v1/namespaces/a/pods/b";
  const std::string object_text = R"({"metadata":{"name":"b"}})";
  struct Row {
    const char* method;
    std::string target, body, content_type;
  };
  const std::vector<Row> rows{
      {"GET", pod, "", ""},
      {"POST", "/api/v1/namespaces/a/pods?dryRun=All&fieldValidation=Strict", object_text, "application/json"},
      {"PUT", "/apis/coordination.k8s.io/v1/namespaces/a/leases/b", object_text, "application/json"},
      {"PUT", "/apis/trainyard.dev/v1alpha1/namespaces/a/trainingjobs/b/status", object_text, "application/json"},
      {"PATCH", pod, R"({"x":1})", "application/merge-patch+json"},
      {"PATCH", pod, "[]", "application/json-patch+json"},
      {"DELETE", pod,
       R"({"apiVersion":"v1","gracePeriodSeconds":0,"kind":"DeleteOptions","preconditions":{"uid":"u"},"propagationPolicy":"Background"})",
       "application/json"}};
  const auto seen = server.seen();
  ASSERT_EQ(seen.size(), rows.size());
  for (std::size_t index = 0; index < rows.size(); ++index) {
    EXPECT_EQ(seen[index].method, rows[index].method);
    EXPECT_EQ(seen[index].target, rows[index].target);
    EXPECT_EQ(seen[index].body, rows[index].body);
    EXPECT_EQ(seen[index].content_type, rows[index].content_type);
    EXPECT_EQ(seen[index].authorization, "Bearer secret");
  }
}

TEST(HttpApi, ListsInPages) {
  ScriptedApiServer server{[](const httplib::Request& request, httplib::Response& response) {
    if (request.get_param_value("continue") == "next") {
      answer_json(response, R"({"metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"c"}}]})");
    } else {
      answer_json(
          response,
          R"({"metadata":{"resourceVersion":"9","continue":"next"},"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]})");
    }
  }};
  const auto api = api_of(server);
  const auto first = api->list(pods, {.name_space = "a", .limit = 2});
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->items.size(), 2U);
  EXPECT_EQ(first->continue_token, "next");
  const auto second = api->list(pods, {.name_space = "a", .continue_token = first->continue_token, .limit = 2});
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(second->items.size(), 1U);
  EXPECT_EQ(second->continue_token, "");
  EXPECT_EQ(second->resource_version, "9");
}

TEST(HttpApi, RefusesAListThatIsNone) {
  for (const char* body :
       {"", "[]", "{}", R"({"metadata":{},"items":3})", R"({"metadata":3,"items":[]})",
        R"({"metadata":{"resourceVersion":3},"items":[]})", R"({"metadata":{"continue":true},"items":[]})"}) {
    ScriptedApiServer server{[&](const auto&, auto& response) { answer_json(response, body); }};
    const auto page = api_of(server)->list(pods, {});
    ASSERT_FALSE(page) << body;
    EXPECT_EQ(page.error().kind, ErrorKind::corrupt) << body;
  }
  ScriptedApiServer server{[&](const auto&, auto& response) {
    answer_json(response, R"({"metadata":{"resourceVersion":"1"},"items":null})");
  }};
  EXPECT_TRUE(api_of(server)->list(pods, {})) << "Go writes an empty list as null";
}

TEST(HttpApi, DistinguishesRefusals) {
  struct Row {
    int status;
    const char* reason;
    ErrorKind kind;
  };
  for (const Row& row :
       {Row{409, "AlreadyExists", ErrorKind::already_exists}, Row{409, "Conflict", ErrorKind::conflict},
        Row{410, "Expired", ErrorKind::gone}, Row{403, "Forbidden", ErrorKind::forbidden},
        Row{422, "Invalid", ErrorKind::invalid}, Row{500, "InternalError", ErrorKind::unavailable},
        Row{503, "ServiceUnavailable", ErrorKind::unavailable}}) {
    ScriptedApiServer server{
        [&](const auto&, auto& response) { answer_status(response, row.status, row.reason, "says why"); }};
    const auto created = api_of(server)->create(pods, "a", {{"metadata", {{"name", "b"}}}});
    ASSERT_FALSE(created) << row.reason;
    EXPECT_EQ(created.error().kind, row.kind) << row.reason;
    EXPECT_NE(created.error().message.find("create pods a/b: says why"), std::string::npos) << created.error().message;
    EXPECT_EQ(server.seen().size(), 1U) << "a refusal is the caller's to retry";
  }
}

TEST(HttpApi, PassesOnHowLongAThrottledCallerIsToWait) {
  ScriptedApiServer server{[&](const auto&, auto& response) {
    answer_status(response, 429, "TooManyRequests", "slow down");
    response.set_header("Retry-After", "3");
  }};
  const auto got = api_of(server)->get(pods, "a", "b");
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().kind, ErrorKind::throttled);
  EXPECT_EQ(got.error().retry_after, seconds{3});
}

TEST(HttpApi, GivesUpOnAServerThatHangs) {
  std::function<void()> hang;
  ScriptedApiServer server{[&](const auto&, auto&) { hang(); }};
  hang = [&] { server.hang(); };
  const auto got = api_of(server, {.request_deadline = milliseconds{200}})->get(pods, "a", "b");
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().kind, ErrorKind::timeout);
  EXPECT_NE(got.error().message.find("did not answer within 200 ms"), std::string::npos) << got.error().message;
}

TEST(HttpApi, GivesUpOnAReplyThatTrickles) {
  ScriptedApiServer server{[](const auto&, httplib::Response& response) {
    response.set_chunked_content_provider("application/json", [](std::size_t, httplib::DataSink& sink) {
      std::this_thread::sleep_for(milliseconds{20});  // this server is slow on purpose
      return sink.write(" ", 1);
    });
  }};
  const auto got = api_of(server, {.request_deadline = milliseconds{200}})->get(pods, "a", "b");
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().kind, ErrorKind::timeout);
}

TEST(HttpApi, SaysThatNobodyListens) {
  ClientConfig config;
  {
    ScriptedApiServer server{[](const auto&, auto&) {}};
    config = server.config();
  }
  const auto api = HttpApi::make(config);
  const auto got = (*api)->get(pods, "a", "b");
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().kind, ErrorKind::unavailable);
  EXPECT_NE(got.error().message.find("no connection to the API server at 127.0.0.1"), std::string::npos)
      << got.error().message;
}

TEST(HttpApi, WaitsForAFreeConnectionNoLongerThanTheDeadline) {
  std::function<void()> hang;
  std::atomic<bool> is_busy = false;
  ScriptedApiServer server{[&](const auto&, auto&) {
    is_busy = true;
    hang();
  }};
  hang = [&] { server.hang(); };
  const auto api = HttpApi::make(
      server.config(), {.connections_max = 1, .request_deadline = milliseconds{300}, .list_deadline = seconds{60}});
  Result<ListPage> page;
  {
    std::jthread busy{[&] { page = (*api)->list(pods, {}); }};
    while (!is_busy) std::this_thread::yield();
    const auto got = (*api)->get(pods, "a", "b");
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().kind, ErrorKind::timeout);
    EXPECT_NE(got.error().message.find("all 1 connections"), std::string::npos) << got.error().message;
    server.release();
  }
}

/// Closes the connection without a reply, like a server that shuts down.
void drop(const httplib::Request& request) {
  shutdown(SSL_get_fd(request.ssl), SHUT_RDWR);
}

TEST(HttpApi, ReadsAgainWhenTheKeptConnectionTurnsOutToBeClosed) {
  std::atomic<int> count = 0;
  ScriptedApiServer server{[&](const httplib::Request& request, httplib::Response& response) {
    if (++count == 2) return drop(request);
    answer_json(response, "{}");
  }};
  const auto api = api_of(server);
  EXPECT_TRUE(api->get(pods, "a", "b"));
  EXPECT_TRUE(api->get(pods, "a", "b"));
  EXPECT_EQ(count, 3);
}

TEST(HttpApi, DoesNotWriteAgainWhenTheReplyWasLost) {
  std::atomic<int> count = 0;
  ScriptedApiServer server{[&](const httplib::Request& request, httplib::Response& response) {
    if (++count == 2) return drop(request);
    answer_json(response, "{}");
  }};
  const auto api = api_of(server);
  EXPECT_TRUE(api->get(pods, "a", "b"));
  const auto created = api->create(pods, "a", {{"metadata", {{"name", "b"}}}});
  ASSERT_FALSE(created);
  EXPECT_EQ(created.error().kind, ErrorKind::unavailable);
  EXPECT_EQ(count, 2) << "it may have been carried out: the caller looks";
}

TEST(HttpApi, UsesARenewedTokenForTheNextCall) {
  ScriptedApiServer server{[](const auto&, auto& response) { answer_json(response, "{}"); }};
  const fakes::TemporaryFolder folder;
  ClientConfig config = server.config();
  config.token = TokenSource::of_file(folder.write("token", "first\n"));
  const auto api = HttpApi::make(config);
  EXPECT_TRUE((*api)->get(pods, "a", "b"));
  folder.write("token", "second\n");
  EXPECT_TRUE((*api)->get(pods, "a", "b"));
  const auto seen = server.seen();
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[0].authorization, "Bearer first");
  EXPECT_EQ(seen[1].authorization, "Bearer second");

  folder.write("token", "");
  const auto got = (*api)->get(pods, "a", "b");
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().kind, ErrorKind::unauthorized);
}

/// An API with the credentials of `program`, and a server that accepts only `known_token`.
class HttpApiWithPluginTest : public testing::Test {
 protected:
  std::unique_ptr<HttpApi> api_with(const PluginProgram& program) {
    ClientConfig config = server_.config();
    config.token = TokenSource::of_plugin(std::make_shared<ExecPlugin>(program.entry(), ExecCluster{}));
    auto api = HttpApi::make(std::move(config));
    EXPECT_TRUE(api) << api.error().message;
    return *std::move(api);
  }
  /// The tokens that arrived, in order.
  [[nodiscard]] std::vector<std::string> seen_tokens() const {
    std::vector<std::string> tokens;
    for (const auto& request : server_.seen()) tokens.push_back(request.authorization);
    return tokens;
  }

  std::string known_token_ = "token-1";
  ScriptedApiServer server_{[this](const httplib::Request& request, httplib::Response& response) {
    if (request.get_header_value("Authorization") != "Bearer " + known_token_)
      return answer_status(response, 401, "Unauthorized", "Unauthorized");
    answer_json(response, R"({"metadata":{"name":"b"}})");
  }};
};

TEST_F(HttpApiWithPluginTest, ShowsItsToken) {
  const PluginProgram program{"token token-$n"};
  const auto api = api_with(program);
  EXPECT_TRUE(api->get(pods, "a", "b"));
  EXPECT_TRUE(api->get(pods, "a", "b"));
  EXPECT_EQ(seen_tokens(), (std::vector<std::string>{"Bearer token-1", "Bearer token-1"}));
}

TEST_F(HttpApiWithPluginTest, AsksItAgainWhenTheServerRefusesTheToken) {
  const PluginProgram program{"token token-$n"};
  const auto api = api_with(program);
  EXPECT_TRUE(api->get(pods, "a", "b"));
  known_token_ = "token-2";
  const auto created = api->create(pods, "a", {{"metadata", {{"name", "b"}}}});
  EXPECT_TRUE(created) << created.error().message;
  const auto seen = server_.seen();
  ASSERT_EQ(seen.size(), 3U);
  EXPECT_EQ(seen[1].authorization, "Bearer token-1");
  EXPECT_EQ(seen[2].authorization, "Bearer token-2");
  EXPECT_EQ(seen[2].method, "POST");
  EXPECT_EQ(seen[2].body, seen[1].body);
}

TEST_F(HttpApiWithPluginTest, AsksItAgainForAStream) {
  known_token_ = "token-2";
  const PluginProgram program{"token token-$n"};
  std::string log;
  std::stop_source stop;
  const auto ended = api_with(program)->stream_log(
      "a", "p", {}, [&](std::string_view bytes) { log += bytes; }, stop.get_token());
  EXPECT_TRUE(ended) << ended.error().message;
  EXPECT_EQ(log, R"({"metadata":{"name":"b"}})");
  EXPECT_EQ(program.run_count(), 2);
}

TEST_F(HttpApiWithPluginTest, AsksItAgainNoMoreThanOnceForARequest) {
  known_token_ = "another";
  const PluginProgram program{"token token-$n"};
  const auto got = api_with(program)->get(pods, "a", "b");
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().kind, ErrorKind::unauthorized);
  EXPECT_EQ(seen_tokens(), (std::vector<std::string>{"Bearer token-1", "Bearer token-2"}));
}

TEST_F(HttpApiWithPluginTest, DoesNotShowAgainATokenThatWasRefused) {
  known_token_ = "another";
  const PluginProgram program{"token same"};
  const auto got = api_with(program)->get(pods, "a", "b");
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().kind, ErrorKind::unauthorized);
  EXPECT_EQ(got.error().message, "get pods a/b: Unauthorized (HTTP 401 Unauthorized)");
  EXPECT_EQ(seen_tokens(), std::vector<std::string>{"Bearer same"});
  EXPECT_EQ(program.run_count(), 2);
}

TEST_F(HttpApiWithPluginTest, SaysThatItGaveNoOtherToken) {
  known_token_ = "token-2";
  const PluginProgram program{"[ $n -eq 1 ] || { echo 'log in first' >&2; exit 1; }; token token-$n"};
  const auto got = api_with(program)->get(pods, "a", "b");
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().kind, ErrorKind::unauthorized);
  EXPECT_NE(got.error().message.find("get pods a/b: the exec plugin"), std::string::npos) << got.error().message;
  EXPECT_NE(got.error().message.find("log in first"), std::string::npos) << got.error().message;
  EXPECT_EQ(got.error().message.find("token-1"), std::string::npos) << got.error().message;
}

TEST(HttpApi, ShowsTheCertificateThatAPluginGave) {
  ScriptedApiServer server{[](const auto&, auto& response) { answer_json(response, "{}"); },
                           {.is_asking_for_client_certificate = true}};
  const fakes::Certificate own = server.authority().issue("alice");
  const json status{{"clientCertificateData", own.certificate_pem}, {"clientKeyData", own.key_pem}};
  const PluginProgram program{"cat reply"};
  program.folder().write(
      "reply",
      json{{"apiVersion", "client.authentication.k8s.io/v1"}, {"kind", "ExecCredential"}, {"status", status}}.dump());
  const json kubeconfig{{"current-context", "c"},
                        {"contexts", {{{"name", "c"}, {"context", {{"cluster", "c"}, {"user", "u"}}}}}},
                        {"clusters",
                         {{{"name", "c"},
                           {"cluster",
                            {{"server", "https://127.0.0.1:" + std::to_string(server.port())},
                             {"certificate-authority-data", encode_base64(server.authority().pem())}}}}}},
                        {"users",
                         {{{"name", "u"},
                           {"user",
                            {{"exec",
                              {{"apiVersion", "client.authentication.k8s.io/v1"},
                               {"interactiveMode", "Never"},
                               {"command", "./plugin"}}}}}}}}};
  auto config = load_kubeconfig(program.folder().write("config", kubeconfig.dump()));
  ASSERT_TRUE(config) << config.error().message;
  const auto api = HttpApi::make(*std::move(config));
  ASSERT_TRUE(api) << api.error().message;
  const auto got = (*api)->get(pods, "a", "b");
  EXPECT_TRUE(got) << got.error().message;
  ASSERT_EQ(server.seen().size(), 1U);
  EXPECT_EQ(server.seen()[0].client_name, "alice");
  EXPECT_EQ(server.seen()[0].authorization, "");
}

TEST(HttpApi, StreamsALogToItsEnd) {
  ScriptedApiServer server{
      [](const auto&, httplib::Response& response) { response.set_content("one\ntwo\n", "text/plain"); }};
  std::string log;
  std::stop_source stop;
  const auto ended = api_of(server)->stream_log(
      "a", "p", {.container = "worker"}, [&](std::string_view bytes) { log += bytes; }, stop.get_token());
  EXPECT_TRUE(ended) << ended.error().message;
  EXPECT_EQ(server.seen().at(0).target, "/api/v1/namespaces/a/pods/p/log?container=worker");
  EXPECT_EQ(log, "one\ntwo\n");
}

TEST(HttpApi, SaysWhyThereIsNoLog) {
  ScriptedApiServer server{[](const auto&, httplib::Response& response) {
    answer_status(response, 400, "BadRequest", "container is waiting to start");
  }};
  std::stop_source stop;
  const auto ended = api_of(server)->stream_log(
      "a", "p", {}, [](std::string_view) {}, stop.get_token());
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().message, "read the log of pods a/p: container is waiting to start (HTTP 400 BadRequest)");
}

}  // namespace
}  // namespace trainyard::kube
