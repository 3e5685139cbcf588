// Bagua's algorithms whose ranks have parameters of their own, each step of them against a simulation of all ranks in
// one place.
#include "worker/strategy/decentralized.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "include/trainyard/options.hpp"
#include "tests/worker/fakes/broken_group.hpp"
#include "tests/worker/fakes/plain_wait.hpp"
#include "tests/worker/fakes/rank_threads.hpp"
#include "tests/worker/strategy/told_optimizer.hpp"
#include "worker/strategy/byte_grad.hpp"
#include "worker/train/optimizers.hpp"

namespace trainyard::strategy {
namespace {

namespace own_model {

using fakes::plain_wait;
using fakes::RankThread;
using fakes::run_ranks;

constexpr std::int64_t elements = 3 * 4 + 5;
constexpr std::int64_t steps = 7;
constexpr double lr = 0.1;

torch::Tensor random(std::int64_t seed) {
  auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(seed));
  return torch::randn({elements}, generator);
}

torch::Tensor make_gradient(std::int64_t step, std::int64_t rank) {
  return random(100 * step + rank);
}

/// Parameters of shapes [3, 4] and [5], which differ between the ranks until they are synchronized.
NamedTensors make_parameters(std::int64_t rank) {
  const torch::Tensor flat = random(1000 + rank);
  return {{"a", flat.slice(0, 0, 12).view({3, 4}).clone().requires_grad_()},
          {"b", flat.slice(0, 12).clone().requires_grad_()}};
}

torch::Tensor flat_of(const NamedTensors& parameters) {
  return torch::cat({parameters[0].second.detach().flatten(), parameters[1].second.detach()});
}

using Make = std::function<std::unique_ptr<GradientSync>(PerRankModelParts)>;

PerRankModelParts parts_of(const NamedTensors& parameters, RankThread& rank, std::int64_t interval) {
  return {.parameters = parameters,
          .buffers = {},
          .process_group = rank.process_group,
          .communicator = *rank.communicator,
          .wait = plain_wait,
          .follow = plain_wait,
          .interval = interval};
}

struct Trained {
  std::vector<torch::Tensor> parameters;  // after each step
  std::uint64_t bytes = 0;
};

/// The parameters of each rank after each step of gradient descent.
std::vector<Trained> train(std::int64_t ranks, std::int64_t interval, const Make& make) {
  std::vector<Trained> all(static_cast<std::size_t>(ranks));
  run_ranks(ranks, [&](RankThread& rank) {
    const NamedTensors parameters = make_parameters(rank.rank);
    const auto sync = make(parts_of(parameters, rank, interval));
    const auto optimizer = sync->adapt(train::make_optimizer({.name = "sgd", .lr = lr}, parameters));
    EXPECT_TRUE(sync->synchronize_model());
    Trained& trained = all[static_cast<std::size_t>(rank.rank)];
    for (std::int64_t step = 0; step < steps; ++step) {
      sync->zero_gradients();
      sync->begin_backward(/*is_last_batch=*/true);
      const torch::Tensor gradient = make_gradient(step, rank.rank);
      ((parameters[0].second.flatten() * gradient.slice(0, 0, 12)).sum() +
       (parameters[1].second * gradient.slice(0, 12)).sum())
          .backward();
      const torch::Tensor before = flat_of(parameters);
      EXPECT_TRUE(sync->finish_gradients());
      // Until the optimizer's step a checkpoint may still be copied from the parameters.
      EXPECT_TRUE(torch::equal(flat_of(parameters), before));
      optimizer->step();
      EXPECT_TRUE(sync->after_update());
      trained.parameters.push_back(flat_of(parameters));
    }
    trained.bytes = sync->exchanged_bytes();
  });
  return all;
}

/// The parameters of each rank after each step, by step and rank.
using Simulated = std::vector<std::vector<torch::Tensor>>;

Simulated simulate_decentralized(std::int64_t ranks, std::int64_t interval, PeerSelection selection) {
  std::vector<torch::Tensor> x(static_cast<std::size_t>(ranks), random(1000));
  Simulated found;
  std::int64_t exchange = 0;
  for (std::int64_t step = 0; step < steps; ++step) {
    std::vector<torch::Tensor> next = x;
    if (step % interval == 0) {
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        torch::Tensor sum = torch::zeros({elements});
        if (selection == PeerSelection::all) {
          for (const torch::Tensor& of : x) sum += of;
          next[static_cast<std::size_t>(rank)] = sum / static_cast<double>(ranks);
        } else {
          const std::int64_t peer = shift_one_peer(rank, ranks, exchange);
          next[static_cast<std::size_t>(rank)] =
              (x[static_cast<std::size_t>(rank)] + x[static_cast<std::size_t>(peer)]) / 2;
        }
      }
      ++exchange;
    }
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      torch::Tensor& of = next[static_cast<std::size_t>(rank)];
      of = of - lr * make_gradient(step, rank);
    }
    x = next;
    found.push_back(x);
  }
  return found;
}

