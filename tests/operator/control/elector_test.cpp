#include "operator/control/elector.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <thread>

#include "local/memory_api.hpp"
#include "operator/control/write_gate.hpp"
#include "tests/fakes/fake_clock.hpp"
#include "tests/fakes/refusing_api.hpp"

namespace trainyard::control {
namespace {

using kube::json;
using std::chrono::milliseconds;

/// A server that can be told to refuse every call, as in an outage.
class Outage {
 public:
  explicit Outage(kube::Api& api) : gate_{api, [this] { return !is_down_.load(); }} {}
  kube::Api& api() { return gate_; }
  void begin() { is_down_ = true; }
  void end() { is_down_ = false; }

 private:
  std::atomic<bool> is_down_ = false;
  WriteGate gate_;
};

const ElectionTimes quick{
    .lease = milliseconds{1'000}, .renew = milliseconds{50}, .give_up = milliseconds{500}, .retry = milliseconds{20}};

std::unique_ptr<Elector> candidate(kube::Api& api, const Clock& clock, std::string holder) {
  return std::make_unique<Elector>(
      api, clock, ElectorOptions{.name_space = "ns", .name = "op", .holder = std::move(holder), .times = quick});
}

std::string holder(kube::Api& api) {
  const auto lease = api.get(kube::leases, "ns", "op");
  return lease ? (*lease)["spec"]["holderIdentity"].get<std::string>() : "";
}

TEST(Elector, LeadsWhenItIsAlone) {
  const SystemClock clock;
  local::MemoryApi api{clock};
  std::stop_source stop;
  const auto alone = candidate(api, clock, "alone");
  EXPECT_TRUE(alone->wait_until_leader(stop.get_token()));
  EXPECT_TRUE(alone->has_seen_lease());
  EXPECT_EQ(holder(api), "alone");
}

TEST(Elector, GivesTheLeaseBackAtItsEnd) {
  const SystemClock clock;
  local::MemoryApi api{clock};
  std::stop_source stop;
  auto first = candidate(api, clock, "first");
  ASSERT_TRUE(first->wait_until_leader(stop.get_token()));
  const auto second = candidate(api, clock, "second");
  first.reset();
  EXPECT_TRUE(second->wait_until_leader(stop.get_token()));
  EXPECT_EQ(holder(api), "second");
}

TEST(Elector, TakesOverFromOneThatFellSilentAndTheSilentOneKnows) {
  const SystemClock clock;
  local::MemoryApi api{clock};
  Outage outage{api};
  std::stop_source stop;
  const auto cut_off = candidate(outage.api(), clock, "cut off");
  ASSERT_TRUE(cut_off->wait_until_leader(stop.get_token()));
  const auto standby = candidate(api, clock, "standby");
  outage.begin();
  cut_off->wait_until_not_leader(stop.get_token());
  EXPECT_FALSE(cut_off->is_leader());
  EXPECT_TRUE(standby->wait_until_leader(stop.get_token()));
  EXPECT_FALSE(cut_off->is_leader());
}

TEST(Elector, LeavesTheLeaseToOthersBetweenALossAndTheNextWait) {
  const SystemClock clock;
  local::MemoryApi api{clock};
  Outage outage{api};
  std::stop_source stop;
  const auto first = candidate(outage.api(), clock, "first");
  ASSERT_TRUE(first->wait_until_leader(stop.get_token()));
  outage.begin();
  first->wait_until_not_leader(stop.get_token());
  outage.end();
  // It could take the lease back before anybody else may take it.
  const auto standby = candidate(api, clock, "standby");
  EXPECT_TRUE(standby->wait_until_leader(stop.get_token()));
  EXPECT_FALSE(first->is_leader());
  EXPECT_EQ(holder(api), "standby");
}

TEST(Elector, LeadsAgainWhenItsLeadIsWaitedForAgain) {
  const SystemClock clock;
  local::MemoryApi api{clock};
  Outage outage{api};
  std::stop_source stop;
  const auto alone = candidate(outage.api(), clock, "alone");
  ASSERT_TRUE(alone->wait_until_leader(stop.get_token()));
  outage.begin();
  alone->wait_until_not_leader(stop.get_token());
  outage.end();
  EXPECT_TRUE(alone->wait_until_leader(stop.get_token()));
  EXPECT_TRUE(alone->is_leader());
}

/// A server that is slow to answer a create, and answers nothing after it.
class SlowServer final : public fakes::RefusingApi {
 public:
  SlowServer(fakes::FakeClock& clock, milliseconds create_takes) : clock_{clock}, create_takes_{create_takes} {}

  Result<json> get(const kube::ResourceType&, std::string_view, std::string_view) override {
    if (is_silent_) return fail(ErrorKind::timeout, "no answer");
    caller_ = std::this_thread::get_id();
    return fail(ErrorKind::not_found, "there is no lease");
  }
  Result<json> create(const kube::ResourceType&, std::string_view, const json& object,
                      const kube::CreateOptions&) override {
    is_silent_ = true;
    clock_.advance(create_takes_);
    json stored = object;
    stored["metadata"]["uid"] = "u";
    stored["metadata"]["resourceVersion"] = "1";
    return stored;
  }
  /// True on the thread that asks the server, until it has asked for a create.
  [[nodiscard]] bool waits_for_create_here() const { return !is_silent_ && caller_ == std::this_thread::get_id(); }

 private:
  fakes::FakeClock& clock_;
  const milliseconds create_takes_;
  std::atomic<bool> is_silent_ = false;
  std::atomic<std::thread::id> caller_{};
};

/// A clock that advances at each look of an elector that has not asked for the lease yet, and for nobody else. If the
/// elector has looked before its lead is waited for, it looks again only after a while.
class ClockUntilCreate final : public Clock {
 public:
  ClockUntilCreate(fakes::FakeClock& clock, const SlowServer& api) : clock_{clock}, api_{api} {}
  [[nodiscard]] Time now() const override { return clock_.now(); }
  [[nodiscard]] Instant instant() const override {
    if (api_.waits_for_create_here()) clock_.advance(quick.retry);
    return clock_.instant();
  }

 private:
  fakes::FakeClock& clock_;
  const SlowServer& api_;
};

TEST(Elector, LeadsFromBeforeItAskedForTheLeaseAndNotFromTheReply) {
  fakes::FakeClock clock;
  SlowServer api{clock, milliseconds{300}};
  const ClockUntilCreate elector_clock{clock, api};
  std::stop_source stop;
  const auto elector = candidate(api, elector_clock, "slow");
  ASSERT_TRUE(elector->wait_until_leader(stop.get_token()));
  clock.advance(milliseconds{199});
  EXPECT_TRUE(elector->is_leader());
  clock.advance(milliseconds{1});
  EXPECT_FALSE(elector->is_leader()) << "another may lead by what the server stored before its reply came";
}

TEST(Elector, StopsWaitingWhenAskedTo) {
  const SystemClock clock;
  local::MemoryApi api{clock};
  std::stop_source stop;
  const auto first = candidate(api, clock, "first");
  ASSERT_TRUE(first->wait_until_leader(stop.get_token()));
  const auto second = candidate(api, clock, "second");
  auto led = std::async(std::launch::async, [&] { return second->wait_until_leader(stop.get_token()); });
  auto lost = std::async(std::launch::async, [&] { first->wait_until_not_leader(stop.get_token()); });
  stop.request_stop();
  EXPECT_FALSE(led.get());
  lost.get();
  EXPECT_TRUE(first->is_leader());
  EXPECT_FALSE(first->wait_until_leader(stop.get_token())) << "a leader that is to stop does not begin again";
}

/// A server whose answer to each read says nothing of the lease.
class UnhelpfulServer final : public fakes::RefusingApi {
 public:
  explicit UnhelpfulServer(Result<json> answer) : answer_{std::move(answer)} {}
  Result<json> get(const kube::ResourceType&, std::string_view, std::string_view) override {
    ++reads_;
    reads_.notify_all();
    return answer_;
  }
  Result<json> create(const kube::ResourceType&, std::string_view, const json&, const kube::CreateOptions&) override {
    ++writes_;
    return fail(ErrorKind::internal, "it is not to be written");
  }
  Result<json> update(const kube::ResourceType&, std::string_view, const json&) override {
    ++writes_;
    return fail(ErrorKind::internal, "it is not to be written");
  }
  /// Returns once the elector has handled an answer.
  void wait_for_second_read() {
    for (int reads = reads_; reads < 2; reads = reads_) reads_.wait(reads);
  }
  [[nodiscard]] int writes() const { return writes_; }

 private:
  const Result<json> answer_;
  std::atomic<int> reads_ = 0;
  std::atomic<int> writes_ = 0;
};

TEST(Elector, HasSeenNoLeaseThatItCouldNotRead) {
  const SystemClock clock;
  const json malformed{{"metadata", {{"name", "op"}, {"namespace", "ns"}, {"uid", "u"}}},
                       {"spec", {{"renewTime", "yesterday"}}}};
  for (const Result<json>& answer : {Result<json>{fail(ErrorKind::unavailable, "no connection")},
                                     Result<json>{fail(ErrorKind::forbidden, "no right")}, Result<json>{malformed}}) {
    UnhelpfulServer api{answer};
    std::stop_source stop;
    const auto elector = candidate(api, clock, "blind");
    auto led = std::async(std::launch::async, [&] { return elector->wait_until_leader(stop.get_token()); });
    api.wait_for_second_read();
    EXPECT_FALSE(elector->has_seen_lease());
    stop.request_stop();
    EXPECT_FALSE(led.get());
    EXPECT_EQ(api.writes(), 0) << "another process may lead";
  }
}

TEST(Elector, WritesNothingAtItsEndUnlessItLeads) {
  const SystemClock clock;
  local::MemoryApi api{clock};
  std::stop_source stop;
  const auto first = candidate(api, clock, "first");
  ASSERT_TRUE(first->wait_until_leader(stop.get_token()));
  candidate(api, clock, "second").reset();
  EXPECT_TRUE(first->is_leader());
  EXPECT_EQ(holder(api), "first");
}

TEST(WriteGate, PassesOnAllThatTheCallerSays) {
  const SystemClock clock;
  local::MemoryApi api{clock};
  WriteGate gate{api, [] { return true; }};
  const auto pod = [](const std::string& name, const std::string& label = {}) -> json {
    return {{"metadata", {{"name", name}, {"namespace", "ns"}, {"labels", {{"l", label}}}}},
            {"spec", {{"containers", {{{"name", "worker"}, {"image", "i"}}}}}}};
  };
  ASSERT_TRUE(gate.create(kube::pods, "ns", pod("dry"), {.is_dry_run = true}));
  EXPECT_FALSE(api.get(kube::pods, "ns", "dry")) << "a dry run makes nothing";
  ASSERT_TRUE(gate.create(kube::pods, "ns", pod("p", "1"), {}));
  ASSERT_TRUE(gate.create(kube::pods, "ns", pod("q", "2"), {}));
  const auto removed = gate.remove(kube::pods, "ns", "p", {.uid = "of-another-pod"});
  ASSERT_FALSE(removed);
  EXPECT_EQ(removed.error().kind, ErrorKind::conflict);
  EXPECT_TRUE(gate.remove(kube::pods, "ns", "p", {.uid = (*api.get(kube::pods, "ns", "p"))["metadata"]["uid"]}));
  EXPECT_FALSE(api.get(kube::pods, "ns", "p"));
  const json patch = json::array({{{"op", "replace"}, {"path", "/metadata/labels/l"}, {"value", "3"}}});
  EXPECT_TRUE(gate.patch(kube::pods, "ns", "q", kube::PatchType::json_patch, patch));
  EXPECT_EQ(gate.list(kube::pods, {.name_space = "ns", .label_selector = "l=3"})->items.size(), 1U);
  EXPECT_EQ(gate.list(kube::pods, {.name_space = "other"})->items.size(), 0U);
  json changed = *gate.get(kube::pods, "ns", "q");
  changed["status"]["phase"] = "Running";
  ASSERT_TRUE(gate.update_status(kube::pods, "ns", changed));
  EXPECT_EQ((*api.get(kube::pods, "ns", "q"))["status"]["phase"], "Running");
  EXPECT_FALSE(gate.update(kube::pods, "ns", changed)) << "its version is not the stored one any more";
}

TEST(WriteGate, PassesOnAWatch) {
  const SystemClock clock;
  local::MemoryApi api{clock};
  WriteGate gate{api, [] { return false; }};
  ASSERT_TRUE(api.create(kube::leases, "ns", {{"metadata", {{"name", "a"}, {"namespace", "ns"}}}}));
  const std::string version = gate.list(kube::leases, {})->resource_version;
  ASSERT_TRUE(api.create(kube::leases, "ns", {{"metadata", {{"name", "b"}, {"namespace", "ns"}}}}));
  std::stop_source stop;
  std::vector<std::string> names;
  const auto ended = gate.watch(
      kube::leases, {.resource_version = version},
      [&](const kube::WatchEvent& event) {
        names.push_back(event.object["metadata"]["name"]);
        stop.request_stop();
      },
      stop.get_token());
  EXPECT_EQ(names, std::vector<std::string>{"b"});
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().kind, ErrorKind::cancelled);
}

TEST(WriteGate, RefusesWritesAndLetsReadsThrough) {
  const SystemClock clock;
  local::MemoryApi api{clock};
  bool may_write = true;
  WriteGate gate{api, [&] { return may_write; }};
  const json pod{{"metadata", {{"name", "p"}, {"namespace", "ns"}}},
                 {"spec", {{"containers", {{{"name", "worker"}, {"image", "i"}}}}}}};
  EXPECT_TRUE(gate.create(kube::pods, "ns", pod, {}));
  may_write = false;
  const std::vector<ErrorKind> kinds{gate.create(kube::pods, "ns", pod, {}).error().kind,
                                     gate.update(kube::pods, "ns", pod).error().kind,
                                     gate.update_status(kube::pods, "ns", pod).error().kind,
                                     gate.patch(kube::pods, "ns", "p", kube::PatchType::merge, pod).error().kind,
                                     gate.remove(kube::pods, "ns", "p", {}).error().kind};
  EXPECT_EQ(kinds, std::vector<ErrorKind>(5, ErrorKind::cancelled));
  EXPECT_TRUE(gate.get(kube::pods, "ns", "p"));
  EXPECT_EQ(gate.list(kube::pods, {})->items.size(), 1U);
}

}  // namespace
}  // namespace trainyard::control
