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