Simulated simulate_low_precision(std::int64_t ranks, std::int64_t interval) {
  struct Rank {
    torch::Tensor x = random(1000), own = random(1000), left = random(1000), right = random(1000);
    torch::Tensor change;
  };
  std::vector<Rank> all(static_cast<std::size_t>(ranks));
  Simulated found;
  for (std::int64_t step = 0; step < steps; ++step) {
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      Rank& of = all[static_cast<std::size_t>(rank)];
      of.x = of.x - lr * make_gradient(step, rank);
      const torch::Tensor d = of.x + of.left / 3.0 + of.right / 3.0 - of.own * (5.0 / 3.0);
      of.change = decompress(compress(d.view({1, -1})), elements)[0];
    }
    std::vector<torch::Tensor> x;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      Rank& of = all[static_cast<std::size_t>(rank)];
      if (step % interval == 0) {
        of.left = of.left + all[static_cast<std::size_t>((rank + ranks - 1) % ranks)].change;
        of.right = of.right + all[static_cast<std::size_t>((rank + 1) % ranks)].change;
        of.own = of.own + of.change;
        of.x = of.own;
      }
      x.push_back(of.x);
    }
    found.push_back(x);
  }
  return found;
}

void expect_equal(const std::vector<Trained>& trained, const Simulated& simulated) {
  for (std::size_t step = 0; step < simulated.size(); ++step) {
    for (std::size_t rank = 0; rank < trained.size(); ++rank) {
      // The order in which a sum is made may change its last bits, and with them a byte of a number between two bytes.
      EXPECT_TRUE(torch::allclose(trained[rank].parameters[step], simulated[step][rank], 0.0, 1e-5))
          << trained.size() << " ranks, step " << step << ", rank " << rank << ", "
          << (trained[rank].parameters[step] - simulated[step][rank]).abs().max().item<float>();
    }
  }
}

TEST(Decentralized, IsItsFormulaOnTwoToFourRanks) {
  struct Case {
    std::int64_t ranks, interval, exchanges;
    PeerSelection selection;
  };
  for (const auto& [ranks, interval, exchanges, selection] :
       {Case{2, 1, 7, PeerSelection::all}, Case{3, 3, 3, PeerSelection::all}, Case{4, 2, 4, PeerSelection::all},
        Case{2, 1, 7, PeerSelection::shift_one}, Case{4, 1, 7, PeerSelection::shift_one},
        Case{4, 2, 4, PeerSelection::shift_one}}) {
    const auto trained = train(ranks, interval, [selection = selection](PerRankModelParts parts) {
      return make_decentralized(std::move(parts), selection);
    });
    expect_equal(trained, simulate_decentralized(ranks, interval, selection));
    for (const Trained& of : trained) EXPECT_EQ(of.bytes, static_cast<std::uint64_t>(4 * elements * exchanges));
    EXPECT_FALSE(torch::equal(trained[0].parameters.back(), trained[1].parameters.back()));
  }
}

TEST(LowPrecisionDecentralized, IsItsFormulaOnTwoToFourRanks) {
  for (const auto& [ranks, interval] : std::vector<std::pair<std::int64_t, std::int64_t>>{{2, 1}, {3, 2}, {4, 1}}) {
    const auto trained = train(ranks, interval, make_low_precision_decentralized);
    expect_equal(trained, simulate_low_precision(ranks, interval));
    const std::int64_t exchanges = (steps + interval - 1) / interval, neighbours = ranks == 2 ? 1 : 2;
    for (const Trained& of : trained)
      EXPECT_EQ(of.bytes, static_cast<std::uint64_t>(exchanges * neighbours * compressed_bytes(elements)));
  }
}

