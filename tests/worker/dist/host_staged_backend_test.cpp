#include "worker/dist/host_staged_backend.hpp"

#include <ATen/Functions.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <exception>
#include <functional>
#include <future>
#include <latch>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/worker/fakes/fake_rank_link.hpp"
#include "tests/worker/fakes/late_device.hpp"
#include "tests/worker/fakes/rank_threads.hpp"
#include "worker/dist/steps_in_flight.hpp"
#include "worker/dist/wait_or_fail.hpp"

namespace trainyard::dist {
namespace {

using fakes::FakeRankLink;
using fakes::RankThread;
namespace late_device = fakes::late_device;
using namespace std::chrono_literals;
using Tensors = std::vector<at::Tensor>;

/// Runs `body` for each of two ranks whose process group carries the device's tensors through the host's memory.
void with_staged_ranks(const std::function<void(RankThread&)>& body) {
  fakes::run_ranks(2, [&](RankThread& rank) {
    rank.process_group->setBackend(late_device::device().type(), c10d::ProcessGroup::BackendType::CUSTOM,
                                   make_host_staged_backend(rank.process_group->getBackend(c10::kCPU)));
    body(rank);
  });
}

at::Tensor on_device(const std::vector<float>& values) {
  return torch::tensor(values).to(late_device::device());
}

std::vector<float> values_of(const at::Tensor& tensor) {
  const at::Tensor on_host = tensor.cpu().contiguous();
  return {on_host.const_data_ptr<float>(), on_host.const_data_ptr<float>() + on_host.numel()};
}

/// Waits for the collective as a rank does. Its results are then there.
void wait_for(const c10::intrusive_ptr<c10d::Work>& work) {
  FakeRankLink link;
  const auto done = wait_or_fail(work, link, 1min, "the collective");
  ASSERT_TRUE(done) << done.error().message;
}

using Values = std::vector<float>;

TEST(HostStagedBackend, AddsUp) {
  with_staged_ranks([](RankThread& rank) {
    Tensors sums{on_device({1, 2}), on_device({3})};
    for (const at::Tensor& sum : sums) {
      Tensors message{sum};
      wait_for(rank.process_group->allreduce(message));
    }
    EXPECT_EQ(values_of(sums[0]), (Values{2, 4}));
    EXPECT_EQ(values_of(sums[1]), (Values{6}));
    Tensors largest{on_device({static_cast<float>(rank.rank)})};
    c10d::AllreduceOptions options;
    options.reduceOp = c10d::ReduceOp::MAX;
    wait_for(rank.process_group->allreduce(largest, options));
    EXPECT_EQ(values_of(largest[0]), Values{1});
  });
}

TEST(HostStagedBackend, AddsUpAtOneRankAndSendsFromIt) {
  with_staged_ranks([](RankThread& rank) {
    Tensors sum{on_device({5})};
    wait_for(rank.process_group->reduce(sum, {.rootRank = 1}));
    EXPECT_EQ(values_of(sum[0]), Values{rank.rank == 1 ? 10.0F : 5.0F});
    Tensors sent{on_device({rank.rank == 1 ? 7.0F : 0.0F})};
    wait_for(rank.process_group->broadcast(sent, {.rootRank = 1}));
    EXPECT_EQ(values_of(sent[0]), Values{7});
  });
}

TEST(HostStagedBackend, Gathers) {
  with_staged_ranks([](RankThread& rank) {
    Tensors own{on_device({static_cast<float>(rank.rank), 8})};
    std::vector<Tensors> all{{on_device({0, 0}), on_device({0, 0})}};
    wait_for(rank.process_group->allgather(all, own));
    EXPECT_EQ(values_of(all[0][0]), (Values{0, 8}));
    EXPECT_EQ(values_of(all[0][1]), (Values{1, 8}));
    at::Tensor flat = on_device({0, 0, 0, 0});
    wait_for(rank.process_group->_allgather_base(flat, own[0]));
    EXPECT_EQ(values_of(flat), (Values{0, 8, 1, 8}));
  });
}

TEST(HostStagedBackend, SendsPartsOfDifferentSizesToEachRank) {
  with_staged_ranks([](RankThread& rank) {
    const auto number = static_cast<float>(rank.rank);
    at::Tensor sent = on_device({number, number + 10, number + 20});
    at::Tensor received = on_device(rank.rank == 0 ? Values{0, 0} : Values{0, 0, 0, 0});
    std::vector<std::int64_t> to{1, 2};
    std::vector<std::int64_t> from(2, rank.rank == 0 ? 1 : 2);
    wait_for(rank.process_group->alltoall_base(received, sent, from, to));
    EXPECT_EQ(values_of(received), rank.rank == 0 ? (Values{0, 1}) : (Values{10, 20, 11, 21}));
  });
}

TEST(HostStagedBackend, SendsWhatTheDeviceComputesLater) {
  with_staged_ranks([](RankThread& rank) {
    Tensors sum{on_device({0, 0})};
    late_device::queue_fill(sum[0], 3.0);
    wait_for(rank.process_group->allreduce(sum));
    EXPECT_EQ(values_of(sum[0]), (Values{6, 6}));
  });
}

TEST(HostStagedBackend, KeepsStridesAndIsNoChangeForAutograd) {
  with_staged_ranks([](RankThread& rank) {
    const at::Tensor columns = on_device({1, 2, 3, 4}).reshape({2, 2});
    Tensors sum{columns.t()};
    wait_for(rank.process_group->allreduce(sum));
    EXPECT_EQ(values_of(columns), (Values{2, 4, 6, 8}));
    at::Tensor parameter = on_device({static_cast<float>(rank.rank) + 1});
    parameter.requires_grad_();
    const auto version = parameter._version();
    Tensors sent{parameter};
    wait_for(rank.process_group->broadcast(sent));
    EXPECT_EQ(values_of(parameter.detach()), Values{1});
    EXPECT_EQ(parameter._version(), version);
  });
}

TEST(HostStagedBackend, HasAFutureWithTheDevicesTensors) {
  with_staged_ranks([](RankThread& rank) {
    Tensors own{on_device({4})};
    const auto expect_own = [&](const c10::intrusive_ptr<c10d::Work>& work) {
      wait_for(work);
      const auto result = work->getFuture()->value().toTensorVector();
      ASSERT_EQ(result.size(), 1U);
      EXPECT_EQ(result[0].data_ptr(), own[0].data_ptr());
    };
    expect_own(rank.process_group->allreduce(own));
    expect_own(rank.process_group->broadcast(own));
    expect_own(rank.process_group->reduce(own));
  });
}

TEST(HostStagedBackend, IsWaitedForByStepsInFlight) {
  with_staged_ranks([](RankThread& rank) {
    FakeRankLink link;
    StepsInFlight steps{late_device::device(), link, 1min};
    Tensors sum{on_device({2})};
    ASSERT_TRUE(steps.follow(rank.process_group->allreduce(sum), "the sum"));
    EXPECT_EQ(values_of(sum[0]), Values{4});
    ASSERT_TRUE(steps.end_step());
    ASSERT_TRUE(steps.finish());
  });
}

TEST(HostStagedBackend, NamesItselfWhereItHasNoSuchCollective) {
  with_staged_ranks([](RankThread& rank) {
    Tensors own{on_device({1})};
    std::vector<Tensors> all{{on_device({1}), on_device({1})}};
    try {
      std::ignore = rank.process_group->reduce_scatter(own, all);
      ADD_FAILURE();
    } catch (const c10::Error& error) {
      EXPECT_THAT(error.what_without_backtrace(),
                  testing::HasSubstr("gloo through the host's memory does not support reduce_scatter"));
    }
  });
}

TEST(HostStagedBackend, LosesAPeerAsGlooDoes) {
  with_staged_ranks([](RankThread& rank) {
    if (rank.rank == 1) {
      rank.process_group = {};
      return;
    }
    Tensors sum{on_device({1})};
    FakeRankLink link;
    const auto lost = wait_or_fail(rank.process_group->allreduce(sum), link, 1min, "the sum");
    ASSERT_FALSE(lost);
    EXPECT_EQ(lost.error().kind, ErrorKind::unavailable);
    EXPECT_THAT(lost.error().message, testing::StartsWith("the sum failed: "));
  });
}

/// The failures of the two ranks' waits for a sum, of which one rank cannot copy its result to the device.
std::vector<std::exception_ptr> failures_of_a_copy() {
  std::latch are_ready{2};
  std::latch will_fail{1};
  std::mutex mutex;
  std::vector<std::exception_ptr> failures;
  with_staged_ranks([&](RankThread& rank) {
    Tensors sum{on_device({1})};
    are_ready.arrive_and_wait();
    if (rank.rank == 0) {
      late_device::fail_copy_after(2);  // Both ranks first bring their numbers to the host.
      will_fail.count_down();
    }
    will_fail.wait();
    FakeRankLink link;
    const auto work = rank.process_group->allreduce(sum);
    try {
      EXPECT_TRUE(wait_or_fail(work, link, 1min, "the sum"));
      EXPECT_TRUE(work->isSuccess() && work->wait());
    } catch (const std::exception&) {
      EXPECT_ANY_THROW(work->wait());
      const std::scoped_lock lock{mutex};
      failures.push_back(std::current_exception());
    }
  });
  return failures;
}

TEST(HostStagedBackend, FailsAsThisRanksOwnWhereTheResultCannotComeBack) {
  const auto failures = failures_of_a_copy();
  ASSERT_EQ(failures.size(), 1U);
  EXPECT_THROW(std::rethrow_exception(failures[0]), c10::Error);
}

TEST(HostStagedBackend, SendsNoBeatsWhileItWaitsForThisRanksDeviceAlone) {
  std::promise<void> kernel_may_end;
  std::latch are_ready{2};
  std::latch kernel_has_begun{1};
  with_staged_ranks([&](RankThread& rank) {
    Tensors sum{on_device({1})};
    are_ready.arrive_and_wait();
    if (rank.rank == 1) {
      kernel_has_begun.wait();
      // The stream of both ranks is stuck.
      const c10::StreamGuard other{
          c10::impl::VirtualGuardImpl{late_device::device().type()}.getStreamFromGlobalPool(late_device::device())};
      wait_for(rank.process_group->allreduce(sum));
      return;
    }
    const auto work = rank.process_group->allreduce(sum);
    // The result has to wait for this kernel, as the collective's input has not.
    late_device::queue([end = kernel_may_end.get_future().share()] { end.wait(); });
    EXPECT_FALSE(waits_for_own_device_alone(*work));
    FakeRankLink link;
    std::jthread other{[&] {
      kernel_has_begun.count_down();
      while (!waits_for_own_device_alone(*work)) std::this_thread::yield();
      link.wait_for_looks(link.looks() + 2);  // The look that was under way may still send a beat.
      const auto beats = link.beats();
      link.wait_for_looks(link.looks() + 3);
      EXPECT_EQ(link.beats(), beats);
      kernel_may_end.set_value();
    }};
    ASSERT_TRUE(wait_or_fail(work, link, 1min, "the sum"));
    EXPECT_EQ(values_of(sum[0]), Values{2});
  });
}

TEST(HostStagedBackend, ReturnsResultsOfAnInferenceMode) {
  with_staged_ranks([](RankThread& rank) {
    const c10::InferenceMode inference;
    Tensors sum{on_device({1}) * 2};
    wait_for(rank.process_group->allreduce(sum));
    EXPECT_EQ(values_of(sum[0]), Values{4});
  });
}

}  // namespace
}  // namespace trainyard::dist
