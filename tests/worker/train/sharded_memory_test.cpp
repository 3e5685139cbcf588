// The memory of a rank whose strategy is sharded. All tensors of this test's process are counted.
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "tests/worker/fakes/plain_wait.hpp"
#include "tests/worker/fakes/rank_threads.hpp"
#include "worker/strategy/ddp.hpp"
#include "worker/strategy/sharded.hpp"
#include "worker/train/named_tensors.hpp"
#include "worker/train/optimizers.hpp"

namespace trainyard::train {
namespace {

/// The bytes of the tensors that one rank has allocated, whichever thread frees them.
class Gauge {
 public:
  void add(std::int64_t bytes) {
    const std::scoped_lock lock{mutex_};
    now_ += bytes;
    peak_ = std::max(peak_, now_);
  }
  [[nodiscard]] std::int64_t peak() const {
    const std::scoped_lock lock{mutex_};
    return peak_;
  }
  [[nodiscard]] std::int64_t now() const {
    const std::scoped_lock lock{mutex_};
    return now_;
  }
  /// The peak from now on.
  void restart() {
    const std::scoped_lock lock{mutex_};
    peak_ = now_;
  }

 private:
  mutable std::mutex mutex_;  // guards all below
  std::int64_t now_ = 0;
  std::int64_t peak_ = 0;
};

thread_local std::shared_ptr<Gauge> gauge_of_thread;

/// The bytes that the rank holds, as soon as they are at most `bytes`, or after 10 s. Gloo's thread frees the tensors
/// of a collective a moment after the rank has been told of its end.
double now_or_soon_at_most(double bytes) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{10};
  while (static_cast<double>(gauge_of_thread->now()) > bytes && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  return static_cast<double>(gauge_of_thread->now());
}

/// The host's allocator, which tells the gauge of the thread that allocates.
class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    if (gauge_of_thread == nullptr) return inner_.allocate(bytes);
    auto held = std::make_unique<Held>(
        Held{.memory = inner_.allocate(bytes), .gauge = gauge_of_thread, .bytes = static_cast<std::int64_t>(bytes)});
    held->gauge->add(held->bytes);
    void* const data = held->memory.get();
    return {data, held.release(), &free, c10::Device{c10::DeviceType::CPU}};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { inner_.copy_data(to, from, bytes); }

 private:
  struct Held {
    c10::DataPtr memory;
    std::shared_ptr<Gauge> gauge;
    std::int64_t bytes = 0;
  };

  static void free(void* context) {
    const std::unique_ptr<Held> held{static_cast<Held*>(context)};
    held->gauge->add(-held->bytes);
  }

