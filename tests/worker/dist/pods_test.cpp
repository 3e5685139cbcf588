#include "worker/dist/pods.hpp"

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/fakes/free_port.hpp"
#include "tests/worker/fakes/fake_rank_link.hpp"
#include "tests/worker/fakes/threads_as_ranks.hpp"
#include "worker/dist/group.hpp"

namespace trainyard::dist {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view advice =
    ": training.strategy.hierarchical needs the ranks of a pod to have numbers one after the other; look at RANK, "
    "LOCAL_RANK and LOCAL_WORLD_SIZE of these ranks";

TEST(AgreeOnPods, FindsThePodsOfRanksThatAgree) {
  const auto found = [](const std::vector<Pod>& of_ranks) {
    std::vector<std::string> texts;
    for (const Pod& pod : of_ranks) texts.push_back(to_text(pod));
    return agree_on_pods(texts);
  };
  EXPECT_EQ(found({{0, 2}, {0, 2}, {2, 2}, {2, 2}}), (std::vector<Pod>{{0, 2}, {2, 2}}));
  EXPECT_EQ(found({{0, 1}, {1, 3}, {1, 3}, {1, 3}}), (std::vector<Pod>{{0, 1}, {1, 3}}));
  EXPECT_EQ(found({{0, 3}, {0, 3}, {0, 3}}), (std::vector<Pod>{{0, 3}}));
  EXPECT_EQ(found({{0, 1}, {1, 1}}), (std::vector<Pod>{{0, 1}, {1, 1}}));
}

TEST(AgreeOnPods, NamesTheRankThatDoesNotAgree) {
  const auto refusal = [](const std::vector<std::string>& texts) {
    const auto pods = agree_on_pods(texts);
    if (pods) return std::string{"agreed"};
    EXPECT_EQ(pods.error().kind, ErrorKind::invalid);
    EXPECT_TRUE(pods.error().message.ends_with(advice)) << pods.error().message;
    return pods.error().message.substr(0, pods.error().message.size() - advice.size());
  };
  EXPECT_EQ(refusal({"0 2", "0 2", "2 1"}), "agreed");
  EXPECT_EQ(refusal({"0 2", "1 1"}), "rank 0 says that its pod has ranks 0 to 1, and rank 1 that its pod has rank 1");
  EXPECT_EQ(refusal({"0 1", "0 2"}), "rank 1 says that its pod has ranks 0 to 1, of which rank 0 is in another pod");
  EXPECT_EQ(refusal({"0 2", "0 2", "0 2"}),
            "rank 2 says that its pod has ranks 0 to 1, of which rank 0 is in another pod");
  EXPECT_EQ(refusal({"0 2", "0 2", "3 1", "3 1"}), "rank 2 says that its pod has rank 3, which begins after it");
  for (const std::string text : {"", "0", "0 ", "0 x", "-1 2", "0 0", "0 -1", "0 3", "2 1", "0 2 ", "0 2\n", " 0 2",
                                 "9223372036854775807 9223372036854775807", "1 9223372036854775807"})
    EXPECT_EQ(refusal({"0 2", text}),
              "rank 1 of 2 says '" + text.substr(0, 40) + "' of the first rank and the size of its pod");
  EXPECT_EQ(refusal({std::string(1000, '9')}),
            "rank 0 of 1 says '" + std::string(40, '9') + "' of the first rank and the size of its pod");
}

/// Forms a group of threads with pods of `sizes` and calls `check` on each rank.
void form(const std::vector<std::int64_t>& sizes, GroupOptions options,
          const std::function<void(std::int64_t rank, const Result<Group>&)>& check) {
  const std::uint16_t port = fakes::free_port();
  fakes::let_threads_be_ranks();
  options.rendezvous_deadline = 1min;
  std::int64_t world_size = 0;
  for (const std::int64_t size : sizes) world_size += size;
  std::vector<std::jthread> ranks;
  for (std::int64_t first = 0; const std::int64_t size : sizes) {
    for (std::int64_t local = 0; local < size; ++local) {
      rank::GroupEnvironment environment;
      environment.world_size = world_size;
      environment.rank = first + local;
      environment.local_world_size = size;
      environment.local_rank = local;
      environment.master_port = environment.store_port = port;
      environment.job_uid = "u";
      ranks.emplace_back([=, &check] {
        fakes::FakeRankLink link;
        const auto group = form_group(environment, link, options);
        check(*environment.rank, group);
        if (group) std::ignore = group->communicator->all_gather("nobody leaves before the others have read");
      });
    }
    first += size;
  }
}

torch::Tensor summed(const c10::intrusive_ptr<c10d::ProcessGroup>& process_group, std::int64_t number) {
  std::vector<torch::Tensor> message{torch::full({1}, number)};
  process_group->allreduce(message)->wait();
  return message[0];
}

TEST(FormGroup, ConnectsTheRanksOfAPodAndTheFirstRanksOfPods) {
  form({2, 1, 3}, {.has_pods = true}, [](std::int64_t rank, const Result<Group>& group) {
    ASSERT_TRUE(group) << group.error().message;
    ASSERT_TRUE(group->pods);
    const PodGroups& pods = *group->pods;
    EXPECT_EQ(pods.pods, (std::vector<Pod>{{0, 2}, {2, 1}, {3, 3}}));
    EXPECT_FALSE(pods.is_one_pod());
    const bool is_first = rank == 0 || rank == 2 || rank == 3;
    EXPECT_EQ(pods.is_first_rank(), is_first);
    EXPECT_EQ(pods.first_ranks->getSize(), 3);
    EXPECT_EQ(pods.first_ranks->getRank(), rank < 2 ? 0 : rank < 3 ? 1 : 2);
    EXPECT_EQ(pods.own->getSize(), rank < 2 ? 2 : rank < 3 ? 1 : 3);
    if (rank != 2) {
      EXPECT_EQ(summed(pods.own, rank).item<std::int64_t>(), rank < 2 ? 1 : 12);
    }
    if (is_first) {
      EXPECT_EQ(summed(pods.first_ranks, rank).item<std::int64_t>(), 5);
    } else {
      EXPECT_ANY_THROW(std::ignore = summed(pods.first_ranks, rank));
    }
  });
}

TEST(FormGroup, ConnectsNothingMoreForOnePodAndForPodsOfOneRank) {
  form({3}, {.has_pods = true}, [](std::int64_t /*rank*/, const Result<Group>& group) {
    ASSERT_TRUE(group) << group.error().message;
    ASSERT_TRUE(group->pods);
    EXPECT_TRUE(group->pods->is_one_pod());
    EXPECT_EQ(group->pods->own, group->process_group);
    EXPECT_EQ(group->pods->first_ranks->getSize(), 1);
  });
  form({1, 1}, {.has_pods = true}, [](std::int64_t /*rank*/, const Result<Group>& group) {
    ASSERT_TRUE(group) << group.error().message;
    EXPECT_FALSE(group->pods);
  });
  form({2, 1}, {}, [](std::int64_t /*rank*/, const Result<Group>& group) {
    ASSERT_TRUE(group) << group.error().message;
    EXPECT_FALSE(group->pods);
  });
}

TEST(FormGroup, RefusesOnAllRanksPodsOnWhichTheyDoNotAgree) {
  const std::uint16_t port = fakes::free_port();
  fakes::let_threads_be_ranks();
  std::vector<std::jthread> ranks;
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    ranks.emplace_back([=] {
      rank::GroupEnvironment environment;
      environment.world_size = 4;
      environment.rank = rank;
      environment.local_world_size = 2;
      environment.local_rank = rank / 2;  // As where a launcher deals ranks out to the pods in turn.
      environment.master_port = environment.store_port = port;
      environment.job_uid = "u";
      fakes::FakeRankLink link;
      const auto group = form_group(environment, link, {.rendezvous_deadline = 1min, .has_pods = true});
      ASSERT_FALSE(group);
      EXPECT_EQ(group.error().kind, ErrorKind::invalid);
      EXPECT_EQ(
          group.error().message,
          "rank 0 says that its pod has ranks 0 to 1, and rank 1 that its pod has ranks 1 to 2" + std::string{advice});
    });
  }
}

