#include "operator/reconcile/events.hpp"

#include <gtest/gtest.h>

#include "common/time_text.hpp"
#include "tests/operator/reconcile/reconciler_fixture.hpp"

namespace trainyard::reconcile {
namespace {

using namespace std::chrono_literals;
using fakes::ApiCall;
using fakes::Fault;
using nlohmann::json;

class RecordEventTest : public ReconcilerTest {
 protected:
  RecordEventTest() { apply(); }
  Result<void> record(const plan::Event& event) {
    const api::TrainingJob job = stored();
    return record_event(faulty, job, event, "me", clock.now());
  }
  json only_event() {
    const auto events = api.list(kube::core_events, {})->items;
    EXPECT_EQ(events.size(), 1U);
    return events.size() == 1 ? events[0] : json::object();
  }
};

TEST_F(RecordEventTest, KeepsOneEventOfAReasonWithItsFirstAndItsLastTime) {
  const std::string first = format_rfc3339(clock.now());
  EXPECT_TRUE(record({.reason = "Restarting", .is_warning = true, .note = "pod 1 was lost", .count = 1}));
  clock.advance(3h);
  EXPECT_TRUE(record({.reason = "Restarting", .is_warning = true, .note = "pod 0 was lost", .count = 2}));
  const json event = only_event();
  EXPECT_EQ(event.at("message"), "pod 0 was lost");
  EXPECT_EQ(event.at("type"), "Warning");
  EXPECT_EQ(event.at("count"), 2);
  EXPECT_EQ(event.at("firstTimestamp"), first);
  EXPECT_EQ(event.at("lastTimestamp"), format_rfc3339(clock.now()));
}

TEST_F(RecordEventTest, NamesTheJobItsSourceAndItsTimes) {
  const api::TrainingJob job = stored();
  const std::string now = format_rfc3339(clock.now());
  json expected = {{"apiVersion", "v1"},
                   {"kind", "Event"},
                   {"metadata", {{"name", manifest::owned_name(job) + "-running"}, {"namespace", "research"}}},
                   {"involvedObject",
                    {{"apiVersion", "trainyard.dev/v1alpha1"},
                     {"kind", "TrainingJob"},
                     {"name", "smoke"},
                     {"namespace", "research"},
                     {"uid", job.metadata.uid}}},
                   {"reason", "Running"},
                   {"type", "Normal"},
                   {"message", "all pods run"},
                   {"source", {{"component", "trainyard-operator"}, {"host", "me"}}},
                   {"firstTimestamp", now},
                   {"lastTimestamp", now},
                   {"count", 3}};
  const plan::Event event{.reason = "Running", .note = "all pods run", .count = 3};
  EXPECT_EQ(build_event(job, event, "me", clock.now()), expected);
}

TEST_F(RecordEventTest, KeepsTheCountWhereTheNextOneIsNotKnown) {
  EXPECT_TRUE(record({.reason = "Pending", .note = "first", .count = 3}));
  EXPECT_TRUE(record({.reason = "Pending", .note = "next"}));
  EXPECT_EQ(only_event().at("count"), 3);
  EXPECT_EQ(only_event().at("message"), "next");
}

TEST_F(RecordEventTest, CutsANoteAtTheBorderOfACharacter) {
  EXPECT_TRUE(record({.reason = "Pending", .note = std::string(1'020, 'x') + "\u00e9 and more"}));
  EXPECT_EQ(only_event().value("message", ""), std::string(1'020, 'x') + "...");
}

TEST_F(RecordEventTest, FailsWhereTheServerRefusesIt) {
  const api::TrainingJob job = stored();
  faulty.set_schedule([](const ApiCall& call) -> std::optional<Fault> {
    if (call.verb != "create") return std::nullopt;
    return Fault{.error = {ErrorKind::forbidden, "no right"}};
  });
  const auto recorded = record_event(faulty, job, {.reason = "Running"}, "me", clock.now());
  ASSERT_FALSE(recorded);
  EXPECT_EQ(recorded.error().kind, ErrorKind::forbidden);
}

TEST_F(RecordEventTest, IsDoneForAStatusThatIsStoredAlthoughAnActionOfItsPlanFails) {
  fail_pods({ErrorKind::throttled, "slow down"});
  for (int turn = 0; turn < 6; ++turn) static_cast<void>(reconciler->reconcile(key));
  ASSERT_EQ(api.list(kube::core_events, {})->items.size(), 0U) << "the server may recover";
  clock.advance(60s);
  const auto done = reconciler->reconcile(key);
  ASSERT_FALSE(done) << "no pod could be created";
  EXPECT_EQ(done.error().kind, ErrorKind::throttled);
  EXPECT_EQ(only_event().value("message", ""), "ApiUnavailable: slow down");
}

}  // namespace
}  // namespace trainyard::reconcile
