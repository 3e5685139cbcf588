#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "operator/control/election.hpp"
#include "tests/fakes/fake_clock.hpp"

namespace trainyard::control {
namespace {

using Action = Election::Action;
using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Lease, ReadsBackWhatItWrites) {
  const Time time{std::chrono::sys_days{std::chrono::year{2026} / 1 / 2}};
  const Lease lease{.name_space = "ns",
                    .name = "op",
                    .resource_version = "7",
                    .holder = "me",
                    .duration = seconds{4},
                    .transitions = 3,
                    .acquired = time,
                    .renewed = time + std::chrono::milliseconds{250}};
  json object = to_json(lease);
  EXPECT_EQ(object, (json{{"apiVersion", "coordination.k8s.io/v1"},
                          {"kind", "Lease"},
                          {"metadata", {{"name", "op"}, {"namespace", "ns"}, {"resourceVersion", "7"}}},
                          {"spec",
                           {{"holderIdentity", "me"},
                            {"leaseDurationSeconds", 4},
                            {"leaseTransitions", 3},
                            {"acquireTime", "2026-01-02T00:00:00.000000Z"},
                            {"renewTime", "2026-01-02T00:00:00.250000Z"}}}}));
  object["metadata"]["uid"] = "u";
  EXPECT_EQ(parse_lease(object), lease);
}

TEST(Lease, ForgivesOneMadeByHand) {
  const json object{{"metadata", {{"name", "op"}, {"namespace", "ns"}, {"uid", "u"}, {"resourceVersion", "7"}}}};
  EXPECT_EQ(parse_lease(object), (Lease{.name_space = "ns", .name = "op", .resource_version = "7"}));
}

TEST(Lease, ForgivesFieldsOfAnotherType) {
  const json metadata{{"name", "op"}, {"namespace", "ns"}, {"uid", "u"}, {"resourceVersion", "7"}};
  const Lease empty{.name_space = "ns", .name = "op", .resource_version = "7"};
  for (const json& spec :
       {json("none"), json{{"holderIdentity", 7}, {"leaseDurationSeconds", "4"}, {"leaseTransitions", 1.5}},
        json{{"acquireTime", nullptr}, {"renewTime", nullptr}}}) {
    EXPECT_EQ(parse_lease({{"metadata", metadata}, {"spec", spec}}), empty) << spec;
  }
}

TEST(Lease, NamesATimeThatIsNone) {
  for (const char* field : {"acquireTime", "renewTime"}) {
    for (const json& value : {json("yesterday"), json(7)}) {
      const json object{{"metadata", {{"name", "op"}, {"namespace", "ns"}, {"uid", "u"}}}, {"spec", {{field, value}}}};
      const auto lease = parse_lease(object);
      ASSERT_FALSE(lease);
      EXPECT_NE(lease.error().message.find(std::string{"spec."} + field), std::string::npos) << value;
    }
  }
}

/// One candidate "me" with a clock of its own.
struct Candidate {
  fakes::FakeClock clock;
  Election election{"me", ElectionTimes{}};

