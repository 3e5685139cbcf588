#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstdint>

#include "common/result.hpp"
#include "worker/launcher/environment.hpp"

namespace trainyard::dist {

/// What libtrainyard_cuda.so offers. All of CUDA and NCCL is behind it: without a GPU neither is loaded.
struct CudaModule {
  std::int64_t (*device_count)();
  /// Makes `device` the calling thread's.
  void (*use_device)(std::int64_t device);
  /// NCCL over all ranks; connects at once. Throws as torch does.
  c10::intrusive_ptr<c10d::Backend> (*make_nccl)(c10::intrusive_ptr<c10d::Store> store, std::int64_t rank,
                                                 std::int64_t world_size, std::int64_t device,
                                                 std::chrono::milliseconds timeout);
};

/// The module, loaded with all of CUDA; nullptr where this process sees no GPU. A rank's very first act after its
/// settings, before any tensor: torch looks for CUDA once. Looks beside the program, then in ../lib.
/// ErrorKind::not_found or internal where there is a GPU but the module is missing or does not load; the message says
/// what to do.
[[nodiscard]] Result<const CudaModule*> load_cuda_module(const launcher::Environment& environment);

/// Whether a GPU's driver is visible and the environment does not hide it.
[[nodiscard]] bool sees_gpu(const launcher::Environment& environment);

}  // namespace trainyard::dist
