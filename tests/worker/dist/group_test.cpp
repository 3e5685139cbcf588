#include "worker/dist/group.hpp"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <latch>
#include <stdexcept>
#include <thread>
#include <utility>

#include "tests/fakes/free_port.hpp"
#include "tests/worker/fakes/fake_rank_link.hpp"
#include "tests/worker/fakes/threads_as_ranks.hpp"
#include "worker/rank/tcp.hpp"

namespace trainyard::dist {
namespace {

using fakes::FakeRankLink;
using namespace std::chrono_literals;

TEST(FormGroup, BringsRanksTogetherByAStoreThatRankZeroHosts) {
  const std::uint16_t port = fakes::free_port();
  fakes::let_threads_be_ranks();
  std::vector<std::jthread> ranks;
  for (std::int64_t rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([=] {
      FakeRankLink link;
      auto group = form_group(fakes::environment_of_thread(2, rank, port), link, {.rendezvous_deadline = 1min});
      ASSERT_TRUE(group) << group.error().message;
      EXPECT_EQ(group->rank, rank);
      EXPECT_EQ(group->world_size, 2);
      EXPECT_EQ(group->process_group->getSize(), 2);
      EXPECT_EQ(group->averaging_reducer, nullptr);
      const auto texts = group->communicator->all_gather(std::to_string(rank));
      ASSERT_TRUE(texts) << texts.error().message;
      EXPECT_EQ(*texts, (std::vector<std::string>{"0", "1"}));
      // The checkpoints' communicator is separate: another thread may use it at the same time.
      std::jthread writer{[&] { EXPECT_TRUE(group->checkpoint_communicator->all_gather("saved")); }};
      EXPECT_TRUE(group->communicator->all_gather("trained"));
      writer.join();
      std::ignore = group->communicator->broadcast("nobody leaves before the other has read");
    });
  }
}

TEST(FormGroup, GivesCheckpointsADeadlineOfTheirOwn) {
  const std::uint16_t port = fakes::free_port();
  fakes::let_threads_be_ranks();
  std::latch is_over{1};
  std::vector<std::jthread> ranks;
  for (std::int64_t rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([=, &is_over] {
      FakeRankLink link;
      const auto group = form_group(fakes::environment_of_thread(2, rank, port), link,
                                    {.rendezvous_deadline = 1min, .checkpoint_deadline = 1s});
      EXPECT_TRUE(group) << group.error().message;
      if (rank == 1) return is_over.wait();  // It saves nothing.
      if (group) {
        const auto saved = group->checkpoint_communicator->all_gather("saved");
        EXPECT_FALSE(saved);
        if (!saved) {
          EXPECT_EQ(saved.error().kind, ErrorKind::timeout);
          EXPECT_THAT(saved.error().message, testing::HasSubstr(" 1 s")) << "and not that of other collectives";
        }
      }
      is_over.count_down();
    });
  }
}

TEST(FormGroup, GivesABackgroundThreadAReducerOfItsOwnWhereTheOptionsAskForIt) {
  const std::uint16_t port = fakes::free_port();
  fakes::let_threads_be_ranks();
  std::latch has_rank_1_waited{1};
  std::vector<std::jthread> ranks;
  for (std::int64_t rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([=, &has_rank_1_waited] {
      FakeRankLink link;
      const auto group = form_group(fakes::environment_of_thread(2, rank, port), link,
                                    {.rendezvous_deadline = 1min, .has_averaging_reducer = true});
      ASSERT_TRUE(group) << group.error().message;
      HostReducer& reducer = *group->averaging_reducer;
      EXPECT_EQ(reducer.world_size(), 2);
      const std::int64_t beats = link.beats();  // Those during the wait for rank 0's store.
      std::jthread watch{[&, looks = link.looks()] {
        if (rank == 0) return;
        link.wait_for_looks(looks + 3);  // Rank 1 looks at the group while it waits.
        has_rank_1_waited.count_down();
      }};
      std::jthread averaging{[&] {
        if (rank == 0) has_rank_1_waited.wait();  // It sends no beats meanwhile.
        const at::Tensor numbers = at::full({3}, static_cast<double>(rank + 1));
        EXPECT_TRUE(reducer.sum(numbers));
        EXPECT_TRUE(at::equal(numbers, at::full({3}, 3.0)));
        EXPECT_EQ(reducer.any(rank == 1), true);
        EXPECT_EQ(reducer.any(false), false);
        EXPECT_EQ(link.beats(), beats) << "they would hide that the training thread hangs";
      }};
      averaging.join();
      EXPECT_TRUE(group->communicator->all_gather("trained"));
      if (rank == 1) {
        link.break_group({.exit_code = 90, .reason = "PeerLost", .message = "rank 0 is lost", .culprit = 0});
        for (int call = 0; call < 2; ++call) {  // A failure lasts.
          const auto lost = reducer.any(true);
          ASSERT_FALSE(lost);
          EXPECT_EQ(lost.error().kind, ErrorKind::cancelled);
          EXPECT_EQ(lost.error().message, "a background agreement of the ranks was given up: rank 0 is lost");
        }
      }
      std::ignore = group->communicator->broadcast("nobody leaves before the other has read", 0);
    });
  }
}

TEST(FormGroup, EntersNoNcclWhereSomeRanksSeeAGpuAndOthersDoNot) {
  const std::uint16_t port = fakes::free_port();
  fakes::let_threads_be_ranks();
  std::vector<std::jthread> ranks;
  for (std::int64_t rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([=] {
      FakeRankLink link;
      GroupOptions options{.rendezvous_deadline = 1min};
      if (rank == 0) options.cuda_device = 0;
      const auto group = form_group(fakes::environment_of_thread(2, rank, port), link, options);
      ASSERT_FALSE(group);
      EXPECT_EQ(group.error().kind, ErrorKind::conflict) << group.error().message;
      EXPECT_NE(group.error().message.find("rank 1 of 2 sees no GPU"), std::string::npos) << group.error().message;
    });
  }
}

using Backend = c10::intrusive_ptr<c10d::Backend>;

void use_no_device(std::int64_t /*device*/) {}

/// As NCCL does where a rank's address cannot be reached. Blocks for as long as the process lives.
Backend block(c10::intrusive_ptr<c10d::Store> /*store*/, std::int64_t /*rank*/, std::int64_t /*world_size*/,
              std::int64_t /*device*/, std::chrono::milliseconds /*timeout*/) {
  std::promise<void>{}.get_future().wait();
  return {};
}

constexpr CudaModule blocking_nccl{.use_device = use_no_device, .make_nccl = block};

TEST(FormGroup, GivesNcclUpAtTheDeadlineAndWhenAskedToStopAndWhenAPeerIsLost) {
  const auto form = [](FakeRankLink& link, std::chrono::milliseconds deadline) {
    return form_group(fakes::environment_of_thread(1, 0, 0), link,
                      {.rendezvous_deadline = deadline, .cuda_device = 0, .cuda_module = &blocking_nccl});
  };
  FakeRankLink patient;
  const auto late = form(patient, 30ms);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().kind, ErrorKind::timeout);
  EXPECT_EQ(late.error().message,
            "connecting NCCL was not done after 0 s: let NCCL_SOCKET_IFNAME name a network interface by which all "
            "ranks reach each other, and look at what NCCL_DEBUG=INFO logs");
  FakeRankLink stopped;
  stopped.request_stop();
  EXPECT_EQ(form(stopped, 1min).error().kind, ErrorKind::cancelled);
  FakeRankLink broken;
  broken.break_group({.exit_code = 90, .reason = "PeerLost", .message = "rank 3 is lost", .culprit = 3});
  EXPECT_EQ(form(broken, 1min).error().message, "connecting NCCL was given up: rank 3 is lost");
}

TEST(FormGroup, ThrowsTheFailureOfItsDeviceAndReportsThatOfAConnection) {
  static std::string words;
  const CudaModule failing{.use_device = use_no_device,
                           .make_nccl = [](c10::intrusive_ptr<c10d::Store>, std::int64_t, std::int64_t, std::int64_t,
                                           std::chrono::milliseconds) -> Backend { throw std::runtime_error{words}; }};
  const auto form = [&] {
    FakeRankLink link;
    return form_group(fakes::environment_of_thread(1, 0, 0), link, {.cuda_device = 0, .cuda_module = &failing});
  };
  words = "CUDA error: uncorrectable ECC error encountered";
  EXPECT_THROW(std::ignore = form(), std::runtime_error);
  words = "ncclRemoteError: A call failed.";
  const auto lost = form();
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().kind, ErrorKind::unavailable);
  EXPECT_EQ(lost.error().message, "connecting NCCL: ncclRemoteError: A call failed.");
}

