#include "operator/manager/progress_poller.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <set>

#include "tests/fakes/fake_clock.hpp"
#include "tests/operator/manager/a_running_job.hpp"

namespace trainyard::manager {
namespace {

using api::Phase;
using control::ObjectKey;
using std::chrono::milliseconds;
using std::chrono::seconds;

RankReply said(std::string body) {
  return {.status = 200, .body = std::move(body)};
}

/// A poller with a rank 0 that answers as the test says, and the reports of the poller.
struct Fixture {
  reconcile::Caches caches;
  fakes::FakeClock clock;
  std::mutex mutex;  // guards all below
  std::condition_variable changed;
  Result<RankReply> answer = said(R"({"uid":"abcd-uid","attempt":2,"step":7})");
  milliseconds interval{1};
  int polls = 0;
  int reports = 0;
  std::string url;
  std::set<std::string> urls;  ///< Every one that was asked.
  std::unique_ptr<ProgressPoller> poller;

  Fixture() { caches.jobs.put(running_job()); }

  void start() {
    const auto call = [this](const std::string& asked, const auto& /*post*/, milliseconds) {
      const std::scoped_lock lock{mutex};
      ++polls;
      url = asked;
      urls.insert(asked);
      changed.notify_all();
      return answer;
    };
    const auto on_report = [this](const ObjectKey& told) {
      EXPECT_EQ(told, key);
      const std::scoped_lock lock{mutex};
      ++reports;
      changed.notify_all();
    };
    poller = std::make_unique<ProgressPoller>(
        caches, clock, manifest::kubernetes_traits(), call, on_report,
        PollerOptions{.interval = interval, .silent_interval_max = milliseconds{2}, .workers = 2});
    poller->track(key);
  }
  template <typename Is>
  bool wait_until(Is is) {
    std::unique_lock lock{mutex};
    return changed.wait_for(lock, seconds{60}, is);
  }
  bool wait_for_polls(int more) {
    int target = 0;
    {
      const std::scoped_lock lock{mutex};
      target = polls + more;
    }
    return wait_until([&] { return polls >= target; });
  }
  /// Lets the job succeed, and waits until the poller has forgotten it.
  void end_job() {
    api::TrainingJob over = running_job();
    over.status.phase = Phase::succeeded;
    end_job_as(over);
  }
  /// Puts `over` into the cache, and waits until the poller has forgotten the job.
  void end_job_as(api::TrainingJob over) {
    over.metadata.resource_version = "2";
    caches.jobs.put(over);
    const auto deadline = std::chrono::steady_clock::now() + seconds{60};
    while (poller->last_report("abcd-uid") && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    EXPECT_EQ(poller->last_report("abcd-uid"), std::nullopt);
  }
  void set_answer(Result<RankReply> next) {
    const std::scoped_lock lock{mutex};
    answer = std::move(next);
  }
};

TEST(ProgressPoller, KeepsRank0sLastAnswerAndReportsItOnce) {
  Fixture fixture;
  fixture.caches.pods.put(rank_0("1"));  // of the previous attempt, still running
  fixture.caches.pods.put(rank_0());
  fixture.start();
  ASSERT_TRUE(fixture.wait_until([&] { return fixture.reports == 1; }));
  ASSERT_TRUE(fixture.wait_for_polls(5));
  EXPECT_EQ(fixture.reports, 1) << "the same answer is no news";
  EXPECT_EQ(fixture.url, "http://10.0.0.7:29503/status");
  EXPECT_EQ(fixture.poller->last_report("abcd-uid"), (plan::ProgressReport{.attempt = 2, .step = 7}));
  EXPECT_EQ(fixture.poller->last_report("other"), std::nullopt);
}

TEST(ProgressPoller, AsksNoPodOfAnotherNamespaceOrOwner) {
  Fixture fixture;
  fixture.caches.pods.put(rank_0());
  resource::Pod elsewhere = rank_0();
  elsewhere.metadata.name_space = "zz";
  elsewhere.metadata.uid = "elsewhere";
  elsewhere.pod_ip = "10.0.0.66";
  fixture.caches.pods.put(elsewhere);
  resource::Pod other_name = rank_0();
  other_name.metadata.name = "x-2-0";
  other_name.metadata.uid = "other name";
  other_name.pod_ip = "10.0.0.66";
  fixture.caches.pods.put(other_name);
  fixture.start();
  ASSERT_TRUE(fixture.wait_for_polls(5));
  const std::scoped_lock lock{fixture.mutex};
  EXPECT_EQ(fixture.urls, std::set<std::string>{"http://10.0.0.7:29503/status"});
}

/// Polls the job of `fixture` beside a second one until ranks were asked five times: only the second one's rank 0 may
/// be among them.
void expect_only_second_job_is_asked(Fixture& fixture) {
  api::TrainingJob second = running_job();
  second.metadata.name = "second";
  second.metadata.uid = "abcd-second-uid";
  fixture.caches.jobs.put(second);
  resource::Pod pod = rank_0();
  pod.metadata.name = "second-abcd-2-0";
  pod.metadata.uid = pod.metadata.name;
  pod.metadata.controller = manifest::owner_reference(second);
  fixture.caches.pods.put(pod);
  fixture.answer = fail(ErrorKind::unavailable, "no");
  fixture.start();
  fixture.poller->track({"ns", "second"});
  ASSERT_TRUE(fixture.wait_for_polls(5));
  const std::scoped_lock lock{fixture.mutex};
  EXPECT_EQ(fixture.urls, std::set<std::string>{"http://10.0.0.7:29503/status"});
}

TEST(ProgressPoller, AsksNoPodOfRank0sNameThatAnotherOwns) {
  Fixture fixture;
  resource::Pod foreign = rank_0();
  foreign.metadata.controller->kind = "ReplicaSet";
  foreign.pod_ip = "10.0.0.66";
  fixture.caches.pods.put(foreign);
  expect_only_second_job_is_asked(fixture);
}

TEST(ProgressPoller, CallsARank0UnreachableOnlyAfterAWhileAndKeepsItsLastAnswer) {
  Fixture fixture;
  fixture.caches.pods.put(rank_0());
  fixture.start();
  ASSERT_TRUE(fixture.wait_until([&] { return fixture.reports == 1; }));
  fixture.set_answer(fail(ErrorKind::timeout, "no answer within 1000 ms"));
  ASSERT_TRUE(fixture.wait_for_polls(5));
  EXPECT_EQ(fixture.poller->last_report("abcd-uid")->unavailable_because, "");
  fixture.clock.advance(seconds{11});
  ASSERT_TRUE(fixture.wait_until([&] { return fixture.reports == 2; }));
  EXPECT_EQ(fixture.poller->last_report("abcd-uid"),
            (plan::ProgressReport{.attempt = 2, .step = 7, .unavailable_because = "no answer within 1000 ms"}));
  fixture.set_answer(said(R"({"uid":"abcd-uid","attempt":2,"step":9})"));
  ASSERT_TRUE(fixture.wait_until([&] { return fixture.reports == 3; }));
  EXPECT_EQ(fixture.poller->last_report("abcd-uid"), (plan::ProgressReport{.attempt = 2, .step = 9}));
}

TEST(ProgressPoller, MeasuresSilenceFromTheLastAnswerEvenIfThatBroughtNoNews) {
  Fixture fixture;
  fixture.caches.pods.put(rank_0());
  fixture.start();
  const Result<RankReply> same = fixture.answer;
  ASSERT_TRUE(fixture.wait_until([&] { return fixture.reports == 1; }));
  fixture.set_answer(fail(ErrorKind::timeout, "no answer within 1000 ms"));
  ASSERT_TRUE(fixture.wait_for_polls(5));
  fixture.set_answer(same);
  ASSERT_TRUE(fixture.wait_for_polls(5));
  fixture.clock.advance(seconds{11});
  fixture.set_answer(fail(ErrorKind::timeout, "no answer within 1000 ms"));
  ASSERT_TRUE(fixture.wait_for_polls(5));
  EXPECT_EQ(fixture.poller->last_report("abcd-uid")->unavailable_because, "");
}

TEST(ProgressPoller, MeasuresTheSilenceOfEachAttemptSeparately) {
  Fixture fixture;
  fixture.caches.pods.put(rank_0());
  fixture.answer = fail(ErrorKind::timeout, "no answer within 1000 ms");
  fixture.start();
  ASSERT_TRUE(fixture.wait_for_polls(3));
  fixture.clock.advance(seconds{6});  // Shorter than silence_max: a poll that is under way finds no news either.
  api::TrainingJob restarted = running_job();
  restarted.metadata.resource_version = "2";
  restarted.status.attempt = 3;
  fixture.caches.pods.put(rank_0("3"));
  fixture.caches.jobs.put(restarted);
  ASSERT_TRUE(fixture.wait_for_polls(5));
  fixture.clock.advance(seconds{6});
  ASSERT_TRUE(fixture.wait_for_polls(5));
  EXPECT_EQ(fixture.poller->last_report("abcd-uid"), (plan::ProgressReport{.attempt = 3}));
  fixture.clock.advance(seconds{6});
  ASSERT_TRUE(fixture.wait_until([&] { return fixture.reports == 1; }));
  EXPECT_EQ(fixture.poller->last_report("abcd-uid")->unavailable_because, "no answer within 1000 ms");
}

TEST(ProgressPoller, AsksNobodyBeforeRank0Runs) {
  Fixture fixture;
  resource::Pod starting = rank_0();
  starting.phase = resource::PodPhase::pending;
  fixture.caches.pods.put(starting);
  fixture.start();
  resource::Pod running = rank_0();
  running.metadata.resource_version = "2";
  fixture.caches.pods.put(running);
  EXPECT_TRUE(fixture.wait_for_polls(1));
}

TEST(ProgressPoller, AsksNoRank0ThatDoesNotRunOrThatIsBeingDeleted) {
  const auto starts = [](resource::Pod& pod) { pod.phase = resource::PodPhase::pending; };
  const auto has_ended = [](resource::Pod& pod) { pod.phase = resource::PodPhase::failed; };
  const auto goes = [](resource::Pod& pod) { pod.metadata.deletion_time = fakes::FakeClock{}.now(); };
  const auto has_no_address = [](resource::Pod& pod) { pod.pod_ip.clear(); };
  for (const std::function<void(resource::Pod&)>& change :
       std::vector<std::function<void(resource::Pod&)>>{starts, has_ended, goes, has_no_address}) {
    Fixture fixture;
    resource::Pod pod = rank_0();
    pod.pod_ip = "10.0.0.66";
    change(pod);
    fixture.caches.pods.put(pod);
    expect_only_second_job_is_asked(fixture);
  }
}

TEST(ProgressPoller, PollsAtOnceWhenItIsAskedTo) {
  Fixture fixture;
  fixture.caches.pods.put(rank_0());
  fixture.interval = seconds{600};
  fixture.start();
  ASSERT_TRUE(fixture.wait_until([&] { return fixture.reports == 1; }));
  fixture.poller->poll_now(key);
  EXPECT_TRUE(fixture.wait_until([&] { return fixture.polls == 2; }));
}

TEST(ProgressPoller, ForgetsAJobThatIsOver) {
  api::TrainingJob succeeded = running_job();
  succeeded.status.phase = Phase::succeeded;
  api::TrainingJob failed = running_job();
  failed.status.phase = Phase::failed;
  api::TrainingJob deleted = running_job();
  deleted.metadata.deletion_time = fakes::FakeClock{}.now();
  for (const api::TrainingJob& over : {succeeded, failed, deleted}) {
    Fixture fixture;
    fixture.caches.pods.put(rank_0());
    fixture.start();
    ASSERT_TRUE(fixture.wait_until([&] { return fixture.reports == 1; }));
    fixture.end_job_as(over);
  }
}

TEST(ProgressPoller, ForgetsAJobThatIsGone) {
  Fixture fixture;
  fixture.caches.pods.put(rank_0());
  fixture.start();
  ASSERT_TRUE(fixture.wait_until([&] { return fixture.reports == 1; }));
  fixture.caches.jobs.erase(key, "abcd-uid");
  const auto deadline = std::chrono::steady_clock::now() + seconds{60};
  while (fixture.poller->last_report("abcd-uid") && std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
  EXPECT_EQ(fixture.poller->last_report("abcd-uid"), std::nullopt);
}

TEST(ProgressPoller, PollsAJobAgainThatTakesTheNameOfOneThatIsOver) {
  Fixture fixture;
  fixture.caches.pods.put(rank_0());
  fixture.start();
  ASSERT_TRUE(fixture.wait_until([&] { return fixture.reports == 1; }));
  fixture.end_job();
  api::TrainingJob again = running_job();
  again.metadata.resource_version = "3";
  fixture.caches.jobs.put(again);
  // Again and again, since the poll that found the job over may not have ended yet.
  const auto deadline = std::chrono::steady_clock::now() + seconds{60};
  while (!fixture.poller->last_report("abcd-uid") && std::chrono::steady_clock::now() < deadline) {
    fixture.poller->track(key);
    std::this_thread::yield();
  }
  EXPECT_TRUE(fixture.poller->last_report("abcd-uid"));
}

TEST(ProgressPoller, ForgetsAJobWhenAnotherOfItsNameTookItsPlace) {
  Fixture fixture;
  fixture.caches.pods.put(rank_0());
  fixture.start();
  ASSERT_TRUE(fixture.wait_until([&] { return fixture.reports == 1; }));
  api::TrainingJob again = running_job();
  again.metadata.uid = "efgh-uid";
  fixture.set_answer(said(R"({"uid":"efgh-uid","attempt":2,"step":1})"));
  resource::Pod pod = rank_0();
  pod.metadata.name = "job-efgh-2-0";
  pod.metadata.uid = pod.metadata.name;
  pod.metadata.controller = manifest::owner_reference(again);
  fixture.caches.pods.put(pod);
  fixture.caches.jobs.put(again);
  ASSERT_TRUE(fixture.wait_until([&] { return fixture.poller->last_report("efgh-uid").has_value(); }));
  EXPECT_EQ(fixture.poller->last_report("abcd-uid"), std::nullopt);
}

TEST(ProgressPoller, IsNotHeldUpByOneRank0ThatHangs) {
  Fixture fixture;
  std::atomic<bool> is_over = false;
  std::atomic<int> others = 0;
  api::TrainingJob second = running_job();
  second.metadata.name = "second";
  second.metadata.uid = "abcd-second-uid";
  fixture.caches.jobs.put(second);
  fixture.caches.pods.put(rank_0());
  resource::Pod pod = rank_0();
  pod.metadata.name = "second-abcd-2-0";
  pod.metadata.uid = pod.metadata.name;
  pod.metadata.controller = manifest::owner_reference(second);
  pod.pod_ip = "10.0.0.8";
  fixture.caches.pods.put(pod);
  std::mutex mutex;
  std::condition_variable over;
  const auto call = [&](const std::string& url, const auto& /*post*/, milliseconds) -> Result<RankReply> {
    if (url.find("10.0.0.7") != std::string::npos) {
      std::unique_lock lock{mutex};
      over.wait(lock, [&] { return is_over.load(); });
    } else if (++others == 5) {
      const std::scoped_lock lock{mutex};
      is_over = true;
      over.notify_all();
    }
    return fail(ErrorKind::unavailable, "no");
  };
  ProgressPoller poller{
      fixture.caches,
      fixture.clock,
      manifest::kubernetes_traits(),
      call,
      [](const ObjectKey&) {},
      PollerOptions{.interval = milliseconds{1}, .silent_interval_max = milliseconds{2}, .workers = 2}};
  poller.track(key);
  poller.track({"ns", "second"});
  std::unique_lock lock{mutex};
  EXPECT_TRUE(over.wait_for(lock, seconds{60}, [&] { return is_over.load(); }));
}

/// As many rank 0s as there are workers, each of which lets every deadline pass.
TEST(ProgressPoller, IsNotHeldUpByAnyNumberOfRank0sThatHang) {
  constexpr int hanging = 4;
  Fixture fixture;
  fixture.caches.pods.put(rank_0());
  for (int number = 0; number < hanging; ++number) {
    api::TrainingJob job = running_job();
    job.metadata.name = "hangs-" + std::to_string(number);
    job.metadata.uid = "hang-" + std::to_string(number);
    fixture.caches.jobs.put(job);
    resource::Pod pod = rank_0();
    pod.metadata.name = job.metadata.name + "-hang-2-0";
    pod.metadata.uid = pod.metadata.name;
    pod.metadata.controller = manifest::owner_reference(job);
    pod.pod_ip = "10.0.66." + std::to_string(number);
    fixture.caches.pods.put(pod);
  }
  std::mutex mutex;  // guards all below
  std::condition_variable changed;
  std::set<std::string> late;  // the rank 0s that have let a deadline pass
  int held = 0;
  int answers = 0;
  bool is_over = false;
  const auto call = [&](const std::string& url, const auto& /*post*/, milliseconds) -> Result<RankReply> {
    std::unique_lock lock{mutex};
    const bool hangs = url.find("10.0.66.") != std::string::npos;
    // The first time at once, and then for as long as the test lasts.
    const bool is_held = hangs && !late.insert(url).second;
    if (is_held) ++held;
    if (!hangs) ++answers;
    changed.notify_all();
    if (!hangs) return said(R"({"uid":"abcd-uid","attempt":2,"step":7})");
    if (is_held) changed.wait(lock, [&] { return is_over; });
    return fail(ErrorKind::timeout, "no answer within 1000 ms");
  };
  ProgressPoller poller{
      fixture.caches,
      fixture.clock,
      manifest::kubernetes_traits(),
      call,
      [](const ObjectKey&) {},
      PollerOptions{.interval = milliseconds{1}, .silent_interval_max = milliseconds{2}, .workers = hanging}};
  for (int number = 0; number < hanging; ++number) poller.track({"ns", "hangs-" + std::to_string(number)});
  std::unique_lock lock{mutex};
  ASSERT_TRUE(changed.wait_for(lock, seconds{60}, [&] { return held == hanging; }));
  lock.unlock();
  poller.track(key);
  lock.lock();
  EXPECT_TRUE(changed.wait_for(lock, seconds{60}, [&] { return answers >= 5; }));
  is_over = true;
  changed.notify_all();
}

}  // namespace
}  // namespace trainyard::manager
