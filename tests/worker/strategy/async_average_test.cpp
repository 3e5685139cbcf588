// Bagua's asynchronous model average. Its rounds wait for a training thread that meets their demands between steps, so
// that the tests decide at which steps a round takes and gives parameters.
#include "worker/strategy/async_average.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <latch>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "common/try.hpp"
#include "include/trainyard/options.hpp"
#include "tests/worker/fakes/fake_rank_link.hpp"
#include "tests/worker/fakes/plain_wait.hpp"
#include "tests/worker/fakes/rank_threads.hpp"
#include "tests/worker/strategy/train_by_ddp.hpp"
#include "worker/dist/wait_or_fail.hpp"
#include "worker/strategy/snapshot_sum.hpp"
#include "worker/strategy/strategies.hpp"
#include "worker/train/optimizers.hpp"

namespace trainyard::strategy {
namespace {

namespace async {

using fakes::RankThread;
using fakes::run_ranks;
using namespace std::chrono_literals;

constexpr double lr = 0.1;

/// A rank that trains numbers of 64 bits, all alike, whose gradient in every step is a number of the rank. No multiples
/// of two ranks' numbers are equal, so that the ranks' parameters differ after any number of steps.
class Rank {
 public:
  Rank(RankThread& thread, AsyncOptions options, WaitForWork wait = fakes::plain_wait)
      : parameters_{{"a", torch::full({2, 2}, 1.0, torch::kDouble).requires_grad_()},
                    {"b", torch::full({3}, 1.0, torch::kDouble).requires_grad_()}},
        gradient_{std::sqrt(2.0 + static_cast<double>(thread.rank))} {
    if (!options.reducer) options.reducer = std::move(thread.averaging_reducer);
    sync_ = make_async_average({.parameters = parameters_,
                                .buffers = {},
                                .process_group = thread.process_group,
                                .communicator = *thread.communicator,
                                .wait = wait,
                                .follow = wait},
                               std::move(options));
    optimizer_ = sync_->adapt(train::make_optimizer({.name = "sgd", .lr = lr}, parameters_));
  }

  /// A step. `in_passes` is called between the forward pass and the optimizer's step.
  Result<void> step(const std::function<void()>& in_passes = [] {}) {
    sync_->zero_gradients();
    sync_->begin_backward(/*is_last_batch=*/true);
    ((parameters_[0].second.sum() + parameters_[1].second.sum()) * gradient_).backward();
    in_passes();
    TRY(sync_->finish_gradients());
    optimizer_->step();
    return sync_->after_update();
  }
  GradientSync& sync() { return *sync_; }
  [[nodiscard]] double value() const { return parameters_[1].second[0].item<double>(); }
  [[nodiscard]] double gradient() const { return gradient_; }

 private:
  NamedTensors parameters_;
  double gradient_;
  std::unique_ptr<GradientSync> sync_;
  std::unique_ptr<Optimizer> optimizer_;
};

/// A reducer that counts its calls and keeps the first number of the first sum.
class WatchedReducer final : public dist::HostReducer {
 public:
  explicit WatchedReducer(std::unique_ptr<dist::HostReducer> reducer) : reducer_{std::move(reducer)} {}
  [[nodiscard]] std::int64_t world_size() const override { return reducer_->world_size(); }
  [[nodiscard]] Result<void> sum(const at::Tensor& tensor) override {
    if (before_sum) TRY(before_sum());
    const auto snapshot = tensor[0].item<double>();
    TRY(reducer_->sum(tensor));
    if (sums == 0) first_round_ = {snapshot, tensor[0].item<double>()};
    ++sums;
    return {};
  }
  [[nodiscard]] Result<bool> any(bool mine) override {
    const bool found = TRY(reducer_->any(mine));
    ++agreements;
    agreements.notify_all();
    return found;
  }
  /// The rank's snapshot, and the sum of those of all ranks. To be called once the training has taken the sum.
  [[nodiscard]] std::pair<double, double> first_round() const { return first_round_; }

  std::function<Result<void>()> before_sum;  ///< Not set: nothing.
  std::atomic<std::int64_t> sums = 0;
  std::atomic<std::int64_t> agreements = 0;