/// An NCCL of which nothing but its existence is used.
class NoBackend final : public c10d::Backend {
 public:
  using Backend::Backend;
};

struct Connection {
  std::int64_t rank = 0;
  std::int64_t size = 0;
  bool operator==(const Connection&) const = default;
  auto operator<=>(const Connection&) const = default;
};

std::mutex connections_mutex;  // guards connections
std::vector<Connection> connections;

c10::intrusive_ptr<c10d::Backend> note_connection(c10::intrusive_ptr<c10d::Store> store, std::int64_t rank,
                                                  std::int64_t size, std::int64_t /*device*/,
                                                  std::chrono::milliseconds /*timeout*/) {
  // A name that two process groups shared would bring together ranks of both.
  const auto own = "member." + std::to_string(rank);
  EXPECT_FALSE(store->check({own}));
  store->set(own, "here");
  const std::scoped_lock lock{connections_mutex};
  connections.push_back({rank, size});
  return c10::make_intrusive<NoBackend>(static_cast<int>(rank), static_cast<int>(size));
}

TEST(FormGroup, ConnectsTheDevicesOfTheSameRanks) {
  const CudaModule module{.use_device = [](std::int64_t) {}, .make_nccl = note_connection};
  connections.clear();
  form({2, 1}, {.cuda_device = 0, .cuda_module = &module, .has_pods = true},
       [](std::int64_t /*rank*/, const Result<Group>& group) { ASSERT_TRUE(group) << group.error().message; });
  std::ranges::sort(connections);
  // All three ranks, the two of the first pod, and the two first ranks.
  EXPECT_EQ(connections, (std::vector<Connection>{{0, 2}, {0, 2}, {0, 3}, {1, 2}, {1, 2}, {1, 3}, {2, 3}}));
}

TEST(FormGroup, CarriesTheDevicesTensorsByGlooAloneWhereTheJobAsksForIt) {
  const CudaModule module{.use_device = [](std::int64_t) {}, .make_nccl = note_connection};
  connections.clear();
  form({2, 1}, {.cuda_device = 0, .has_gloo_alone = true, .cuda_module = &module, .has_pods = true},
       [](std::int64_t rank, const Result<Group>& group) {
         ASSERT_TRUE(group) << group.error().message;
         const auto is_staged = [](const c10::intrusive_ptr<c10d::ProcessGroup>& ranks) {
           return ranks->getBackend(c10::kCUDA)->getBackendName() == "gloo through the host's memory" &&
                  ranks->getBackend(c10::kCPU)->getBackendName() == "gloo";
         };
         EXPECT_TRUE(is_staged(group->process_group));
         if (rank != 2) {
           EXPECT_TRUE(is_staged(group->pods->own));
         }
         if (rank != 1) {
           EXPECT_TRUE(is_staged(group->pods->first_ranks));
         }
         const std::vector<std::int64_t> alone{rank};
         const auto set = group->connect_ranks("the process set " + std::to_string(rank), alone);
         ASSERT_TRUE(set) << set.error().message;
         EXPECT_TRUE(is_staged(*set));
       });
  EXPECT_TRUE(connections.empty()) << "NCCL was connected";
}

}  // namespace
}  // namespace trainyard::dist