TEST(LowPrecisionDecentralized, BeginsItsReplicasAnewAfterAChangeOfTheNumberOfRanks) {
  for (const std::int64_t ranks_before : {0, 2, 3}) {
    run_ranks(2, [ranks_before](RankThread& rank) {
      const NamedTensors parameters = make_parameters(rank.rank);
      const auto sync = make_low_precision_decentralized(parts_of(parameters, rank, 1));
      EXPECT_TRUE(sync->synchronize_model());
      const torch::Tensor common = flat_of(parameters);
      sync->before_save();
      for (auto& [name, tensor] : sync->state()) {
        if (name == "ranks") tensor.fill_(ranks_before);
        if (name == "parameter.b" || name.starts_with("replica")) tensor.fill_(9.0);
      }
      EXPECT_TRUE(sync->after_restore());
      const bool is_resumed = ranks_before == 2;
      EXPECT_EQ(parameters[1].second.detach().eq(9.0).all().item<bool>(), is_resumed);
      for (const auto& [name, tensor] : sync->state()) {
        if (!name.starts_with("replica")) continue;
        EXPECT_TRUE(torch::equal(tensor, is_resumed ? torch::full_like(tensor, 9.0) : common)) << name;
      }
    });
  }
}

TEST(ShiftOne, PairsEachRankOfOneHalfWithEachOfTheOtherInTurn) {
  for (const std::int64_t ranks : {2, 4, 6, 8}) {
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      std::set<std::int64_t> met;
      for (std::int64_t exchange = 0; exchange < ranks / 2; ++exchange) {
        const std::int64_t peer = shift_one_peer(rank, ranks, exchange);
        EXPECT_NE(peer < ranks / 2, rank < ranks / 2);
        EXPECT_EQ(shift_one_peer(peer, ranks, exchange), rank);
        met.insert(peer);
      }
      EXPECT_EQ(met.size(), static_cast<std::size_t>(ranks / 2));
    }
  }
}

TEST(ShiftOne, RefusesAnOddNumberOfRanks) {
  run_ranks(3, [](RankThread& rank) {
    EXPECT_THROW(std::ignore = make_decentralized(parts_of(make_parameters(0), rank, 1), PeerSelection::shift_one),
                 InvalidJob);
  });
}

TEST(Decentralized, HandsAllCallsOnToTheModelsOptimizer) {
  run_ranks(2, [](RankThread& rank) {
    const auto sync = make_decentralized(parts_of(make_parameters(rank.rank), rank, 1), PeerSelection::all);
    expect_hands_on([&](std::unique_ptr<Optimizer> optimizer) { return sync->adapt(std::move(optimizer)); });
  });
}

TEST(Decentralized, NamesTheExchangeThatAPeerDoesNotFinish) {
  run_ranks(2, [](RankThread& rank) {
    const NamedTensors parameters = make_parameters(rank.rank);
    PerRankModelParts parts = parts_of(parameters, rank, 1);
    parts.follow = [](const c10::intrusive_ptr<c10d::Work>& work, std::string_view what) -> Result<void> {
      work->wait();
      return fail(ErrorKind::cancelled, std::string{what} + " was given up");
    };
    const auto sync = make_decentralized(std::move(parts), PeerSelection::all);
    sync->zero_gradients();
    const auto done = sync->finish_gradients();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().kind, ErrorKind::cancelled);
    EXPECT_EQ(done.error().message, "the exchange of the parameters was given up");
  });
}

TEST(Decentralized, ReturnsWhyItsExchangeCouldNotStart) {
  run_ranks(2, [](RankThread& rank) {
    PerRankModelParts parts = parts_of(make_parameters(rank.rank), rank, 1);
    parts.process_group =
        c10::make_intrusive<fakes::BrokenGroup>(std::make_exception_ptr(std::runtime_error{"a peer is lost"}));
    const auto sync = make_decentralized(std::move(parts), PeerSelection::all);
    sync->zero_gradients();
    const auto done = sync->finish_gradients();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().kind, ErrorKind::unavailable);
    EXPECT_EQ(done.error().message, "the exchange of the parameters: a peer is lost");
  });
}

}  // namespace own_model
}  // namespace
}  // namespace trainyard::strategy