TEST(FormGroup, NeedsNobodyElseForAGroupOfOne) {
  FakeRankLink link;
  const auto group = form_group(fakes::environment_of_thread(1, 0, 0), link);
  ASSERT_TRUE(group) << group.error().message;
  EXPECT_EQ(group->communicator->world_size(), 1);
  EXPECT_EQ(group->process_group->getSize(), 1);
}

TEST(FormGroup, SaysThatAPodOfSeveralRanksNeedsTheLauncher) {
  auto environment = fakes::environment_of_thread(2, 0, 0);
  environment.rank.reset();
  environment.local_world_size = 2;
  FakeRankLink link;
  const auto group = form_group(environment, link);
  ASSERT_FALSE(group);
  EXPECT_EQ(group.error().kind, ErrorKind::invalid);
  EXPECT_NE(group.error().message.find("trainyard-worker"), std::string::npos) << group.error().message;
}

TEST(FormGroup, GivesUpAtTheDeadlineAndSaysWhereItLooked) {
  const std::uint16_t port = fakes::free_port();
  FakeRankLink link;
  const auto group = form_group(fakes::environment_of_thread(2, 1, port), link, {.rendezvous_deadline = 50ms});
  ASSERT_FALSE(group);
  EXPECT_EQ(group.error().kind, ErrorKind::timeout);
  EXPECT_NE(group.error().message.find("gave up waiting for rank 0's store at 127.0.0.1:" + std::to_string(port)),
            std::string::npos)
      << group.error().message;
  EXPECT_NE(group.error().message.find("Connection refused"), std::string::npos) << group.error().message;
}

