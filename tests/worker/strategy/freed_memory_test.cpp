#include "worker/strategy/freed_memory.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/fakes/resident_bytes.hpp"
#include "worker/dist/process_settings.hpp"

namespace trainyard::strategy {
namespace {

constexpr std::int64_t mebibyte = 1 << 20;

/// Ends with 0 when the process keeps at least half of the memory of 16 freed buffers of 4 MiB.
[[noreturn]] void free_buffers_and_exit(FreedMemory freed) {
  constexpr std::int64_t count = 16;
  static_cast<void>(dist::apply_process_settings({}));
  std::vector<torch::Tensor> buffers;
  const std::int64_t before = fakes::resident_bytes();
  for (std::int64_t index = 0; index < count; ++index) {
    buffers.push_back(make_buffer(mebibyte, torch::kFloat32, freed));
    // Not by an operator: its threads are not there after a fork.
    std::memset(buffers.back().mutable_data_ptr(), 1, buffers.back().nbytes());
  }
  buffers.clear();
  _exit(fakes::resident_bytes() >= before + count * 4 * mebibyte / 2 ? 0 : 1);
}

TEST(FreedMemoryOfBuffers, StaysWithTheProcessOrGoesBackToTheSystem) {
  // The allocator's settings hold for a whole process.
  EXPECT_EXIT(free_buffers_and_exit(FreedMemory::kept), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(free_buffers_and_exit(FreedMemory::returned), testing::ExitedWithCode(1), "");
}

TEST(FreedMemoryOfBuffers, IsThatOfItsLastView) {
  torch::Tensor buffer = make_buffer(mebibyte, torch::kFloat64, FreedMemory::returned);
  const torch::Tensor end = buffer.fill_(2).narrow(0, mebibyte - 3, 3);
  buffer.reset();
  EXPECT_TRUE(end.equal(torch::full({3}, 2, torch::kFloat64)));
}

TEST(FreedMemoryOfBuffers, TakesNoMoreThanTheirBytesWhileTheyAreThere) {
  // A little more than half of a huge page each.
  constexpr std::int64_t count = 32, elements = mebibyte + mebibyte / 8;
  std::vector<torch::Tensor> buffers;
  const std::int64_t before = fakes::resident_bytes();
  for (std::int64_t index = 0; index < count; ++index) {
    buffers.push_back(make_buffer(elements, torch::kUInt8, FreedMemory::returned));
    std::memset(buffers.back().mutable_data_ptr(), 1, buffers.back().nbytes());
  }
  EXPECT_LT(fakes::resident_bytes() - before, count * elements * 5 / 4);
}

TEST(AllocateReturned, GivesLargeTensorsPagesOfTheirOwnAndLeavesSmallOnesToTorch) {
  const auto allocate = [](std::int64_t bytes) {
    return allocate_returned(static_cast<std::size_t>(bytes), c10::DeviceType::CPU);
  };
  const auto torchs = c10::GetAllocator(c10::DeviceType::CPU)->allocate(8).get_deleter();
  EXPECT_EQ(allocate(mebibyte - 1).get_deleter(), torchs);
  EXPECT_NE(allocate(mebibyte).get_deleter(), torchs);
  for (const std::int64_t bytes : {mebibyte, 3 * mebibyte + 5}) {
    const c10::DataPtr memory = allocate(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.get()) % (2 * mebibyte), 0U);
    static_cast<char*>(memory.get())[bytes - 1] = 1;
  }
}

TEST(AllocateReturned, ThrowsAsTorchDoesWithoutMemory) {
  EXPECT_THROW(static_cast<void>(allocate_returned(std::size_t{1} << 62, c10::DeviceType::CPU)), c10::Error);
}

}  // namespace
}  // namespace trainyard::strategy
