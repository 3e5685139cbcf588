#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/worker/fakes/broken_group.hpp"
#include "tests/worker/fakes/device_work.hpp"
#include "tests/worker/fakes/late_device.hpp"
#include "worker/strategy/bucket_exchange.hpp"
#include "worker/strategy/comm_hook.hpp"
#include "worker/strategy/ddp.hpp"
#include "worker/strategy/exchange_failed.hpp"
#include "worker/strategy/gradient_buckets.hpp"
#include "worker/strategy/sharded.hpp"

namespace trainyard::strategy {
namespace {

using fakes::BrokenGroup;

Result<void> send_on(torch::Device device, const std::exception_ptr& failure) {
  const torch::Tensor parameter = torch::ones({3}).to(device).requires_grad_();
  GradientBuckets buckets{{parameter}, c10::make_intrusive<BrokenGroup>(failure), {}};
  buckets.zero();
  const WaitForWork wait = [](const c10::intrusive_ptr<c10d::Work>&, std::string_view) { return Result<void>{}; };
  return buckets.finish(wait, wait);
}

TEST(GradientBuckets, ThrowsWhatThisRanksOwnDeviceReportsAndNotWhatALostPeerDoes) {
  const c10::SourceLocation place{"f", "f.cpp", 1};
  const auto of_device = std::make_exception_ptr(c10::AcceleratorError{place, 214, "CUDA error: uncorrectable ECC"});
  const auto of_peer = std::make_exception_ptr(c10::DistBackendError{place, "ncclRemoteError: A call failed."});
  const auto of_gloo = std::make_exception_ptr(std::runtime_error{"Connection closed by peer"});
  EXPECT_THROW(std::ignore = send_on(fakes::late_device::device(), of_device), c10::AcceleratorError);
  const auto lost = send_on(fakes::late_device::device(), of_peer);
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().kind, ErrorKind::unavailable);
  EXPECT_EQ(lost.error().message, "sending gradients: ncclRemoteError: A call failed.");
  EXPECT_EQ(send_on(torch::kCPU, of_gloo).error().message, "sending gradients: Connection closed by peer");
}

/// A group whose collectives are done at once.
class QuickGroup final : public c10d::ProcessGroup {
 public:
  QuickGroup() : ProcessGroup{0, 2} {}
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& /*tensors*/,
                                           const c10d::AllreduceOptions& /*options*/) override {
    auto work = c10::make_intrusive<fakes::DeviceWork>();
    work->end();
    return work;
  }
};

TEST(GradientBuckets, WaitOnTheHostOnlyWhereThisRankDidNotUseAParameter) {
  const auto make_weight = [] { return torch::ones({3}).to(fakes::late_device::device()).requires_grad_(); };
  const torch::Tensor first = make_weight();
  const torch::Tensor second = make_weight();
  GradientBuckets buckets{{first, second}, c10::make_intrusive<QuickGroup>(), {}};
  const auto steps = [&](const torch::Tensor& loss) {
    int waits = 0;
    int follows = 0;
    buckets.zero();
    loss.backward();
    const auto count_in = [](int& count) {
      return [&count](const c10::intrusive_ptr<c10d::Work>&, std::string_view) {
        ++count;
        return Result<void>{};
      };
    };
    EXPECT_TRUE(buckets.finish(count_in(waits), count_in(follows)));
    return std::pair{waits, follows};
  };
  EXPECT_EQ(steps((first + second).sum()), (std::pair{0, 1}));
  EXPECT_EQ(steps(first.sum()), (std::pair{1, 0}));
}

/// Fails between its first collective and its second one.
class FailingExchange final : public BucketExchange {
 public:
  FailingExchange(c10::intrusive_ptr<c10d::ProcessGroup> group, std::exception_ptr failure)
      : BucketExchange{std::move(group)}, failure_{std::move(failure)} {}
  [[nodiscard]] c10::intrusive_ptr<c10d::Work> begin(std::size_t /*bucket*/) override { return sum(torch::ones({1})); }
  [[nodiscard]] c10::intrusive_ptr<c10d::Work> proceed(std::size_t /*bucket*/) override {
    std::rethrow_exception(failure_);
  }

 private:
  std::exception_ptr failure_;
};

TEST(GradientBuckets, TellAFailureBetweenTwoCollectivesOfOneExchangeLikeOneOfTheFirst) {
  const auto finish = [](const std::exception_ptr& failure) {
    const torch::Tensor weight = torch::ones({3}).to(fakes::late_device::device()).requires_grad_();
    GradientBuckets buckets{{weight},
                            c10::make_intrusive<QuickGroup>(),
                            {},
                            [&](const std::vector<ExchangedBucket>&, c10::intrusive_ptr<c10d::ProcessGroup> group) {
                              return std::make_unique<FailingExchange>(std::move(group), failure);
                            }};
    buckets.zero();
    const WaitForWork wait = [](const c10::intrusive_ptr<c10d::Work>&, std::string_view) { return Result<void>{}; };
    return buckets.finish(wait, wait);
  };
  const c10::SourceLocation place{"f", "f.cpp", 1};
  const auto lost = finish(std::make_exception_ptr(c10::DistBackendError{place, "ncclRemoteError: A call failed."}));
  EXPECT_EQ(lost.error().kind, ErrorKind::unavailable);
  EXPECT_EQ(lost.error().message, "sending gradients: ncclRemoteError: A call failed.");
  EXPECT_THROW(std::ignore = finish(std::make_exception_ptr(c10::AcceleratorError{place, 214, "CUDA error: ECC"})),
               c10::AcceleratorError);
}

