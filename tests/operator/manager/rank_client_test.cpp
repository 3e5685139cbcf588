#include "operator/manager/rank_client.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <cmath>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "tests/fakes/fake_clock.hpp"
#include "tests/fakes/trickling_server.hpp"
#include "tests/operator/manager/a_running_job.hpp"

namespace trainyard::manager {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const Time now{std::chrono::sys_days{std::chrono::year{2026} / 1 / 1}};

Result<plan::ProgressReport> read(const std::string& fields) {
  return read_progress(R"({"uid":"u","attempt":2)" + fields + "}", "u", 2, now);
}

TEST(ReadProgress, TakesWhatTheContractNames) {
  const auto report = read(
      R"(,"rank":0,"phase":"Training","epoch":1,"step":512,"totalSteps":900,"loss":0.4,"accuracy":0.9,"samplesPerSecond":2400.5,)"
      R"("etaSeconds":90,"checkpoint":{"step":400,"uri":"s3://b/c","time":"2026-01-01T00:00:00Z","bytes":7,)"
      R"("durationSeconds":1.25},"checkpointError":"away","waitingFor":"rank 1")");
  ASSERT_TRUE(report) << report.error().message;
  const plan::ProgressReport expected{
      .attempt = 2,
      .epoch = 1,
      .step = 512,
      .total_steps = 900,
      .loss = 0.4,
      .accuracy = 0.9,
      .samples_per_second = 2400.5,
      .estimated_end = now + seconds{90},
      .checkpoint =
          api::CheckpointStatus{.step = 400, .uri = "s3://b/c", .time = now, .bytes = 7, .duration_seconds = 1.25},
      .checkpoint_error = "away",
      .waiting_for = "rank 1",
      .unavailable_because = {}};
  EXPECT_EQ(*report, expected);
}

TEST(ReadProgress, LeavesOutWhatDoesNotApplyYet) {
  EXPECT_EQ(read(""), (plan::ProgressReport{.attempt = 2}));
}

TEST(ReadProgress, ReadsALossOfNullAsOneThatIsNotFinite) {
  const auto report = read(R"(,"loss":null)");
  ASSERT_TRUE(report && report->loss);
  EXPECT_TRUE(std::isnan(*report->loss));
}

TEST(ReadProgress, ForgivesFieldsOfAnotherType) {
  EXPECT_EQ(read(R"(,"step":"x","epoch":-1,"loss":"y","etaSeconds":-3,"checkpoint":{"step":[]},"waitingFor":4)"),
            (plan::ProgressReport{.attempt = 2}));
  EXPECT_EQ(read(R"(,"etaSeconds":1e300,"checkpoint":[],"totalSteps":1.5)"), (plan::ProgressReport{.attempt = 2}));
}

TEST(ReadProgress, DoesNotTakeTheAnswerOfAnotherJobOrAttempt) {
  for (const char* answer : {R"({"uid":"other","attempt":2})", R"({"uid":"u","attempt":1})", "{}", R"({"uid":"u"})",
                             R"({"attempt":2})", R"({"uid":"u","attempt":2.5})", R"({"uid":7,"attempt":"2"})",
                             R"({"uid":"u","attempt":3})", R"({"uid":"u2","attempt":2})"}) {
    const auto report = read_progress(answer, "u", 2, now);
    ASSERT_FALSE(report) << answer;
    EXPECT_EQ(report.error().kind, ErrorKind::conflict) << answer;
  }
  const auto report = read_progress(R"({"uid":")" + std::string(60'000, 'x') + R"(","attempt":1})", "u", 2, now);
  EXPECT_EQ(report.error().message,
            "attempt 1 of the job with UID \"" + std::string(64, 'x') + "\" answered instead of attempt 2 of \"u\"");
}

TEST(ReadProgress, RefusesWhatIsNoObject) {
  for (const char* answer : {"", "<html>", "[]", "3"})
    EXPECT_EQ(read_progress(answer, "u", 2, now).error().kind, ErrorKind::corrupt);
}

TEST(ReadProgress, TakesTheRecordOfARequest) {
  using api::CheckpointRequest;
  using api::RequestState;
  const auto requests = [](const std::string& record) { return read(R"(,"checkpointRequest":)" + record)->requests; };
  using Requests = std::vector<CheckpointRequest>;
  EXPECT_EQ(requests(R"({"id":"a","then":"continue","state":"Pending"})"), Requests{CheckpointRequest{.id = "a"}});
  EXPECT_EQ(
      requests(R"({"id":"a","state":"Done","step":7,"uri":"s3://b/step-7/g-1"})"),
      (Requests{CheckpointRequest{.id = "a", .state = RequestState::done, .step = 7, .uri = "s3://b/step-7/g-1"}}));
  EXPECT_EQ(requests(R"({"id":"a","state":"Failed","message":"no space"})"),
            (Requests{CheckpointRequest{.id = "a", .state = RequestState::failed, .message = "no space"}}));
  for (const char* wrong : {"7", "null", "[]", R"({"state":"Done"})", R"({"id":"a","state":"Soon"})", R"({"id":7})"})
    EXPECT_EQ(requests(wrong), Requests{}) << wrong;
}

TEST(ReadRequestAnswer, DistinguishesTakenFromRefusedFromLater) {
  using api::CheckpointRequest;
  using api::RequestState;
  struct Row {
    RankReply reply;
    std::optional<CheckpointRequest> answer;
  };
  const auto refused = [](std::string message) {
    return CheckpointRequest{.id = "a", .state = RequestState::failed, .message = std::move(message)};
  };
  const std::vector<Row> rows{
      {{202, R"({"id":"a","state":"Pending"})"}, CheckpointRequest{.id = "a"}},
      {{200, R"({"id":"a","then":"exit","state":"Done","step":7,"uri":"u"})"},
       CheckpointRequest{.id = "a", .state = RequestState::done, .step = 7, .uri = "u"}},
      {{200, R"({"id":"b","state":"Done"})"}, {}},
      {{200, "a page of somebody else"}, {}},
      {{409, R"({"error":"b is pending","id":"b"})"}, {}},
      {{409, R"({"error":"training has ended"})"}, refused("rank 0 refused it: training has ended")},
      {{400, R"({"error":"the body is wrong"})"}, refused("rank 0 refused it: the body is wrong")},
      {{401, R"({"error":"wrong token"})"}, refused("rank 0 refused it: wrong token")},
      {{403, ""}, refused("rank 0 refused it: HTTP 403")},
      {{404, "not found"}, refused("the container does not take checkpoint requests")},
      {{405, ""}, refused("the container does not take checkpoint requests")},
      {{501, ""}, refused("the container does not take checkpoint requests")},
      {{500, R"({"error":"oops"})"}, {}},
      {{503, ""}, {}},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(read_request_answer(row.reply, "a"), row.answer) << row.reply.status << " " << row.reply.body;
  }
}

/// A rank 0 on a free port.
class Rank0 {
 public:
  explicit Rank0(httplib::Server::Handler answer) {
    server_.Get("/status", answer);
    server_.Post("/status", std::move(answer));
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

TEST(CallRank, GivesTheReply) {
  const Rank0 rank_0{
      [](const httplib::Request&, httplib::Response& response) { response.set_content("{}", "application/json"); }};
  EXPECT_EQ(call_rank(rank_0.url(), std::nullopt, seconds{30}), (RankReply{.status = 200, .body = "{}"}));
}

TEST(CallRank, SendsAPostWithItsTokenAsJson) {
  const Rank0 rank_0{[](const httplib::Request& request, httplib::Response& response) {
    response.status = 202;
    response.set_content(request.method + "|" + request.get_header_value("Authorization") + "|" +
                             request.get_header_value("Content-Type") + "|" + request.body,
                         "text/plain");
  }};
  EXPECT_EQ(call_rank(rank_0.url(), RankPost{.token = "abc", .body = R"({"id":"a"})"}, seconds{30}),
            (RankReply{.status = 202, .body = R"(POST|Bearer abc|application/json|{"id":"a"})"}));
}

TEST(RankClient, SaysWhichStatusCameInsteadOf200) {
  const Rank0 rank_0{[](const httplib::Request&, httplib::Response& response) { response.status = 404; }};
  const RankClient client{call_rank, seconds{30}};
  const auto report = client.progress(rank_0.url(), running_job(), fakes::FakeClock{});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().kind, ErrorKind::unavailable);
  EXPECT_EQ(report.error().message, "GET " + rank_0.url() + ": HTTP 404");
}

TEST(CallRank, SaysThatNobodyListens) {
  std::string url;
  {
    const Rank0 rank_0{[](const httplib::Request&, httplib::Response&) {}};
    url = rank_0.url();
  }
  const auto reply = call_rank(url, std::nullopt, seconds{30});
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().kind, ErrorKind::unavailable);
}

TEST(CallRank, GivesUpAtTheDeadline) {
  std::mutex mutex;
  std::condition_variable over;
  bool is_over = false;
  const Rank0 rank_0{[&](const httplib::Request&, httplib::Response&) {
    std::unique_lock lock{mutex};
    over.wait(lock, [&] { return is_over; });
  }};
  const auto reply = call_rank(rank_0.url(), std::nullopt, milliseconds{100});
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().kind, ErrorKind::timeout);
  {
    const std::scoped_lock lock{mutex};
    is_over = true;
  }
  over.notify_all();
}

TEST(CallRank, GivesUpAtTheDeadlineOnOneThatSendsAByteNowAndThen) {
  for (const char* beginning :
       {"HTTP/1.1 2", "HTTP/1.1 200 OK\r\nX-Name: ", "HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n"}) {
    const fakes::TricklingServer rank_0{beginning};
    const auto start = std::chrono::steady_clock::now();
    const auto reply =
        call_rank(fmt::format("http://127.0.0.1:{}/status", rank_0.port()), std::nullopt, milliseconds{200});
    ASSERT_FALSE(reply) << beginning;
    EXPECT_EQ(reply.error().kind, ErrorKind::timeout) << beginning;
    EXPECT_LT(std::chrono::steady_clock::now() - start, seconds{10}) << beginning;
  }
}

TEST(CallRank, TakesAnAnswerOf64KiBAndNoLongerOne) {
  for (const std::size_t bytes : {std::size_t{65'536}, std::size_t{65'537}}) {
    const Rank0 rank_0{[&](const httplib::Request&, httplib::Response& response) {
      response.set_content(std::string(bytes, 'x'), "text/plain");
    }};
    const auto reply = call_rank(rank_0.url(), std::nullopt, seconds{30});
    ASSERT_EQ(reply.has_value(), bytes == 65'536);
    if (reply) {
      EXPECT_EQ(reply->body.size(), bytes);
    } else {
      EXPECT_EQ(reply.error().kind, ErrorKind::corrupt);
    }
  }
}

TEST(CallRank, FollowsNobodyElsewhere) {
  const Rank0 rank_0{
      [](const httplib::Request&, httplib::Response& response) { response.set_redirect("http://127.0.0.1:1/status"); }};
  const auto reply = call_rank(rank_0.url(), RankPost{.token = "abc", .body = "{}"}, seconds{30});
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->status, 302) << "the token is for rank 0 alone";
}

TEST(RankClient, GivesEachCallItsDeadline) {
  std::vector<std::string> calls;
  const CallRank call = [&](const std::string& url, const auto& post, milliseconds deadline) -> Result<RankReply> {
    calls.push_back(url + (post ? " " + post->token + " " : " - ") + std::to_string(deadline.count()));
    return fail(ErrorKind::timeout, "no answer");
  };
  const RankClient client{call, seconds{7}};
  const auto report = client.progress("http://h/status", running_job(), fakes::FakeClock{});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().kind, ErrorKind::timeout);
  EXPECT_EQ(client.send_request("http://h/checkpoint", "abc", {.id = "r1"}), std::nullopt);
  EXPECT_EQ(calls, (std::vector<std::string>{"http://h/status - 7000", "http://h/checkpoint abc 7000"}));
}

TEST(CallRank, RefusesAnAnswerWithoutEnd) {
  const Rank0 rank_0{[](const httplib::Request&, httplib::Response& response) {
    response.set_chunked_content_provider("text/plain", [](std::size_t, httplib::DataSink& sink) {
      const std::string block(4096, 'x');
      return sink.write(block.data(), block.size());
    });
  }};
  const auto reply = call_rank(rank_0.url(), std::nullopt, seconds{30});
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().kind, ErrorKind::corrupt);
}

}  // namespace
}  // namespace trainyard::manager
