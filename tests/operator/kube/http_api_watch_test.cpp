#include <gtest/gtest.h>
#include <httplib.h>

#include <atomic>
#include <future>

#include "operator/kube/http_api.hpp"
#include "tests/fakes/scripted_api_server.hpp"

namespace trainyard::kube {
namespace {

using fakes::answer_status;
using fakes::ScriptedApiServer;
using std::chrono::seconds;

constexpr std::string_view added =
    "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"5\"}}}\n";
constexpr std::string_view bookmark = "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"8\"}}}\n";
constexpr std::string_view expired =
    "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\",\"message\":\"too "
    "old\"}}\n";

enum class End { clean, dropped };

/// Sends each part separately, then ends the stream.
ScriptedApiServer::Answer stream_of(std::vector<std::string> parts, End end) {
  return [=](const httplib::Request&, httplib::Response& response) {
    response.set_chunked_content_provider("application/json", [=](std::size_t, httplib::DataSink& sink) {
      for (const std::string& part : parts) sink.write(part.data(), part.size());
      if (end == End::dropped) return false;
      sink.done();
      return true;
    });
  };
}

struct Watched {
  Result<void> ended;
  std::vector<WatchEvent> events;
};

Watched watch(const ScriptedApiServer& server, std::stop_token stop = {}) {
  Watched watched;
  const auto api = HttpApi::make(server.config());
  watched.ended = (*api)->watch(
      pods,
      {.name_space = "a", .label_selector = {}, .field_selector = {}, .resource_version = "4", .timeout = seconds{300}},
      [&](const WatchEvent& event) { watched.events.push_back(event); }, std::move(stop));
  return watched;
}

TEST(HttpApiWatch, CallsForEachEventInOrder) {
  ScriptedApiServer server{
      stream_of({std::string{added.substr(0, 20)}, std::string{added.substr(20)} + std::string{bookmark}}, End::clean)};
  const Watched watched = watch(server);
  EXPECT_TRUE(watched.ended) << watched.ended.error().message;
  ASSERT_EQ(watched.events.size(), 2U);
  EXPECT_EQ(watched.events[0].type, WatchEventType::added);
  EXPECT_EQ(watched.events[0].object["metadata"]["name"], "a");
  EXPECT_EQ(watched.events[1].type, WatchEventType::bookmark);
  EXPECT_EQ(server.seen().at(0).target,
            "/api/v1/namespaces/a/pods?watch=true&allowWatchBookmarks=true&resourceVersion=4&timeoutSeconds=300");
}

TEST(HttpApiWatch, IsUnavailableWhenTheStreamIsDropped) {
  for (const auto& parts :
       {std::vector<std::string>{std::string{added}}, {std::string{added}, std::string{added.substr(0, 30)}}}) {
    ScriptedApiServer server{stream_of(parts, End::dropped)};
    const Watched watched = watch(server);
    ASSERT_FALSE(watched.ended);
    EXPECT_EQ(watched.ended.error().kind, ErrorKind::unavailable);
    EXPECT_EQ(watched.events.size(), 1U) << "the whole event was delivered";
  }
}

TEST(HttpApiWatch, KnowsWhenTheServerSentAnEventLast) {
  ScriptedApiServer server{stream_of({std::string{added}}, End::clean)};
  const auto api = HttpApi::make(server.config());
  const Instant before = std::chrono::steady_clock::now();
  ASSERT_LT((*api)->last_answer(), before);
  EXPECT_TRUE((*api)->watch(pods, {}, [](const WatchEvent&) {}, {}));
  EXPECT_GE((*api)->last_answer(), before) << "watches may be all that a quiet operator hears";
}

TEST(HttpApiWatch, IsCorruptWhereAnEventIsNone) {
  ScriptedApiServer server{stream_of({std::string{added} + "no event\n"}, End::clean)};
  const Watched watched = watch(server);
  ASSERT_FALSE(watched.ended);
  EXPECT_EQ(watched.ended.error().kind, ErrorKind::corrupt);
  EXPECT_EQ(watched.events.size(), 1U);
}

TEST(HttpApiWatch, DoesNotTakeATornLineForTheEnd) {
  ScriptedApiServer server{stream_of({std::string{added}, std::string{added.substr(0, 30)}}, End::clean)};
  const Watched watched = watch(server);
  ASSERT_FALSE(watched.ended);
  EXPECT_EQ(watched.ended.error().message, "watch pods in a: the stream ended within an event");
  EXPECT_EQ(watched.events.size(), 1U);
}

TEST(HttpApiWatch, IsGoneByHttpStatusAndByErrorEvent) {
  ScriptedApiServer by_status{[](const auto&, auto& response) { answer_status(response, 410, "Expired", "too old"); }};
  const Watched refused = watch(by_status);
  ASSERT_FALSE(refused.ended);
  EXPECT_EQ(refused.ended.error().kind, ErrorKind::gone);

  ScriptedApiServer by_event{stream_of({std::string{added} + std::string{expired}}, End::clean)};
  const Watched expired_later = watch(by_event);
  ASSERT_FALSE(expired_later.ended);
  EXPECT_EQ(expired_later.ended.error().kind, ErrorKind::gone);
  EXPECT_EQ(expired_later.events.size(), 1U);
}

TEST(HttpApiWatch, PassesOnAThrottledStart) {
  ScriptedApiServer server{[](const auto&, httplib::Response& response) {
    answer_status(response, 429, "TooManyRequests", "slow down");
    response.set_header("Retry-After", "2");
  }};
  const Watched watched = watch(server);
  ASSERT_FALSE(watched.ended);
  EXPECT_EQ(watched.ended.error().kind, ErrorKind::throttled);
  EXPECT_EQ(watched.ended.error().retry_after, seconds{2});
}

TEST(HttpApiWatch, WakesFromASilentStreamWhenAskedToStop) {
  std::function<void()> hang;
  ScriptedApiServer server{[&](const httplib::Request&, httplib::Response& response) {
    response.set_chunked_content_provider("application/json", [&](std::size_t, httplib::DataSink& sink) {
      sink.write(added.data(), added.size());
      hang();
      return false;
    });
  }};
  hang = [&] { server.hang(); };
  std::stop_source stop;
  std::promise<void> heard;
  const auto api = HttpApi::make(server.config());
  Result<void> ended;
  {
    std::jthread watcher{[&] {
      ended = (*api)->watch(
          pods,
          {.name_space = {},
           .label_selector = {},
           .field_selector = {},
           .resource_version = "1",
           .timeout = seconds{300}},
          [&](const WatchEvent&) { heard.set_value(); }, stop.get_token());
    }};
    heard.get_future().wait();
    stop.request_stop();
  }
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().kind, ErrorKind::cancelled);
}

TEST(HttpApiWatch, DoesNotStartWhenAlreadyAskedToStop) {
  ScriptedApiServer server{stream_of({std::string{added}}, End::clean)};
  std::stop_source stop;
  stop.request_stop();
  const Watched watched = watch(server, stop.get_token());
  ASSERT_FALSE(watched.ended);
  EXPECT_EQ(watched.ended.error().kind, ErrorKind::cancelled);
  EXPECT_TRUE(watched.events.empty());
}

}  // namespace
}  // namespace trainyard::kube