  c10::Allocator& inner_ = *c10::GetDefaultCPUAllocator();
};

void count_tensors() {
  static CountingAllocator allocator;
  c10::SetCPUAllocator(&allocator, /*priority=*/100);
}

struct Layers : torch::nn::Module {
  Layers(std::int64_t count, std::int64_t width) {
    for (std::int64_t layer = 0; layer < count; ++layer)
      lines.push_back(register_module(fmt::format("line{}", layer), torch::nn::Linear{width, width}));
  }
  torch::Tensor loss(torch::Tensor values) {
    for (auto& line : lines) values = torch::relu(line(values));
    return values.sum();
  }
  std::vector<torch::nn::Linear> lines;
};

constexpr std::int64_t layer_count = 16;
const strategy::DdpOptions one_layer_a_bucket{.limits = {.first_bytes = 1, .bytes = 1}};

/// Trains on the calling rank's thread. Returns the peak of its tensors' bytes.
std::int64_t peak_of_training(Layers& model, strategy::GradientSync& exchange, Optimizer& optimizer) {
  for (int step = 0; step < 2; ++step) {
    exchange.zero_gradients();
    const torch::Tensor loss = [&] {
      const strategy::ForwardScope scope{exchange};
      return model.loss(torch::ones({1, model.lines.front()->weight.size(1)}));
    }();
    {
      const strategy::BackwardScope scope{exchange, /*is_last_batch=*/true};
      loss.backward();
    }
    EXPECT_TRUE(exchange.finish_gradients().has_value());
    optimizer.step();
    EXPECT_TRUE(exchange.after_update().has_value());
  }
  return gauge_of_thread->peak();
}

/// The greatest peak of a rank, and the bytes that the formula gives for that rank.
struct Measured {
  std::int64_t peak_bytes = 0;
  strategy::ShardedMemory formula;
};

Measured measure(std::int64_t world_size, std::int64_t width, bool is_sharded) {
  count_tensors();
  std::vector<Measured> of_ranks(static_cast<std::size_t>(world_size));
  fakes::run_ranks(world_size, [&](fakes::RankThread& rank) {
    gauge_of_thread = std::make_shared<Gauge>();
    Measured& measured = of_ranks[static_cast<std::size_t>(rank.rank)];
    Layers model{layer_count, width};
    const NamedTensors parameters = named_parameters(model);
    if (is_sharded) {
      strategy::Sharded exchange{parameters,        {}, rank.process_group, *rank.communicator, fakes::plain_wait,
                                 one_layer_a_bucket};
      const auto optimizer = exchange.adapt(make_optimizer({.name = "adam"}, parameters));
      measured = {.peak_bytes = peak_of_training(model, exchange, *optimizer), .formula = exchange.memory(*optimizer)};
    } else {
      strategy::Ddp exchange{parameters,        {}, rank.process_group, *rank.communicator, fakes::plain_wait,
                             one_layer_a_bucket};
      const auto optimizer = exchange.adapt(make_optimizer({.name = "adam"}, parameters));
      measured.peak_bytes = peak_of_training(model, exchange, *optimizer);
    }
  });
  return std::ranges::max(of_ranks, {}, &Measured::peak_bytes);
}

TEST(ShardedTraining, TakesTheMemoryOfTheFormulaAndAtMostATenthMore) {
  constexpr std::int64_t width_of_50_mb = 912;
  for (const auto& [world_size, width] :
       {std::pair{2, 256}, std::pair{4, 256}, std::pair<int, int>{2, width_of_50_mb}}) {
    const Measured measured = measure(world_size, width, /*is_sharded=*/true);
    const auto parameters = static_cast<double>(measured.formula.parameter_bytes);
    const auto total = static_cast<double>(measured.formula.total());
    EXPECT_NEAR(static_cast<double>(measured.formula.gradient_bytes), parameters / world_size, 8.0 * width);
    EXPECT_NEAR(static_cast<double>(measured.formula.state_bytes), 2 * parameters / world_size, 16.0 * width);
    EXPECT_LE(static_cast<double>(measured.peak_bytes), 1.1 * total) << world_size << " ranks";
    EXPECT_GE(static_cast<double>(measured.peak_bytes), 0.8 * total) << "tensors are counted";
    RecordProperty(fmt::format("peak_over_formula_{}_ranks_width_{}", world_size, width),
                   fmt::format("{} / {}", measured.peak_bytes, measured.formula.total()));
  }
}

TEST(ShardedTraining, TakesAboutHalfOfTheMemoryOfDdpOnFourRanks) {
  const auto whole = measure(4, 256, /*is_sharded=*/false).peak_bytes;
  const auto sharded = measure(4, 256, /*is_sharded=*/true).peak_bytes;
  // Parameters, gradients and two states are 4 P. Here they are 1.75 P, and three buckets.
  EXPECT_LT(static_cast<double>(sharded), 0.55 * static_cast<double>(whole));
  RecordProperty("ddp", fmt::format("{}", whole));
  RecordProperty("sharded", fmt::format("{}", sharded));
}

TEST(ShardedTraining, CountsTheMemoryOfParametersThatAreNotTrained) {
  fakes::run_ranks(2, [](fakes::RankThread& rank) {
    Layers model{/*count=*/2, /*width=*/4};
    model.lines.front()->weight.set_requires_grad(false);
    const NamedTensors parameters = named_parameters(model);
    strategy::Sharded exchange{parameters, {}, rank.process_group, *rank.communicator, fakes::plain_wait};
    const auto optimizer = exchange.adapt(make_optimizer({.name = "adam"}, parameters));
    EXPECT_EQ(exchange.memory(*optimizer).parameter_bytes, 2 * (4 * 4 + 4) * 4);
  });
}

TEST(ShardedTraining, FreesParametersInPartsBeforeTheOptimizersStateIsMade) {
  count_tensors();
  constexpr std::int64_t world_size = 4;
  fakes::run_ranks(world_size, [&](fakes::RankThread& rank) {
    gauge_of_thread = std::make_shared<Gauge>();
    Layers model{layer_count, 256};
    const auto whole = static_cast<double>(gauge_of_thread->now());
    const NamedTensors parameters = named_parameters(model);
    strategy::DdpOptions options = one_layer_a_bucket;
    options.shards_parameters = true;
    strategy::Sharded exchange{parameters, {}, rank.process_group, *rank.communicator, fakes::plain_wait, options};
    const auto optimizer = exchange.adapt(make_optimizer({.name = "adam"}, parameters));
    gauge_of_thread->restart();
    ASSERT_TRUE(exchange.synchronize_model().has_value());
    EXPECT_FALSE(optimizer->state().empty());
    // The parameters, this rank's rows, and a message with the parameters of rank 0. The state is half as large here.
    EXPECT_LE(static_cast<double>(gauge_of_thread->peak()), 1.05 * whole * (2.0 + 1.0 / world_size));
  });
}

TEST(ShardedTraining, KeepsTheRowsOfParametersBetweenStepsAndAFewBucketsWithinThem) {
  count_tensors();
  for (const std::int64_t world_size : {2, 4}) {
    fakes::run_ranks(world_size, [&](fakes::RankThread& rank) {
      gauge_of_thread = std::make_shared<Gauge>();
      Layers model{layer_count, 256};
      const NamedTensors parameters = named_parameters(model);
      strategy::DdpOptions options = one_layer_a_bucket;
      options.shards_parameters = true;
      strategy::Sharded exchange{parameters, {}, rank.process_group, *rank.communicator, fakes::plain_wait, options};
      const auto optimizer = exchange.adapt(make_optimizer({.name = "adam"}, parameters));
      const strategy::ShardedMemory formula = exchange.memory(*optimizer);
      ASSERT_TRUE(exchange.synchronize_model().has_value());
      const auto kept = static_cast<double>(formula.parameter_bytes + formula.state_bytes);
      EXPECT_NEAR(now_or_soon_at_most(1.02 * kept), kept, 0.02 * kept);
      gauge_of_thread->restart();
      const auto peak = static_cast<double>(peak_of_training(model, exchange, *optimizer));
      exchange.zero_gradients();
      EXPECT_NEAR(now_or_soon_at_most(1.02 * kept), kept, 0.02 * kept);
      const auto total = static_cast<double>(formula.total());
      EXPECT_LE(peak, 1.1 * total) << world_size << " ranks";
      EXPECT_GE(peak, 0.8 * total) << "tensors are counted";
      RecordProperty(fmt::format("parts_{}_of_{}", rank.rank, world_size),
                     fmt::format("{} / {}", peak, formula.total()));
    });
  }
}

}  // namespace
}  // namespace trainyard::train
