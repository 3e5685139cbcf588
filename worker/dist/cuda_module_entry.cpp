#include <cuda_runtime_api.h>

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

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

}  // namespace
}  // namespace trainyard::dist

extern "C" __attribute__((visibility("default"))) const trainyard::dist::CudaModule* trainyard_cuda_module() {
  static constexpr trainyard::dist::CudaModule module{
      .use_device = trainyard::dist::use_device,
      .make_nccl = trainyard::dist::make_nccl,
  };
  return &module;
}
