#include "worker/strategy/tuned_buckets.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/worker/fakes/plain_wait.hpp"
#include "tests/worker/fakes/rank_threads.hpp"

namespace trainyard::strategy {
namespace {

using namespace std::chrono_literals;
using fakes::RankThread;
using testing::ElementsAre;

/// An all-reduce that counts how many buckets were sent.
class CountedAllReduce final : public BucketExchange {
 public:
  CountedAllReduce(std::vector<ExchangedBucket> buckets, c10::intrusive_ptr<c10d::ProcessGroup> group, int& sent)
      : BucketExchange{std::move(group)}, buckets_{std::move(buckets)}, sent_{sent} {}
  [[nodiscard]] c10::intrusive_ptr<c10d::Work> begin(std::size_t bucket) override {
    ++sent_;
    return sum(buckets_[bucket].flat);
  }
  [[nodiscard]] c10::intrusive_ptr<c10d::Work> proceed(std::size_t /*bucket*/) override { return {}; }

 private:
  std::vector<ExchangedBucket> buckets_;
  int& sent_;
};

/// Trains three parameters of 8 bytes with buckets of 8, 16 or 24 bytes: of three buckets, two, or one. The clock of a
/// rank goes on by as many seconds as `seconds` says for that number of buckets, in each step.
class TunedRank {
 public:
  TunedRank(RankThread& rank, std::vector<int> seconds) : seconds_{std::move(seconds)} {
    for (int index = 0; index < 3; ++index) parameters_.push_back(torch::ones({2}).requires_grad_());
    TuningOptions tuning{.plan = {.candidates = {}, .steps_per_sample = 1, .rounds = 1},
                         .now = [this] { return now_ += std::chrono::seconds{seconds_[bucket_count_ - 1]}; }};
    for (const std::int64_t bytes : {8, 16, 24})
      tuning.plan.candidates.push_back({.first_bytes = bytes, .bytes = bytes});
    const auto make_exchange = [this](std::vector<ExchangedBucket> buckets,
                                      c10::intrusive_ptr<c10d::ProcessGroup> group) {
      bucket_count_ = buckets.size();
      return std::make_unique<CountedAllReduce>(std::move(buckets), std::move(group), sent_);
    };
    buckets_.emplace(parameters_, rank.process_group, BucketLimits{}, make_exchange, std::move(tuning));
    rank_ = rank.rank;
  }

  /// Makes a step, and returns its number of buckets.
  std::size_t step() {
    buckets_->zero();
    torch::Tensor loss = torch::zeros({});
    for (const torch::Tensor& parameter : parameters_) loss = loss + (parameter * static_cast<double>(rank_ + 1)).sum();
    const int sent_before = sent_;
    loss.backward();
    sent_in_backward_ = sent_ - sent_before;
    EXPECT_TRUE(buckets_->finish(fakes::plain_wait, fakes::plain_wait));
    for (const torch::Tensor& parameter : parameters_)
      EXPECT_TRUE(torch::equal(parameter.grad(), torch::full({2}, 1.5))) << "in buckets of step " << steps_;
    ++steps_;
    return bucket_count_;
  }
  std::vector<std::size_t> steps(int count) {
    std::vector<std::size_t> counts;
    for (int step = 0; step < count; ++step) counts.push_back(this->step());
    return counts;
  }
  TunedBuckets& buckets() { return *buckets_; }
  /// How many buckets the last step has sent while its backward pass went on.
  [[nodiscard]] int sent_in_backward() const { return sent_in_backward_; }

 private:
  std::vector<int> seconds_;  // by the number of buckets, from 1
  Instant now_;
  std::size_t bucket_count_ = 1;
  int sent_ = 0;
  int sent_in_backward_ = 0;
  std::vector<torch::Tensor> parameters_;
  std::optional<TunedBuckets> buckets_;
  std::int64_t rank_ = 0;
  int steps_ = 0;
};

TEST(TunedBuckets, TriesEachSizeAndKeepsOnAllRanksTheBestOfRankZero) {
  fakes::run_ranks(2, [](RankThread& rank) {
    // Two buckets are best for rank 0, and one is for rank 1.
    TunedRank tuned{rank, rank.rank == 0 ? std::vector{9, 1, 5} : std::vector{1, 9, 5}};
    EXPECT_THAT(tuned.steps(7), ElementsAre(3, 3, 2, 1, 2, 2, 2));
    // Each step sends the gradients and, for each parameter, whether it was used; the last of the tuning sends no more.
    EXPECT_EQ(tuned.buckets().exchanged_bytes(), 7U * (24 + 12));
  });
}

TEST(TunedBuckets, KeepTheirSettingsWhenTheirSizeChanges) {
  fakes::run_ranks(2, [](RankThread& rank) {
    ExchangeTimeline timeline{[] { return Instant{}; }};
    TunedRank usual{rank, {1, 1, 1}}, at_end{rank, {1, 1, 1}};
    usual.buckets().record_in(timeline);
    at_end.buckets().send_at_end();
    for (const int sent : {3, 3, 2, 1}) {
      usual.step();
      at_end.step();
      EXPECT_EQ(usual.sent_in_backward(), sent);
      EXPECT_EQ(at_end.sent_in_backward(), 0);
    }
    // The rank's name, a name for each of 3 + 2 + 1 buckets, and two events for each of 3 + 3 + 2 + 1 exchanges.
    EXPECT_EQ(timeline.chrome_trace(0)["traceEvents"].size(), 1U + 6U + 2U * 9U);
  });
}

TEST(TunedBuckets, GoOnFromARestoredState) {
  fakes::run_ranks(2, [](RankThread& rank) {
    const std::vector<int> seconds{9, 1, 5};
    for (const int stop : {2, 4, 6}) {
      TunedRank first{rank, seconds};
      const auto before = first.steps(stop);
      TunedRank second{rank, seconds};
      second.buckets().common_state().back().copy_(first.buckets().common_state().back());
      auto all = second.steps(7 - stop);
      all.insert(all.begin(), before.begin(), before.end());
      EXPECT_THAT(all, ElementsAre(3, 3, 2, 1, 2, 2, 2)) << "stopped after step " << stop;
      EXPECT_EQ(second.buckets().state().back().first, "autotune");
    }
  });
}

TEST(TunedBuckets, SayThatAPeerIsLostWhoseDecisionDoesNotCome) {
  fakes::run_ranks(2, [](RankThread& rank) {
    std::optional<TunedRank> tuned{std::in_place, rank, std::vector{1, 1, 1}};
    tuned->steps(3);
    if (rank.rank == 0) return;  // Its connections close with its group.
    tuned->buckets().zero();
    int waits = 0;
    const WaitForWork wait = [&](const c10::intrusive_ptr<c10d::Work>& work, std::string_view what) -> Result<void> {
      if (what != "the broadcast of the bucket size") return {};  // As if rank 0 had ended just before it.
      ++waits;
      return fakes::plain_wait(work, what);
    };
    const auto done = tuned->buckets().finish(wait, wait);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().kind, ErrorKind::unavailable);
  });
}

}  // namespace
}  // namespace trainyard::strategy
