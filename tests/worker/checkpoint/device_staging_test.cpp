#include <ATen/Functions.h>
#include <c10/core/DeviceGuard.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <latch>
#include <span>
#include <thread>
#include <vector>

#include "tests/worker/fakes/late_device.hpp"
#include "worker/checkpoint/device_reader.hpp"
#include "worker/checkpoint/staging.hpp"

namespace trainyard::checkpoint {
namespace {

namespace late_device = fakes::late_device;

// Tensors of 2 MiB and of 28 bytes, all ones.
State a_state() {
  State state;
  state.entries.push_back({.name = "parameter",
                           .placement = Placement::replicated,
                           .tensor = at::ones({1024, 512}).to(late_device::device()),
                           .is_steady = true});
  state.entries.push_back(
      {.name = "buffer", .placement = Placement::rank0, .tensor = at::ones({7}).to(late_device::device())});
  return state;
}

bool is_filled_with(std::span<const std::byte> bytes, float value) {
  const std::span numbers{reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
  return std::ranges::all_of(numbers, [&](float number) { return number == value; });
}

TEST(DeviceStaging, HasWhatIsQueuedOnTheDeviceAndDoesNotWaitForIt) {
  Staging staging{0, 1};
  const State state = a_state();
  std::latch may_run{1};
  late_device::queue([&] { may_run.wait(); });
  for (const Entry& entry : state.entries) late_device::queue_fill(entry.tensor, 5);
  ASSERT_TRUE(staging.stage(state)) << "and returns, though the device has done nothing yet";
  // Goes on once copies to the host were asked for, and have been made if they wait for nothing.
  const std::jthread device_goes_on{[&, before = late_device::copies()](const std::stop_token& stop) {
    while (late_device::copies() == before && !stop.stop_requested()) std::this_thread::yield();
    late_device::wait_until_settled();
    may_run.count_down();
  }};
  EXPECT_EQ(staging.stage_steady(), true);
  ASSERT_TRUE(staging.fetch_copies());
  EXPECT_TRUE(is_filled_with(staging.entries()[0].bytes, 5));
  EXPECT_TRUE(is_filled_with(staging.entries()[1].bytes, 5));
}

TEST(DeviceStaging, CopiesUnsteadyTensorsAsTheyWereWhenTheSaveBegan) {
  Staging staging{0, 1};
  const State state = a_state();
  for (const float value : {2.F, 3.F}) {
    late_device::queue_fill(state.entries[1].tensor, value);
    ASSERT_TRUE(staging.stage(state));
    late_device::queue_fill(state.entries[1].tensor, 9);
    late_device::wait();
    EXPECT_EQ(staging.stage_steady(), true);
    ASSERT_TRUE(staging.fetch_copies());
    EXPECT_TRUE(is_filled_with(staging.entries()[1].bytes, value));
  }
}

TEST(DeviceStaging, HoldsOnlyTheRowsThatItsRankWrites) {
  Staging staging{1, 2};
  const State state = a_state();
  ASSERT_TRUE(staging.stage(state));
  EXPECT_EQ(staging.stage_steady(), true);
  const auto parameter = staging.entries()[0].bytes;
  EXPECT_TRUE(is_filled_with(parameter.last(parameter.size() / 2), 1)) << "the second half is rank 1's";
  EXPECT_TRUE(staging.entries()[1].bytes.empty()) << "rank 0's";
}

TEST(DeviceStaging, StagesAllBeforeItReturnsOnceASteadyEntryHasChanged) {
  Staging staging{0, 1};
  const State state = a_state();
  ASSERT_TRUE(staging.stage(state));
  state.entries[0].tensor.detach()[3].copy_(at::zeros({512}));
  EXPECT_EQ(staging.stage_steady(), false);

  late_device::queue_fill(state.entries[0].tensor, 6);
  ASSERT_TRUE(staging.stage(state));
  late_device::queue_fill(state.entries[0].tensor, 7);
  late_device::wait();
  EXPECT_EQ(staging.stage_steady(), true);
  EXPECT_TRUE(is_filled_with(staging.entries()[0].bytes, 6));
}

TEST(DeviceStaging, NoticesAChangeByAKernelThatTorchDoesNotCount) {
  Staging staging{0, 1};
  const State state = a_state();
  ASSERT_TRUE(staging.stage(state));
  late_device::queue_fill(state.entries[0].tensor, 6);
  late_device::wait();
  EXPECT_EQ(staging.stage_steady(), false);
}

TEST(DeviceStaging, SaysThatTheDeviceFailedAndStagesTheNextSave) {
  const State state = a_state();
  struct Row {
    // Copies that succeed: the parameter's samples and the buffer on the device; the parameter, its samples and the
    // buffer to the host.
    int copies = 0;
    bool copies_first = false;
  };
  for (const Row& row : {Row{0, false}, Row{1, false}, Row{2, true}, Row{3, true}, Row{4, true}}) {
    Staging staging{0, 1};
    late_device::fail_copy_after(row.copies);
    const auto first = staging.stage(state);
    ASSERT_EQ(first.has_value(), row.copies_first);
    const auto second = first.and_then([&] { return staging.stage_steady(); });
    const auto third = second.and_then([&](bool) { return staging.fetch_copies(); });
    late_device::fail_copy_after(-1);
    ASSERT_FALSE(third) << row.copies;
    EXPECT_EQ(third.error().kind, ErrorKind::internal);
    EXPECT_EQ(third.error().message, "copying the state to the host: CUDA error: uncorrectable ECC error encountered");

    ASSERT_TRUE(staging.stage(state));
    EXPECT_EQ(staging.stage_steady(), true);
    ASSERT_TRUE(staging.fetch_copies());
    EXPECT_TRUE(is_filled_with(staging.entries()[0].bytes, 1));
  }
}

TEST(DeviceReader, CopiesTensorsOfAnySizeAndLayoutThroughTwoSmallBuffers) {
  constexpr std::uint64_t buffer_bytes = 1000;
  late_device::wait_for_all();
  const std::size_t pinned_before = late_device::pinned_bytes();
  DeviceReader reader{buffer_bytes};
  const std::vector<at::Tensor> wanted{
      at::rand({0}),
      at::tensor(7.0),
      at::randint(256, {999}, at::kByte),
      at::randint(256, {1}, at::kByte),
      at::randint(256, {1001}, at::kByte),
      at::randint(256, {1000}, at::kByte),
      at::rand({40, 37}).t(),
      at::rand({2500}).to(at::kBFloat16),
      at::rand({30}) > 0.5,
      at::rand({20, 9}).slice(1, 2, 5),
      at::complex(at::rand({11}), at::rand({11})).conj(),
  };
  for (const std::size_t threads : {1, 3}) {
    reader.use_threads(threads);
    reader.mark(late_device::device());
    std::vector<at::Tensor> on_device;
    std::vector<at::Tensor> copies;
    for (const at::Tensor& tensor : wanted) {
      on_device.push_back(tensor.to(late_device::device()));
      at::Tensor& copy = copies.emplace_back(at::empty(tensor.sizes(), tensor.options()));
      reader.read(on_device.back(), {static_cast<std::byte*>(copy.data_ptr()), copy.nbytes()});
    }
    reader.finish();
    for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(at::equal(copies[i], wanted[i])) << "tensor " << i;
  }
  EXPECT_EQ(late_device::pinned_bytes() - pinned_before, 2 * buffer_bytes);
}

TEST(DeviceReader, EmptiesALargeBufferByAsManyThreadsAsItMayUse) {
  const at::Tensor wanted = at::randint(256, {(std::int64_t{5} << 20) + 3}, at::kByte);
  const at::Tensor on_device = wanted.to(late_device::device());
  for (const std::size_t threads : {1, 2, 4, 9}) {
    DeviceReader reader;
    reader.use_threads(threads);
    reader.mark(late_device::device());
    at::Tensor copy = at::zeros_like(wanted);
    reader.read(on_device, {static_cast<std::byte*>(copy.data_ptr()), copy.nbytes()});
    reader.finish();
    EXPECT_TRUE(at::equal(copy, wanted)) << threads << " threads";
  }
}

TEST(DeviceReader, MakesNoContextOnAnotherDeviceFromAThreadThatHasChosenNone) {
  const at::Tensor tensor = at::ones({300}).to(late_device::device());
  std::vector<std::byte> copy(tensor.nbytes());
  late_device::forget_contexts();
  DeviceReader reader{1000};
  {
    const c10::DeviceGuard training_thread{late_device::device()};
    reader.mark(late_device::device());
  }
  std::jthread{[&] {
    reader.read(tensor, copy);
    reader.finish();
  }}.join();
  EXPECT_TRUE(is_filled_with(copy, 1));
  EXPECT_TRUE(late_device::has_context(1));
  EXPECT_FALSE(late_device::has_context(0));
}

}  // namespace
}  // namespace trainyard::checkpoint