  Action action() const { return election.next_action(clock.instant()); }
  bool is_leader() const { return clock.instant() < election.leader_until(); }
  void observe(std::optional<Lease> lease) { election.observe(lease, clock.instant()); }
  /// Writes what the action says, as a server that stores it at once.
  void write() {
    Lease lease = election.to_write("ns", "op", clock.now());
    lease.resource_version = std::to_string(++version);
    election.hold(lease, clock.instant());
  }
  int version = 100;
};

Lease held_by(std::string holder, int renewal, seconds duration = seconds{4}) {
  return {.name_space = "ns",
          .name = "op",
          .resource_version = std::to_string(renewal),
          .holder = std::move(holder),
          .duration = duration,
          .transitions = 1,
          .acquired = Time{},
          .renewed = Time{seconds{renewal}}};
}

TEST(Election, ReadsFirst) {
  Candidate me;
  EXPECT_EQ(me.action(), Action::read);
  EXPECT_FALSE(me.is_leader());
}

TEST(Election, CreatesALeaseThatIsNotThere) {
  Candidate me;
  me.observe(std::nullopt);
  EXPECT_EQ(me.action(), Action::create);
  me.write();
  EXPECT_TRUE(me.is_leader());
}

TEST(Election, TakesAReleasedLeaseAtOnce) {
  Candidate me;
  me.observe(held_by("", 1));
  EXPECT_EQ(me.action(), Action::take);
  EXPECT_EQ(me.election.to_write("ns", "op", {}).transitions, 2);
}

TEST(Election, WritesSinceWhenItHoldsTheLeaseAndKeepsThatUntilItGivesItBack) {
  Candidate me;
  me.observe(held_by("", 1));
  Lease expected{.name_space = "ns",
                 .name = "op",
                 .resource_version = "1",
                 .holder = "me",
                 .duration = seconds{4},
                 .transitions = 2,
                 .acquired = Time{seconds{7}},
                 .renewed = Time{seconds{7}}};
  const Lease taken = me.election.to_write("ns", "op", Time{seconds{7}});
  EXPECT_EQ(taken, expected);
  me.election.hold(taken, me.clock.instant());
  expected.renewed = Time{seconds{9}};
  EXPECT_EQ(me.election.to_write("ns", "op", Time{seconds{9}}), expected);
  expected.renewed = Time{seconds{11}};
  expected.holder.clear();
  expected.duration = seconds{1};
  EXPECT_EQ(me.election.to_release(Time{seconds{11}}), expected);
}

TEST(Election, LeavesAHeldLeaseAloneForItsDurationSinceItWasSeenToChange) {
  Candidate me;
  me.observe(held_by("other", 1));
  EXPECT_EQ(me.action(), Action::wait);
  for (int half_second = 1; half_second < 8; ++half_second) {
    me.clock.advance(milliseconds{500});
    ASSERT_EQ(me.action(), Action::read) << half_second;
    me.observe(held_by("other", 1));
  }
  EXPECT_EQ(me.action(), Action::wait) << "3.5 s of 4 s";
  me.clock.advance(milliseconds{499});
  EXPECT_EQ(me.action(), Action::wait);
  me.clock.advance(milliseconds{1});
  EXPECT_EQ(me.action(), Action::take);
}

TEST(Election, BeginsToCountAgainWithEachRenewal) {
  Candidate me;
  for (int renewal = 1; renewal < 20; ++renewal) {
    me.observe(held_by("other", renewal));
    ASSERT_EQ(me.action(), Action::wait);
    me.clock.advance(seconds{1});
    ASSERT_EQ(me.action(), Action::read);
  }
}

TEST(Election, DoesNotTakeAPersonsAnnotationForARenewal) {
  Candidate me;
  me.observe(held_by("other", 1));
  me.clock.advance(seconds{3});
  Lease annotated = held_by("other", 1);
  annotated.resource_version = "77";
  me.observe(annotated);
  me.clock.advance(seconds{1});
  EXPECT_EQ(me.action(), Action::take);
  EXPECT_EQ(me.election.to_write("ns", "op", {}).resource_version, "77");
}

TEST(Election, IgnoresTheClockOfTheOtherHolder) {
  Candidate me;
  Lease from_the_future = held_by("other", 1);
  from_the_future.renewed = Time{std::chrono::hours{1'000'000}};
  me.observe(from_the_future);
  me.clock.advance(seconds{4});
  EXPECT_EQ(me.action(), Action::take);
  Candidate later;
  later.observe(held_by("other", 1));  // renewed in 1970
  EXPECT_EQ(later.action(), Action::wait);
}

TEST(Election, BoundsAnotherLeasesDuration) {
  for (const auto& [duration, bound] : {std::pair{seconds{0}, seconds{1}}, std::pair{seconds{15}, seconds{15}},
                                        std::pair{seconds{86'400}, seconds{60}}}) {
    Candidate me;
    me.observe(held_by("other", 1, duration));
    me.clock.advance(bound - milliseconds{1});
    me.observe(held_by("other", 1, duration));
    EXPECT_EQ(me.action(), Action::wait);
    me.clock.advance(milliseconds{1});
    EXPECT_EQ(me.action(), Action::take);
  }
}

TEST(Election, RenewsEverySecond) {
  Candidate me;
  me.observe(std::nullopt);
  me.write();
  EXPECT_EQ(me.action(), Action::wait);
  me.clock.advance(seconds{1});
  EXPECT_EQ(me.action(), Action::renew);
  const Lease renewal = me.election.to_write("ns", "op", Time{seconds{5}});
  EXPECT_EQ(renewal.transitions, 0) << "a renewal is no transition";
  EXPECT_EQ(renewal.renewed, Time{seconds{5}});
}

TEST(Election, GivesUpThreeSecondsAfterItAskedForItsLastRenewal) {
  Candidate me;
  me.observe(std::nullopt);
  const Instant asked_at = me.clock.instant();
  me.clock.advance(milliseconds{900});  // the reply was slow
  me.election.hold(me.election.to_write("ns", "op", {}), asked_at);
  me.clock.advance(milliseconds{2'099});
  EXPECT_TRUE(me.is_leader());
  me.clock.advance(milliseconds{1});
  EXPECT_FALSE(me.is_leader());
}

TEST(Election, TriesAgainEveryHalfSecondWhenRenewingFailsAndKeepsItsEnd) {
  Candidate me;
  me.observe(std::nullopt);
  me.write();
  me.clock.advance(seconds{1});
  int tries = 0;
  while (me.is_leader()) {
    if (me.action() != Action::wait) {
      ++tries;
      me.election.fail(me.clock.instant());
    }
    me.clock.advance(milliseconds{100});
  }
  EXPECT_EQ(tries, 4);  // at 1.0, 1.5, 2.0 and 2.5 s
}

TEST(Election, ReadsBeforeItWritesAgainAfterAFailure) {
  Candidate me;
  me.observe(std::nullopt);
  me.write();
  me.clock.advance(seconds{1});
  me.election.fail(me.clock.instant());
  me.clock.advance(milliseconds{500});
  EXPECT_EQ(me.action(), Action::read);
  me.observe(held_by("me", 9));  // our renewal had been stored, only its reply was lost
  EXPECT_EQ(me.action(), Action::renew);
  EXPECT_EQ(me.election.to_write("ns", "op", {}).resource_version, "9");
}

TEST(Election, LosesTheLeadAtOnceWhenTheLeaseIsSeenInOtherHands) {
  Candidate me;
  me.observe(std::nullopt);
  me.write();
  ASSERT_TRUE(me.is_leader());
  me.observe(held_by("other", 1));
  EXPECT_FALSE(me.is_leader());
  EXPECT_EQ(me.action(), Action::wait);
}

TEST(Election, StopsBeforeAnotherCanHaveStarted) {
  // The other sees our renewal the moment it is stored, which is after we asked for it.
  Candidate me;
  me.observe(std::nullopt);
  const Instant asked_at = me.clock.instant();
  const Lease ours = me.election.to_write("ns", "op", {});
  me.election.hold(ours, asked_at);
  Candidate other;
  other.election = Election{"other", ElectionTimes{}};
  other.observe(ours);
  EXPECT_GT(other.clock.instant() + seconds{4}, me.election.leader_until());
  other.clock.advance(seconds{3});
  other.observe(ours);
  EXPECT_EQ(other.action(), Action::wait);
}

TEST(Election, GivesBackWhatOthersMayTakeAtOnce) {
  Candidate me;
  me.observe(std::nullopt);
  me.write();
  const Lease released = me.election.to_release({});
  EXPECT_EQ(released.holder, "");
  Candidate other;
  other.election = Election{"other", ElectionTimes{}};
  other.observe(released);
  EXPECT_EQ(other.action(), Action::take);
}

}  // namespace
}  // namespace trainyard::control
