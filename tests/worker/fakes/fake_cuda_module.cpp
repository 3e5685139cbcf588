// A CUDA module whose GPUs cannot be used: the error of a rank says which one it has chosen.
#include <stdexcept>

#include "worker/dist/cuda_module.hpp"

namespace {

void refuse_device(std::int64_t /*device*/) {
  throw std::runtime_error{"the module is a fake"};
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const trainyard::dist::CudaModule* trainyard_cuda_module_2() {
  static constexpr trainyard::dist::CudaModule module{
      .use_device = refuse_device, .make_nccl = nullptr, .read_memory = nullptr, .reset_memory_peak = nullptr};
  return &module;
}
