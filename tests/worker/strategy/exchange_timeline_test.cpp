#include "worker/strategy/exchange_timeline.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/worker/fakes/plain_wait.hpp"
#include "tests/worker/fakes/rank_threads.hpp"
#include "worker/dist/group.hpp"
#include "worker/strategy/gradient_buckets.hpp"
#include "worker/strategy/strategies.hpp"

namespace trainyard::strategy {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

/// A clock that goes on by one millisecond whenever it is asked.
std::function<Instant()> ticking() {
  return [now = Instant{}]() mutable { return now += 1ms; };
}

TEST(ExchangeTimeline, IsAPictureInChromesFormat) {
  ExchangeTimeline timeline{ticking()};
  const std::size_t first = timeline.add_track("bucket 0", 400), second = timeline.add_track("bucket 1", 80);
  timeline.note_filled(second);    // 1 ms after the beginning
  timeline.note_filled(first);     // 2 ms
  timeline.note_sent(first);       // 3 ms
  timeline.note_sent(second);      // 4 ms
  timeline.note_finished(first);   // 5 ms
  timeline.note_finished(second);  // 6 ms
  EXPECT_EQ(timeline.chrome_trace(3), json::parse(R"({"displayTimeUnit": "ms", "traceEvents": [
    {"name": "process_name", "ph": "M", "pid": 3, "args": {"name": "rank 3"}},
    {"name": "thread_name", "ph": "M", "pid": 3, "tid": 0, "args": {"name": "bucket 0"}},
    {"name": "thread_name", "ph": "M", "pid": 3, "tid": 1, "args": {"name": "bucket 1"}},
    {"name": "queued", "ph": "X", "pid": 3, "tid": 0, "ts": 2000.0, "dur": 1000.0, "args": {"bytes": 400}},
    {"name": "exchange", "ph": "X", "pid": 3, "tid": 0, "ts": 3000.0, "dur": 2000.0, "args": {"bytes": 400}},
    {"name": "queued", "ph": "X", "pid": 3, "tid": 1, "ts": 1000.0, "dur": 3000.0, "args": {"bytes": 80}},
    {"name": "exchange", "ph": "X", "pid": 3, "tid": 1, "ts": 4000.0, "dur": 2000.0, "args": {"bytes": 80}}]})"));
}

TEST(ExchangeTimeline, KeepsTheFirstExchangesAndNoMore) {
  ExchangeTimeline timeline{ticking(), /*exchanges_max=*/2};
  const std::size_t track = timeline.add_track("bucket", 8);
  for (int exchange = 0; exchange < 5; ++exchange) {
    EXPECT_EQ(timeline.is_full(), exchange >= 2);
    timeline.note_filled(track);
    timeline.note_sent(track);
    timeline.note_finished(track);
  }
  EXPECT_EQ(timeline.chrome_trace(0)["traceEvents"].size(), 2U + 2U * 2U);
}

/// The events of a trace but those that name rows, as "NAME ROW BEGIN".
std::vector<std::string> events_of(const ExchangeTimeline& timeline) {
  std::vector<std::string> events;
  const json trace = timeline.chrome_trace(0);
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == "X")
      events.push_back(event["name"].get<std::string>() + " " + std::to_string(event["tid"].get<int>()) + " " +
                       std::to_string(event["ts"].get<int>() / 1000));
  }
  return events;
}

TEST(GradientBuckets, RecordWhenEachBucketIsFilledSentAndReceived) {
  fakes::run_ranks(2, [](fakes::RankThread& rank) {
    std::vector<torch::Tensor> parameters;
    for (int index = 0; index < 2; ++index) parameters.push_back(torch::ones({2}).requires_grad_());
    ExchangeTimeline timeline{ticking()};
    GradientBuckets buckets{parameters, rank.process_group, {.first_bytes = 1, .bytes = 1}};
    buckets.record_in(timeline);
    buckets.zero();
    // The second parameter, of the first bucket, is not used: both buckets wait for the end of the backward pass.
    parameters[0].sum().backward();
    ASSERT_TRUE(buckets.finish(fakes::plain_wait, fakes::plain_wait));
    // Bucket 1 is filled at 1, bucket 0 at 2; they are sent at 3 and 4.
    EXPECT_THAT(events_of(timeline), testing::ElementsAre("queued 0 2", "exchange 0 3", "queued 1 1", "exchange 1 4"));
  });
}

TEST(MakeGradientSync, GivesTheTimelineToTheBuckets) {
  fakes::run_ranks(2, [](fakes::RankThread& rank) {
    dist::Group group{.rank = rank.rank,
                      .world_size = rank.world_size,
                      .store = {},
                      .process_group = rank.process_group,
                      .communicator = std::move(rank.communicator),
                      .checkpoint_communicator = {}};
    const torch::Tensor weight = torch::ones({2}).requires_grad_();
    ExchangeTimeline timeline{ticking()};
    const auto sync = make_gradient_sync({{"weight", weight}}, {}, group, fakes::plain_wait, {}, {}, &timeline);
    sync->zero_gradients();
    sync->begin_backward(/*is_last_batch=*/true);
    weight.sum().backward();
    ASSERT_TRUE(sync->finish_gradients());
    EXPECT_THAT(events_of(timeline), testing::ElementsAre("queued 0 1", "exchange 0 2"));
  });
}

}  // namespace
}  // namespace trainyard::strategy
