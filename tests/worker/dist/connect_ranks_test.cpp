#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <stdexcept>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <tuple>
#include <vector>

#include "tests/fakes/free_port.hpp"
#include "tests/worker/fakes/fake_rank_link.hpp"
#include "tests/worker/fakes/threads_as_ranks.hpp"
#include "worker/dist/group.hpp"
#include "worker/dist/wait_or_fail.hpp"

namespace trainyard::dist {
namespace {

using fakes::FakeRankLink;
using namespace std::chrono_literals;

/// Forms a group of `world_size` ranks, which are threads, and calls `body` on each.
void with_group(std::int64_t world_size, const GroupOptions& options,
                const std::function<void(const Group& group, FakeRankLink& link)>& body) {
  const std::uint16_t port = fakes::free_port();
  fakes::let_threads_be_ranks();
  std::vector<std::jthread> ranks;
  for (std::int64_t rank = 0; rank < world_size; ++rank) {
    ranks.emplace_back([&, rank] {
      FakeRankLink link;
      const auto group = form_group(fakes::environment_of_thread(world_size, rank, port), link, options);
      ASSERT_TRUE(group) << group.error().message;
      body(*group, link);
      std::ignore = group->communicator->all_gather("nobody leaves before the others are done");
    });
  }
}

at::Tensor sum_over(c10d::ProcessGroup& process_group, FakeRankLink& link, std::int64_t value) {
  std::vector<at::Tensor> message{at::full({1}, value)};
  const auto summed = wait_or_fail(process_group.allreduce(message), link, 1min, "a sum");
  EXPECT_TRUE(summed) << summed.error().message;
  return message.front();
}

TEST(ConnectRanks, MakesProcessGroupsOfSomeRanksThatOverlap) {
  with_group(3, {.rendezvous_deadline = 1min}, [](const Group& group, FakeRankLink& link) {
    const std::vector<std::vector<std::int64_t>> sets{{0, 2}, {1, 2}, {0, 1, 2}};
    for (const auto& ranks : sets) {
      const auto place = std::ranges::find(ranks, group.rank);
      if (place == ranks.end()) continue;
      const auto connected = group.connect_ranks(
          "ranks from " + std::to_string(ranks.front()) + " of " + std::to_string(ranks.size()), ranks);
      ASSERT_TRUE(connected) << connected.error().message;
      EXPECT_EQ((*connected)->getRank(), place - ranks.begin());
      EXPECT_EQ((*connected)->getSize(), static_cast<int>(ranks.size()));
      std::int64_t sum = 0;
      for (const std::int64_t rank : ranks) sum += rank;
      EXPECT_EQ(sum_over(**connected, link, group.rank).item<std::int64_t>(), sum);
    }
  });
}

TEST(ConnectRanks, SendsBeatsAndGivesUpWhenTheGroupIsBroken) {
  const std::vector<std::int64_t> both{0, 1};
  std::latch given_up{1};
  with_group(2, {.rendezvous_deadline = 1min}, [&](const Group& group, FakeRankLink& link) {
    if (group.rank == 1) {  // It comes too late, so that the thread of rank 0 that was given up ends too.
      given_up.wait();
      std::ignore = group.connect_ranks("the process set \"a\"", both);
      return;
    }
    link.request_stop();  // Other ranks may be asked to stop later: this one goes on.
    std::jthread launcher{[&, beats = link.beats()] {
      link.wait_for_looks(link.looks() + 3);
      EXPECT_GT(link.beats(), beats);
      link.break_group({.exit_code = 90, .reason = "PeerLost", .message = "rank 1 is lost", .culprit = 1});
    }};
    const auto lost = group.connect_ranks("the process set \"a\"", both);
    given_up.count_down();
    ASSERT_FALSE(lost);
    EXPECT_EQ(lost.error().kind, ErrorKind::cancelled);
    EXPECT_EQ(lost.error().message, "connecting the process set \"a\" was given up: rank 1 is lost");
  });
}

TEST(ConnectRanks, AddsNcclWhereThereIsADevice) {
  static std::vector<std::pair<std::int64_t, std::string>> made;  // the ranks and the failure of each call
  static std::string words;
  made.clear();
  words.clear();
  const CudaModule module{
      .use_device = [](std::int64_t) {},
      .make_nccl = [](c10::intrusive_ptr<c10d::Store> store, std::int64_t rank, std::int64_t size, std::int64_t device,
                      std::chrono::milliseconds) -> c10::intrusive_ptr<c10d::Backend> {
        made.emplace_back(size, words);
        EXPECT_EQ(device, 0);
        if (!words.empty()) throw std::runtime_error{words};
        auto options = c10d::ProcessGroupGloo::Options::create();
        options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
        return c10::make_intrusive<c10d::ProcessGroupGloo>(store, static_cast<int>(rank), static_cast<int>(size),
                                                           std::move(options));
      }};
  const GroupOptions options{.rendezvous_deadline = 1min, .cuda_device = 0, .cuda_module = &module};
  with_group(1, options, [](const Group& group, FakeRankLink&) {
    const std::vector<std::int64_t> alone{0};
    const auto connected = group.connect_ranks("a", alone);
    ASSERT_TRUE(connected) << connected.error().message;
    EXPECT_EQ((*connected)->getDeviceTypes().size(), 2U);
    words = "ncclRemoteError: A call failed.";
    const auto lost = group.connect_ranks("b", alone);
    ASSERT_FALSE(lost);
    EXPECT_EQ(lost.error().message, "connecting NCCL: ncclRemoteError: A call failed.");
    words = "CUDA error: uncorrectable ECC error encountered";
    EXPECT_THROW(std::ignore = group.connect_ranks("c", alone), std::runtime_error);
  });
  EXPECT_EQ(made.size(), 4U);
}

}  // namespace
}  // namespace trainyard::dist
