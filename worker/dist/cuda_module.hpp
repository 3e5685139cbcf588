#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "common/result.hpp"
#include "worker/dist/device_memory.hpp"
#include "worker/rank/environment.hpp"

namespace trainyard::dist {

/// The functions of libtrainyard_cuda.so. Only that library links CUDA and NCCL, so that neither is loaded without a
/// GPU.
struct CudaModule {
  /// Makes `device` the calling thread's. Throws as torch does.
  void (*use_device)(std::int64_t device);
  /// An NCCL backend over all ranks, connected. Makes `device` the calling thread's. Blocks until all ranks have come.
  /// Throws as torch does.
  c10::intrusive_ptr<c10d::Backend> (*make_nccl)(c10::intrusive_ptr<c10d::Store> store, std::int64_t rank,
                                                 std::int64_t world_size, std::int64_t device,
                                                 std::chrono::milliseconds timeout);
  /// The memory of `device`. Throws as torch does.
  DeviceMemory (*read_memory)(std::int64_t device);
  /// Begins the peak of read_memory() anew. Throws as torch does.
  void (*reset_memory_peak)(std::int64_t device);
};

/// The memory of CUDA devices. The module outlives the gauge.
class CudaMemoryGauge final : public DeviceMemoryGauge {
 public:
  explicit CudaMemoryGauge(const CudaModule& module) : module_{module} {}
  [[nodiscard]] DeviceMemory read(torch::Device device) override { return module_.read_memory(device.index()); }
  void reset_peak(torch::Device device) override { module_.reset_memory_peak(device.index()); }

 private:
  const CudaModule& module_;
};

/// The variable by which a user names the CUDA module's file.
inline constexpr std::string_view env_cuda_module = "TRAINYARD_CUDA_MODULE";

/// The files that may be the CUDA module, the best first. `named`, the value of TRAINYARD_CUDA_MODULE, is the only one
/// where it is set. Otherwise: the program's folder and its ../lib, the launcher's folder and its ../lib (a user's own
/// program may be anywhere), and where our images install it. Pure.
[[nodiscard]] std::vector<std::filesystem::path> cuda_module_places(const std::optional<std::string>& named,
                                                                    const std::filesystem::path& program_folder,
                                                                    const std::optional<std::string>& launcher_folder);

/// The first of `places` that exists. ErrorKind::not_found names all of them.
[[nodiscard]] Result<std::filesystem::path> first_existing(const std::vector<std::filesystem::path>& places);

/// The CUDA module's file. ErrorKind::not_found names all files that were tried.
[[nodiscard]] Result<std::filesystem::path> find_cuda_module(const rank::Environment& environment);

/// Loads the module, and with it CUDA. To be called before any tensor exists, because torch looks for CUDA only once.
/// ErrorKind::not_found as find_cuda_module(); internal when the module does not load.
[[nodiscard]] Result<const CudaModule*> load_cuda_module(const rank::Environment& environment);

}  // namespace trainyard::dist