 private:
  std::unique_ptr<dist::HostReducer> reducer_;
  std::pair<double, double> first_round_;
};

/// Options of rounds without a pause between them, by a watched reducer.
AsyncOptions watched(RankThread& thread, WatchedReducer*& reducer) {
  auto made = std::make_unique<WatchedReducer>(std::move(thread.averaging_reducer));
  reducer = made.get();
  return {.reducer = std::move(made), .sync_interval = 0ms};
}

void wait_until(const std::atomic<std::int64_t>& number, std::int64_t count) {
  for (std::int64_t seen = number; seen < count; seen = number) number.wait(seen);
}

TEST(SnapshotSum, ChangesParametersByWhatTheMeanHasMoreThanTheSnapshot) {
  run_ranks(3, [](RankThread& rank) {
    for (const auto type : {torch::kFloat, torch::kBFloat16}) {
      const double mine = 1.0 + static_cast<double>(rank.rank);
      const torch::Tensor parameter = torch::full({4}, mine, type);
      FlatParameters snapshot{{parameter}, torch::kFloat};
      SnapshotSum snapshots{snapshot, FlatParameters{{parameter}, torch::kFloat}};
      for (int round = 0; round < 2; ++round) {
        snapshots.take_snapshot();
        parameter.add_(0.5 * mine);  // steps that the rank makes meanwhile
        EXPECT_TRUE(snapshots.sum(*rank.averaging_reducer));
        snapshots.change_parameters(3);
        // The mean of the first round is 2, and that of the second is 3.
        EXPECT_TRUE(torch::equal(parameter, torch::full({4}, (2.0 + round) + 0.5 * mine, type))) << parameter;
      }
    }
  });
}

/// The values of `mine` of all ranks, added up.
double sum_over_ranks(RankThread& thread, double mine) {
  double sum = 0.0;
  const auto texts = *thread.communicator->all_gather(fmt::format("{}", mine));
  for (const std::string& text : texts) sum += std::stod(text);
  return sum;
}

TEST(AsyncAverage, ChangesTheParametersByEachRoundAsOneProcessWouldCompute) {
  for (const std::int64_t ranks : {2, 4}) {
    run_ranks(ranks, [ranks](RankThread& thread) {
      WatchedReducer* reducer = nullptr;
      Rank rank{thread, watched(thread, reducer)};
      double own = 1.0;
      const auto take_step = [&] {
        EXPECT_TRUE(rank.step());
        own -= lr * rank.gradient();
      };
      take_step();
      // The first round may come to any step. It changes the parameters where they are no longer those of the steps.
      while (std::abs(rank.value() - own) < 1e-9) take_step();
      const auto [snapshot, sum] = reducer->first_round();
      EXPECT_NEAR(rank.value(), own + sum / static_cast<double>(ranks) - snapshot, 1e-9);
      EXPECT_GT(rank.sync().exchanged_bytes(), 0U);
      // A round adds to one rank what it takes from the others, so that the mean stays that of the ranks' own steps.
      EXPECT_TRUE(rank.sync().hold_parameters());
      EXPECT_NEAR(rank.value(), sum_over_ranks(thread, own) / static_cast<double>(ranks), 1e-9);
    });
  }
}

TEST(AsyncAverage, LetsARoundWaitForTheEndOfAStepsPasses) {
  run_ranks(2, [](RankThread& thread) {
    WatchedReducer* reducer = nullptr;
    Rank rank{thread, watched(thread, reducer)};
    EXPECT_TRUE(rank.step());
    const double before = rank.value();
    EXPECT_TRUE(rank.step([&] {
      wait_until(reducer->agreements, 1);  // The ranks have agreed on the round.
      EXPECT_EQ(reducer->sums, 0);
      EXPECT_EQ(rank.value(), before);
    }));
    EXPECT_TRUE(rank.sync().hold_parameters());
  });
}

TEST(AsyncAverage, EndsItsRoundsOnAllRanksAtOneAgreementHoweverLateARankWantsIt) {
  run_ranks(3, [](RankThread& thread) {
    WatchedReducer* reducer = nullptr;
    Rank rank{thread, watched(thread, reducer)};
    double own = 0.0;
    for (int session = 0; session < 3; ++session) {
      const double begin = rank.value();
      const std::int64_t steps = 1 + 50 * ((thread.rank + session) % 3);
      for (std::int64_t step = 0; step < steps; ++step) EXPECT_TRUE(rank.step());
      EXPECT_TRUE(rank.sync().hold_parameters());
      own = static_cast<double>(steps) * -lr * rank.gradient();
      EXPECT_NEAR(rank.value(), begin + sum_over_ranks(thread, own) / 3, 1e-9);
      const std::uint64_t bytes = rank.sync().exchanged_bytes();
      EXPECT_TRUE(rank.sync().hold_parameters());
      EXPECT_EQ(rank.sync().exchanged_bytes(), bytes) << "they are held already";
      // To the bit.
      const std::string value = fmt::format("{}", rank.value());
      EXPECT_EQ(*thread.communicator->all_gather(value), std::vector<std::string>(3, value));
      const std::string agreements = fmt::format("{}", reducer->agreements.load());
      EXPECT_EQ(*thread.communicator->all_gather(agreements), std::vector<std::string>(3, agreements));
    }
  });
}

TEST(AsyncAverage, ReturnsTheErrorOfARoundFromTheNextCallOnEachRank) {
  run_ranks(2, [](RankThread& thread) {
    WatchedReducer* reducer = nullptr;
    AsyncOptions options = watched(thread, reducer);
    if (thread.rank == 0) reducer->before_sum = [] { return fail(ErrorKind::timeout, "the sum was not done"); };
    Rank rank{thread, std::move(options)};
    Result<void> done = rank.step();
    while (done) done = rank.step();
    // The second rank waits for the first, which leaves.
    EXPECT_EQ(done.error().message, thread.rank == 0 ? "the sum was not done" : "a peer is lost");
    EXPECT_EQ(rank.sync().hold_parameters().error().message, done.error().message);
  });
}

TEST(AsyncAverage, ThrowsOnTheTrainingThreadWhatTheRoundsThreadThrew) {
  run_ranks(2, [](RankThread& thread) {
    WatchedReducer* reducer = nullptr;
    AsyncOptions options = watched(thread, reducer);
    reducer->before_sum = []() -> Result<void> { throw std::runtime_error{"the device has failed"}; };
    Rank rank{thread, std::move(options)};
    EXPECT_THROW(while (rank.step()){}, std::runtime_error);
  });
}

TEST(AsyncAverage, WaitsForTheEndOfTheRoundsWithBeatsAndNotLongerThanTheGroupLasts) {
  std::latch is_given_up{2};
  run_ranks(2, [&is_given_up](RankThread& thread) {
    fakes::FakeRankLink link;
    const WaitForWork wait = [&link](const c10::intrusive_ptr<c10d::Work>& work, std::string_view what) {
      return dist::wait_or_fail(work, link, std::nullopt, what);
    };
    Rank rank{thread, {.sync_interval = 1h}, wait};
    EXPECT_TRUE(rank.step());
    if (thread.rank == 0) {
      std::jthread launcher{[&link] {
        link.wait_for_looks(3);
        link.break_group({.exit_code = 90, .reason = "PeerLost", .message = "rank 1 is lost", .culprit = 1});
      }};
      const auto held = rank.sync().hold_parameters();
      ASSERT_FALSE(held);
      EXPECT_EQ(held.error().kind, ErrorKind::cancelled);
      EXPECT_EQ(held.error().message, "the end of the rounds that average the parameters was given up: rank 1 is lost");
      EXPECT_GT(link.beats(), 0);
    }
    is_given_up.arrive_and_wait();
  });
}

TEST(AsyncAverage, TrainsAsDdpInItsWarmUpAndByEachRanksOwnGradientsThen) {
  constexpr std::int64_t warmup_steps = 4;
  // The ranks' threads share one generator of random numbers.
  const std::vector both{make_tiny_model(0), make_tiny_model(1)},
      expected_of_both{make_tiny_model(0), make_tiny_model(1)};
  run_ranks(2, [&](RankThread& thread) {
    const auto &expected = expected_of_both[static_cast<std::size_t>(thread.rank)],
               &model = both[static_cast<std::size_t>(thread.rank)];
    Ddp ddp = make_ddp(*expected, thread);
    const auto sync = make_async_average({.parameters = parameters_of(*model),
                                          .buffers = buffers_of(*model),
                                          .process_group = thread.process_group,
                                          .communicator = *thread.communicator,
                                          .wait = plain_wait,
                                          .follow = plain_wait},
                                         {.reducer = std::move(thread.averaging_reducer),
                                          .sync_interval = 1h,
                                          .warmup_steps = warmup_steps,
                                          .limits = small_limits});
    EXPECT_TRUE(ddp.synchronize_model());
    EXPECT_TRUE(sync->synchronize_model());
    const auto is_equal = [&] {
      for (std::size_t index = 0; index < model->parameters().size(); ++index) {
        if (!torch::equal(model->parameters()[index], expected->parameters()[index])) return false;
      }
      return true;
    };
    for (std::int64_t step = 0; step <= warmup_steps; ++step) {
      const TinyBatch batch = make_tiny_batch(step, thread.rank);
      train_step(ddp, *expected, batch);
      train_step(*sync, *model, batch);
      EXPECT_TRUE(sync->after_update());
      EXPECT_EQ(is_equal(), step < warmup_steps) << step;
      EXPECT_GT(sync->exchanged_bytes(), 0U);
    }
    const std::uint64_t bytes = sync->exchanged_bytes();
    EXPECT_TRUE(sync->hold_parameters());
    EXPECT_GT(sync->exchanged_bytes(), bytes);
  });
}

TEST(AsyncAverage, RefusesASecondOptimizer) {
  run_ranks(2, [](RankThread& thread) {
    dist::Group group{.rank = thread.rank,
                      .world_size = thread.world_size,
                      .store = {},
                      .process_group = thread.process_group,
                      .communicator = std::move(thread.communicator),
                      .checkpoint_communicator = {},
                      .averaging_reducer = std::move(thread.averaging_reducer)};
    const api::StrategySpec spec{.name = api::StrategyName::bagua, .algorithm = api::BaguaAlgorithm::async};
    const torch::Tensor parameter = torch::ones({2}).requires_grad_();
    const auto sync = make_gradient_sync({{"a", parameter}}, {}, group, plain_wait, {}, spec);
    EXPECT_FALSE(sync->keeps_parameters_equal());
    EXPECT_THROW(std::ignore = make_gradient_sync({{"a", parameter}}, {}, group, plain_wait, {}, spec), InvalidJob);
  });
}

}  // namespace async
}  // namespace
}  // namespace trainyard::strategy
