#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <algorithm>

#include "worker/dist/cuda_module.hpp"

namespace trainyard::dist {
namespace {

void use_device(std::int64_t device) {
  C10_CUDA_CHECK(cudaSetDevice(static_cast<int>(device)));
}

c10::intrusive_ptr<c10d::Backend> make_nccl(c10::intrusive_ptr<c10d::Store> store, std::int64_t rank,
                                            std::int64_t world_size, std::int64_t device,
                                            std::chrono::milliseconds timeout) {
  use_device(device);  // A thread of its own may connect. A context on device 0 would take its memory.
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = timeout;
  auto backend = c10::make_intrusive<c10d::ProcessGroupNCCL>(std::move(store), static_cast<int>(rank),
                                                             static_cast<int>(world_size), std::move(options));
  // Connects now, so that a failure belongs to the rendezvous and not to the first collective.
  backend->eagerConnectSingleDevice(at::Device{at::kCUDA, static_cast<at::DeviceIndex>(device)});
  return backend;
}

DeviceMemory read_memory(std::int64_t device) {
  namespace allocator = c10::cuda::CUDACachingAllocator;
  const auto index = static_cast<c10::DeviceIndex>(device);
  const c10::cuda::CUDAGuard guard{index};
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  C10_CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
  const allocator::DeviceStats stats = allocator::getDeviceStats(index);
  constexpr auto all = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  const auto bytes = [](std::int64_t count) { return static_cast<std::uint64_t>(std::max<std::int64_t>(count, 0)); };
  // The free rest of a segment in which a tensor lies is left out: a large tensor may not fit there.
  return {.free_bytes = free_bytes,
          .cached_bytes = bytes(stats.reserved_bytes[all].current - stats.active_bytes[all].current -
                                stats.inactive_split_bytes[all].current),
          .used_bytes = bytes(stats.allocated_bytes[all].current),
          .used_bytes_max = bytes(stats.allocated_bytes[all].peak)};
}

void reset_memory_peak(std::int64_t device) {
  c10::cuda::CUDACachingAllocator::resetPeakStats(static_cast<c10::DeviceIndex>(device));
}

}  // namespace
}  // namespace trainyard::dist

// The name ends with the number of the form of CudaModule, so that a program never takes a module of another form.
extern "C" __attribute__((visibility("default"))) const trainyard::dist::CudaModule* trainyard_cuda_module_2() {
  static constexpr trainyard::dist::CudaModule module{
      .use_device = trainyard::dist::use_device,
      .make_nccl = trainyard::dist::make_nccl,
      .read_memory = trainyard::dist::read_memory,
      .reset_memory_peak = trainyard::dist::reset_memory_peak,
  };
  return &module;
}