/// A hook whose future is on the simulated device, and has failed.
class FailedHook final : public c10d::CppCommHookInterface<std::exception_ptr> {
 public:
  using CppCommHookInterface::CppCommHookInterface;
  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& /*bucket*/) override {
    auto future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()),
                                                           std::vector<c10::Device>{fakes::late_device::device()});
    future->setError(state_);
    return future;
  }
};

TEST(CommHook, WhoseFutureFailsOnADeviceIsToldFromALostPeer) {
  const auto finish = [](const std::exception_ptr& failure, bool asks_first) {
    const torch::Tensor weight = torch::ones({3}).to(fakes::late_device::device()).requires_grad_();
    GradientBuckets buckets{
        {weight}, c10::make_intrusive<QuickGroup>(), {}, by_comm_hook(std::make_shared<FailedHook>(failure))};
    buckets.zero();
    const WaitForWork wait = [&](const c10::intrusive_ptr<c10d::Work>& work, std::string_view) {
      if (asks_first && work->exception()) std::rethrow_exception(work->exception());
      work->wait();
      return Result<void>{};
    };
    return buckets.finish(wait, wait);
  };
  const c10::SourceLocation place{"f", "f.cpp", 1};
  const auto of_program = std::make_exception_ptr(std::out_of_range{"level 9 of 4"});
  const auto of_peer = std::make_exception_ptr(c10::DistBackendError{place, "ncclRemoteError: A call failed."});
  const auto of_device = std::make_exception_ptr(c10::AcceleratorError{place, 214, "CUDA error: ECC"});
  for (const bool asks_first : {false, true}) {
    EXPECT_THROW(std::ignore = finish(of_program, asks_first), ProgramFailed);
    EXPECT_THROW(std::ignore = finish(of_peer, asks_first), ExchangeFailed);
    EXPECT_THROW(std::ignore = finish(of_device, asks_first), c10::AcceleratorError);
  }
}

TEST(Sharded, ThrowsWhatThisRanksOwnDeviceReportsAndNotWhatALostPeerDoes) {
  const c10::SourceLocation place{"f", "f.cpp", 1};
  const auto of_device = std::make_exception_ptr(c10::AcceleratorError{place, 214, "CUDA error: uncorrectable ECC"});
  const auto of_peer = std::make_exception_ptr(c10::DistBackendError{place, "ncclRemoteError: A call failed."});
  const WaitForWork wait = [](const c10::intrusive_ptr<c10d::Work>&, std::string_view) { return Result<void>{}; };
  checkpoint::SingleCommunicator communicator;
  const auto make = [&](const std::exception_ptr& failure) {
    const torch::Tensor parameter = torch::ones({3}).to(fakes::late_device::device()).requires_grad_();
    auto sharded = std::make_unique<Sharded>(NamedTensors{{"weight", parameter}}, NamedTensors{},
                                             c10::make_intrusive<BrokenGroup>(failure), communicator, wait);
    sharded->zero_gradients();
    return sharded;
  };
  const torch::Tensor number = torch::ones({}).to(fakes::late_device::device());
  for (const auto& exchange : std::vector<std::function<Result<void>(Sharded&)>>{
           [](Sharded& sharded) { return sharded.finish_gradients(); },
           [](Sharded& sharded) { return sharded.after_update(); },
           [&](Sharded& sharded) { return sharded.max_over_ranks(number); }}) {
    EXPECT_THROW(std::ignore = exchange(*make(of_device)), c10::AcceleratorError);
    const auto lost = exchange(*make(of_peer));
    ASSERT_FALSE(lost);
    EXPECT_EQ(lost.error().kind, ErrorKind::unavailable);
    EXPECT_THAT(lost.error().message, testing::HasSubstr("ncclRemoteError: A call failed."));
  }
}

TEST(Ddp, ThrowsWhatThisRanksOwnDeviceReportsWhileTheModelIsSent) {
  const c10::SourceLocation place{"f", "f.cpp", 1};
  const auto synchronize = [](const std::exception_ptr& failure) {
    const torch::Tensor parameter = torch::ones({3}).to(fakes::late_device::device()).requires_grad_();
    checkpoint::SingleCommunicator communicator;
    Ddp ddp{{{"weight", parameter}},
            {{"mean", torch::ones({3}).to(fakes::late_device::device())}},
            c10::make_intrusive<BrokenGroup>(failure),
            communicator,
            [](const c10::intrusive_ptr<c10d::Work>&, std::string_view) { return Result<void>{}; }};
    const auto sent = ddp.synchronize_model();
    EXPECT_EQ(sent.error().kind, ErrorKind::unavailable);
    EXPECT_EQ(sent.error().message, "broadcasting the model: ncclRemoteError: A call failed.");
  };
  synchronize(std::make_exception_ptr(c10::DistBackendError{place, "ncclRemoteError: A call failed."}));
  const auto of_device = std::make_exception_ptr(c10::AcceleratorError{place, 214, "CUDA error: uncorrectable ECC"});
  EXPECT_THROW(synchronize(of_device), c10::AcceleratorError);
}

}  // namespace
}  // namespace trainyard::strategy
