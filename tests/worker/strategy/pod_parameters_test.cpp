// Bagua's decentralized algorithms among the first ranks of pods, against a simulation of all ranks in one place.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "include/trainyard/options.hpp"
#include "tests/worker/fakes/plain_wait.hpp"
#include "tests/worker/fakes/pod_threads.hpp"
#include "worker/strategy/byte_grad.hpp"
#include "worker/strategy/decentralized.hpp"
#include "worker/train/optimizers.hpp"

namespace trainyard::strategy {
namespace {

namespace parameters_by_pod {

using fakes::make_pods;
using fakes::plain_wait;
using fakes::RankThread;
using fakes::run_ranks;

using Sizes = std::vector<std::int64_t>;

constexpr std::int64_t elements = 17;
constexpr std::int64_t steps = 7;
constexpr double lr = 0.1;

torch::Tensor random(std::int64_t seed) {
  auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(seed));
  return torch::randn({elements}, generator);
}

torch::Tensor make_gradient(std::int64_t step, std::size_t rank) {
  return random(100 * step + static_cast<std::int64_t>(rank));
}

std::int64_t ranks_of(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
}

/// With which ranks `decentralized` takes a mean; not set: the algorithm is lowPrecisionDecentralized.
using Selection = std::optional<PeerSelection>;

std::unique_ptr<GradientSync> make(const NamedTensors& parameters, RankThread& rank, const Sizes& sizes,
                                   Selection selection, std::int64_t interval = 1, WaitForWork follow = plain_wait) {
  PerRankModelParts parts{.parameters = parameters,
                          .buffers = {},
                          .process_group = rank.process_group,
                          .communicator = *rank.communicator,
                          .wait = plain_wait,
                          .follow = std::move(follow),
                          .interval = interval,
                          .pods = make_pods(rank, sizes)};
  return selection ? make_decentralized(std::move(parts), *selection)
                   : make_low_precision_decentralized(std::move(parts));
}

struct Trained {
  std::vector<torch::Tensor> parameters;  // after each step
  std::uint64_t bytes = 0;
};

std::vector<Trained> train(const Sizes& sizes, Selection selection, std::int64_t interval) {
  std::vector<Trained> all(static_cast<std::size_t>(ranks_of(sizes)));
  run_ranks(ranks_of(sizes), [&](RankThread& rank) {
    const torch::Tensor parameter = random(1000 + rank.rank).requires_grad_();
    const auto sync = make({{"p", parameter}}, rank, sizes, selection, interval);
    const auto optimizer = sync->adapt(train::make_optimizer({.name = "sgd", .lr = lr}, {{"p", parameter}}));
    EXPECT_TRUE(sync->synchronize_model());
    Trained& trained = all[static_cast<std::size_t>(rank.rank)];
    for (std::int64_t step = 0; step < steps; ++step) {
      sync->zero_gradients();
      // A step of two batches.
      sync->begin_backward(/*is_last_batch=*/false);
      sync->begin_backward(/*is_last_batch=*/true);
      (parameter * make_gradient(step, static_cast<std::size_t>(rank.rank))).sum().backward();
      const torch::Tensor before = parameter.detach().clone();
      EXPECT_TRUE(sync->finish_gradients());
      // Until the optimizer's step a checkpoint may still be copied from the parameters.
      EXPECT_TRUE(torch::equal(parameter.detach(), before));
      optimizer->step();
      EXPECT_TRUE(sync->after_update());
      trained.parameters.push_back(parameter.detach().clone());
    }
    trained.bytes = sync->exchanged_bytes();
  });
  return all;
}

/// By rank.
using Numbers = std::vector<torch::Tensor>;

Numbers means_of_pods(const Sizes& sizes, const Numbers& x) {
  Numbers means;
  for (std::size_t rank = 0; const std::int64_t size : sizes) {
    const auto begin = x.begin() + static_cast<std::ptrdiff_t>(rank);
    means.push_back(torch::stack(Numbers{begin, begin + size}).mean(0));
    rank += static_cast<std::size_t>(size);
  }
  return means;
}

/// One number for each rank, from one for each pod: that of its pod.
Numbers given_to_ranks(const Sizes& sizes, const Numbers& of_pods) {
  Numbers x;
  for (std::size_t pod = 0; pod < sizes.size(); ++pod)
    x.insert(x.end(), static_cast<std::size_t>(sizes[pod]), of_pods[pod]);
  return x;
}

/// The mean that each pod gets in the exchange number `exchange`.
Numbers averaged(const Sizes& sizes, const Numbers& x, PeerSelection selection, std::int64_t exchange) {
  if (selection == PeerSelection::all) return Numbers(sizes.size(), torch::stack(x).mean(0));
  const Numbers means = means_of_pods(sizes, x);
  const auto pods = static_cast<std::int64_t>(sizes.size());
  if (pods == 1) return means;
  Numbers found;
  for (std::int64_t pod = 0; pod < pods; ++pod)
    found.push_back(
        (means[static_cast<std::size_t>(pod)] + means[static_cast<std::size_t>(shift_one_peer(pod, pods, exchange))]) /
        2);
  return found;
}

std::vector<Numbers> simulate_decentralized(const Sizes& sizes, PeerSelection selection, std::int64_t interval) {
  Numbers x(static_cast<std::size_t>(ranks_of(sizes)), random(1000));
  std::vector<Numbers> found;
  for (std::int64_t step = 0; step < steps; ++step) {
    if (step % interval == 0) x = given_to_ranks(sizes, averaged(sizes, x, selection, step / interval));
    for (std::size_t rank = 0; rank < x.size(); ++rank) x[rank] = x[rank] - lr * make_gradient(step, rank);
    found.push_back(x);
  }
  return found;
}

std::vector<Numbers> simulate_low_precision(const Sizes& sizes, std::int64_t interval) {
  const std::size_t pods = sizes.size();
  Numbers x(static_cast<std::size_t>(ranks_of(sizes)), random(1000)), own(pods, random(1000)), left = own, right = own;
  std::vector<Numbers> found;
  for (std::int64_t step = 0; step < steps; ++step) {
    for (std::size_t rank = 0; rank < x.size(); ++rank) x[rank] = x[rank] - lr * make_gradient(step, rank);
    if (step % interval == 0) {
      const Numbers means = means_of_pods(sizes, x);
      Numbers changes;
      for (std::size_t pod = 0; pod < pods; ++pod) {
        const torch::Tensor d = means[pod] + left[pod] / 3.0 + right[pod] / 3.0 - own[pod] * (5.0 / 3.0);
        changes.push_back(decompress(compress(d.view({1, -1})), elements)[0]);
      }
      for (std::size_t pod = 0; pod < pods; ++pod) {
        left[pod] = left[pod] + changes[(pod + pods - 1) % pods];
        right[pod] = right[pod] + changes[(pod + 1) % pods];
        own[pod] = own[pod] + changes[pod];
      }
      x = given_to_ranks(sizes, pods == 1 ? means : own);
    }
    found.push_back(x);
  }
  return found;
}

void expect_equal(const std::vector<Trained>& trained, const std::vector<Numbers>& simulated) {
  for (std::size_t step = 0; step < simulated.size(); ++step) {
    for (std::size_t rank = 0; rank < trained.size(); ++rank) {
      // The order in which a sum is made may change its last bits, and with them a byte of a number between two bytes.
      EXPECT_TRUE(torch::allclose(trained[rank].parameters[step], simulated[step][rank], 0.0, 1e-5))
          << "step " << step << ", rank " << rank << ", "
          << (trained[rank].parameters[step] - simulated[step][rank]).abs().max().item<float>();
    }
  }
}

/// The messages of all parameters that a rank gives to its pod's process group in an exchange.
std::int64_t messages_in_pod(const Sizes& sizes, std::int64_t size) {
  if (size == 1) return 0;
  return sizes.size() == 1 ? 1 : 2;
}

TEST(DecentralizedByPod, IsItsFormula) {
  struct Case {
    Sizes sizes;
    PeerSelection selection;
    std::int64_t interval;
  };
  for (const auto& [sizes, selection, interval] :
       {Case{{2, 2}, PeerSelection::all, 1}, Case{{2, 2}, PeerSelection::shift_one, 2},
        Case{{2, 2, 2}, PeerSelection::all, 3}, Case{{1, 3}, PeerSelection::all, 1},
        Case{{3, 1}, PeerSelection::shift_one, 1}, Case{{1, 2, 1, 2}, PeerSelection::shift_one, 1},
        Case{{3}, PeerSelection::all, 1}, Case{{3}, PeerSelection::shift_one, 2}}) {
    SCOPED_TRACE(fmt::format("pods of {} ranks, {}", fmt::join(sizes, ", "),
                             selection == PeerSelection::all ? "all" : "shiftOne"));
    const auto trained = train(sizes, selection, interval);
    expect_equal(trained, simulate_decentralized(sizes, selection, interval));
    const std::int64_t exchanges = (steps + interval - 1) / interval, bytes = 4 * elements;
    const std::int64_t of_pods = sizes.size() == 1 ? 0 : 1;
    EXPECT_EQ(trained.front().bytes,
              static_cast<std::uint64_t>(exchanges * bytes * (messages_in_pod(sizes, sizes.front()) + of_pods)));
    if (sizes.back() > 1) {
      EXPECT_EQ(trained.back().bytes,
                static_cast<std::uint64_t>(exchanges * bytes * messages_in_pod(sizes, sizes.back())));
    }
  }
}

TEST(LowPrecisionDecentralizedByPod, IsItsFormula) {
  for (const auto& [sizes, interval] :
       std::vector<std::pair<Sizes, std::int64_t>>{{{2, 2}, 1}, {{2, 2, 2}, 2}, {{1, 2}, 1}, {{3}, 1}}) {
    SCOPED_TRACE(fmt::format("pods of {} ranks", fmt::join(sizes, ", ")));
    const auto trained = train(sizes, {}, interval);
    expect_equal(trained, simulate_low_precision(sizes, interval));
    const std::int64_t exchanges = (steps + interval - 1) / interval, bytes = 4 * elements;
    const auto neighbours = std::min(static_cast<std::int64_t>(sizes.size()) - 1, std::int64_t{2});
    EXPECT_EQ(trained.front().bytes,
              static_cast<std::uint64_t>(exchanges * (bytes * messages_in_pod(sizes, sizes.front()) +
                                                      neighbours * compressed_bytes(elements))));
    EXPECT_EQ(trained.back().bytes,
              static_cast<std::uint64_t>(exchanges * bytes * messages_in_pod(sizes, sizes.back())));
  }
}

TEST(LowPrecisionDecentralizedByPod, HasTheSameStateOnAllRanksAndBeginsReplicasAnewWhereOtherRanksAreFirst) {
  const auto number_of = [](const NamedTensors& state) {
    for (const auto& [name, tensor] : state) {
      if (name == "ranks") return tensor;
    }
    return torch::Tensor{};
  };
  std::vector<std::int64_t> numbers;  // of pods of 1 and 3, 2 and 2, 3 and 1, and 4 ranks
  for (const Sizes& sizes : {Sizes{1, 3}, Sizes{2, 2}, Sizes{3, 1}, Sizes{4}}) {
    std::vector<std::int64_t> of_ranks(4);
    run_ranks(4, [&](RankThread& rank) {
      const auto sync = make({{"p", random(rank.rank).requires_grad_()}}, rank, sizes, {});
      EXPECT_TRUE(sync->synchronize_model());
      sync->before_save();
      of_ranks[static_cast<std::size_t>(rank.rank)] = number_of(sync->state()).item<std::int64_t>();
    });
    EXPECT_EQ(of_ranks, std::vector(4, of_ranks[0]));
    numbers.push_back(of_ranks[0]);
  }
  EXPECT_EQ((std::set<std::int64_t>{numbers.begin(), numbers.end()}.size()), 4U);
  for (const std::int64_t saved :
       {numbers[0], numbers[1], numbers[2], numbers[3], std::int64_t{4}, std::int64_t{2}, std::int64_t{0}}) {
    run_ranks(4, [&](RankThread& rank) {
      const torch::Tensor parameter = random(rank.rank).requires_grad_();
      const auto sync = make({{"p", parameter}}, rank, {2, 2}, {});
      EXPECT_TRUE(sync->synchronize_model());
      const torch::Tensor common = parameter.detach().clone();
      sync->before_save();
      std::int64_t replicas = 0;
      for (auto& [name, tensor] : sync->state()) {
        if (name == "ranks") tensor.fill_(saved);
        if (name == "parameter.p" || name.starts_with("replica")) tensor.fill_(9.0);
        if (name.starts_with("replica")) ++replicas;
      }
      EXPECT_EQ(replicas, 3);
      EXPECT_TRUE(sync->after_restore());
      const bool is_resumed = saved == numbers[1];
      EXPECT_EQ(parameter.detach().eq(9.0).all().item<bool>(), is_resumed) << saved;
      for (const auto& [name, tensor] : sync->state()) {
        if (!name.starts_with("replica")) continue;
        EXPECT_TRUE(torch::equal(tensor, is_resumed ? torch::full_like(tensor, 9.0) : common)) << name;
      }
    });
  }
}

TEST(ShiftOneByPod, RefusesAnOddNumberOfPods) {
  run_ranks(4, [](RankThread& rank) {
    try {
      std::ignore = make({{"p", random(0).requires_grad_()}}, rank, {2, 1, 1}, PeerSelection::shift_one);
      ADD_FAILURE() << "three pods were paired";
    } catch (const InvalidJob& error) {
      EXPECT_STREQ(error.what(),
                   "training.strategy.peerSelection: shiftOne pairs the pods, and there are 3 of them: choose an even "
                   "number, or peerSelection all");
    }
  });
}

TEST(DecentralizedByPod, ReturnsWhyAnExchangeFailedWhereverItsRankWaited) {
  for (const int failing : {0, 1}) {  // the collective that is given up: the sum of the pod, or the one after it
    run_ranks(4, [failing](RankThread& rank) {
      const WaitForWork follow = [failing, waits = 0](const c10::intrusive_ptr<c10d::Work>& work,
                                                      std::string_view what) mutable -> Result<void> {
        if (waits++ < failing) return plain_wait(work, what);
        return fail(ErrorKind::cancelled, std::string{what} + " was given up");
      };
      const auto sync = make({{"p", random(0).requires_grad_()}}, rank, {2, 2}, PeerSelection::all, 1, follow);
      sync->zero_gradients();
      sync->begin_backward(/*is_last_batch=*/true);
      const auto done = sync->finish_gradients();
      ASSERT_FALSE(done);
      EXPECT_EQ(done.error().kind, ErrorKind::cancelled);
      EXPECT_EQ(done.error().message, "the exchange of the parameters was given up");
      EXPECT_TRUE(rank.communicator->all_gather("nobody leaves before the others have waited"));
    });
  }
}

}  // namespace parameters_by_pod
}  // namespace
}  // namespace trainyard::strategy
