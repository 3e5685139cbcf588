#include <gtest/gtest.h>
#include <httplib.h>

#include <condition_variable>
#include <mutex>

#include "operator/manager/progress_poller.hpp"
#include "tests/fakes/fake_clock.hpp"
#include "tests/operator/manager/a_running_job.hpp"

namespace trainyard::manager {
namespace {

using api::Phase;
using control::ObjectKey;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// A rank 0 on a free port of this machine that accepts requests and records them.
class RequestableRank0 {
 public:
  RequestableRank0() {
    server_.Get("/status", [this](const httplib::Request&, httplib::Response& response) {
      const std::scoped_lock lock{mutex_};
      response.status = status_code_;
      response.set_content(R"({"uid":")" + uid_ + R"(","attempt":2)" + record_ + "}", "application/json");
    });
    server_.Post("/checkpoint", [this](const httplib::Request& request, httplib::Response& response) {
      const std::scoped_lock lock{mutex_};
      asked_.push_back(request.get_header_value("Authorization") + " " + request.body);
      response.status = post_code_;
      response.set_content(R"({"id":"r1","state":"Pending"})", "application/json");
      changed_.notify_all();
    });
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::jthread{[this] { server_.listen_after_bind(); }};
    while (!server_.is_running()) std::this_thread::yield();
  }
  ~RequestableRank0() { server_.stop(); }

  void answer_status(int code, const std::string& uid, const std::string& record = {}) {
    const std::scoped_lock lock{mutex_};
    status_code_ = code;
    uid_ = uid;
    record_ = record;
  }
  void answer_post(int code) {
    const std::scoped_lock lock{mutex_};
    post_code_ = code;
  }
  bool is_asked(std::size_t times) {
    std::unique_lock lock{mutex_};
    return changed_.wait_for(lock, seconds{60}, [&] { return asked_.size() >= times; });
  }
  [[nodiscard]] std::vector<std::string> asked() {
    const std::scoped_lock lock{mutex_};
    return asked_;
  }
  [[nodiscard]] manifest::ClusterTraits traits() const {
    return {.address_of = [port = port_](const manifest::PodPlace&) {
      return manifest::PodAddress{.host = "127.0.0.1", .status_port = static_cast<std::uint16_t>(port)};
    }};
  }

 private:
  httplib::Server server_;
  std::mutex mutex_;  // guards the five below
  std::condition_variable changed_;
  int status_code_ = 200;
  int post_code_ = 202;
  std::string uid_ = "abcd-uid";
  std::string record_;
  std::vector<std::string> asked_;
  int port_ = 0;
  std::jthread thread_;
};

/// A job whose status says that the checkpoint r1 is asked for, and a poller that asks over HTTP.
class AskedForACheckpoint : public testing::Test {
 protected:
  void start() {
    api::TrainingJob job = running_job();
    job.status.checkpoint_request = api::CheckpointRequest{.id = "r1"};
    caches_.jobs.put(job);
    resource::Pod pod = rank_0();
    pod.pod_ip = "127.0.0.1";
    pod.request_token = token_;
    caches_.pods.put(pod);
    poller_ = std::make_unique<ProgressPoller>(
        caches_, clock_, rank_0_.traits(), call_rank, [](const ObjectKey&) {},
        PollerOptions{.interval = milliseconds{1},
                      .deadline = seconds{30},
                      .silent_interval_max = milliseconds{2},
                      .workers = 1});
    poller_->track(key);
  }
  /// The request r1 as the poller knows it, once it is in `state`.
  std::optional<api::CheckpointRequest> known(api::RequestState state) {
    const auto deadline = std::chrono::steady_clock::now() + seconds{60};
    while (std::chrono::steady_clock::now() < deadline) {
      const auto report = poller_->last_report("abcd-uid");
      if (report && !report->requests.empty() && report->requests.front().state == state)
        return report->requests.front();
      std::this_thread::yield();
    }
    return std::nullopt;
  }

  RequestableRank0 rank_0_;
  reconcile::Caches caches_;
  fakes::FakeClock clock_;
  std::string token_ = "abc";
  std::unique_ptr<ProgressPoller> poller_;
};

TEST_F(AskedForACheckpoint, AsksUntilRank0ReportsTheRequestAndPassesOnItsOutcome) {
  start();
  ASSERT_TRUE(rank_0_.is_asked(2)) << "at each poll";
  EXPECT_EQ(rank_0_.asked().front(), R"(Bearer abc {"id":"r1","then":"continue"})");
  EXPECT_EQ(known(api::RequestState::pending), api::CheckpointRequest{.id = "r1"});
  rank_0_.answer_status(200, "abcd-uid", R"(,"checkpointRequest":{"id":"r1","state":"Done","step":7,"uri":"u"})");
  EXPECT_EQ(known(api::RequestState::done),
            (api::CheckpointRequest{.id = "r1", .state = api::RequestState::done, .step = 7, .uri = "u"}));
  const std::size_t asked = rank_0_.asked().size();
  for (int poll = 0; poll < 20; ++poll) ASSERT_TRUE(known(api::RequestState::done));
  EXPECT_LE(rank_0_.asked().size(), asked + 1);
}

TEST_F(AskedForACheckpoint, AsksTheRanksOfAJobThatIsBeingSuspendedToEndWithIt) {
  start();
  api::TrainingJob suspending = running_job();
  suspending.metadata.resource_version = "2";
  suspending.status.phase = Phase::suspending;
  suspending.status.suspend_request = api::CheckpointRequest{.id = "suspend-3"};
  caches_.jobs.put(suspending);
  const std::string expected = R"(Bearer abc {"id":"suspend-3","then":"exit"})";
  const auto deadline = std::chrono::steady_clock::now() + seconds{60};
  const auto is_asked = [&] {
    const auto asked = rank_0_.asked();
    return !asked.empty() && asked.back() == expected;
  };
  while (!is_asked() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_EQ(rank_0_.asked().back(), expected);
}

TEST_F(AskedForACheckpoint, ReportsThatAContainerDoesNotKnowRequests) {
  rank_0_.answer_status(404, "");
  rank_0_.answer_post(404);
  start();
  const auto refused = known(api::RequestState::failed);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->message, "the container does not take checkpoint requests");
}

TEST_F(AskedForACheckpoint, GivesTheTokenToNobodyElseAtTheAddress) {
  rank_0_.answer_status(200, "another job's");
  start();
  clock_.advance(seconds{11});
  const auto deadline = std::chrono::steady_clock::now() + seconds{60};
  const auto is_silent = [&] {
    const auto report = poller_->last_report("abcd-uid");
    if (report && !report->unavailable_because.empty()) return true;
    clock_.advance(seconds{11});
    return false;
  };
  while (!is_silent() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_EQ(rank_0_.asked(), std::vector<std::string>{});
}

TEST_F(AskedForACheckpoint, AsksNoPodThatHasNoToken) {
  token_.clear();
  start();
  const auto deadline = std::chrono::steady_clock::now() + seconds{60};
  while (!poller_->last_report("abcd-uid") && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_EQ(rank_0_.asked(), std::vector<std::string>{});
}

}  // namespace
}  // namespace trainyard::manager