TEST(FormGroup, LeavesTheDeadlineToALauncherWhereThereIsOne) {
  auto environment = fakes::environment_of_thread(2, 1, fakes::free_port());
  environment.has_launcher = true;
  FakeRankLink link;
  std::jthread launcher{[&] {
    std::this_thread::sleep_for(200ms);  // Well past the rank's own deadline.
    link.break_group({.exit_code = 94, .reason = "Rendezvous", .message = "rank 0 has not come", .culprit = {}});
  }};
  const auto group = form_group(environment, link, {.rendezvous_deadline = 10ms});
  ASSERT_FALSE(group);
  EXPECT_EQ(group.error().kind, ErrorKind::cancelled);
  EXPECT_EQ(group.error().message, "rank 0 has not come");
}

TEST(FormGroup, SaysThatThePortOfItsStoreIsInUse) {
  const std::uint16_t port = fakes::free_port();
  const auto taken = rank::listen_on(rank::Reach::loopback, port, "a test");
  ASSERT_TRUE(taken);
  FakeRankLink link;
  const auto group = form_group(fakes::environment_of_thread(2, 0, port), link, {.rendezvous_deadline = 1s});
  ASSERT_FALSE(group);
  EXPECT_EQ(group.error().kind, ErrorKind::already_exists);
  EXPECT_NE(group.error().message.find(std::to_string(port)), std::string::npos) << group.error().message;
}

}  // namespace
}  // namespace trainyard::dist
