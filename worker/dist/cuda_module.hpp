#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "common/result.hpp"
#include "worker/rank/environment.hpp"

namespace trainyard::dist {

/// What libtrainyard_cuda.so offers. All of CUDA and NCCL is behind it: without a GPU neither is loaded.
struct CudaModule {
  /// Makes `device` the calling thread's. Throws as torch does.
  void (*use_device)(std::int64_t device);
  /// NCCL over all ranks; connects at once. Throws as torch does.
  c10::intrusive_ptr<c10d::Backend> (*make_nccl)(c10::intrusive_ptr<c10d::Store> store, std::int64_t rank,
                                                 std::int64_t world_size, std::int64_t device,
                                                 std::chrono::milliseconds timeout);
};

/// The variable by which a user names the file of the CUDA module; without it the file is looked for.
inline constexpr std::string_view env_cuda_module = "TRAINYARD_CUDA_MODULE";

/// Where the CUDA module may be, the best place first: only `named`, the value of TRAINYARD_CUDA_MODULE, where it is
/// set; else in the program's folder and in ../lib, in the launcher's folder and its ../lib, since a user's own program
/// may be anywhere, and where our images install it. Pure.
[[nodiscard]] std::vector<std::filesystem::path> cuda_module_places(const std::optional<std::string>& named,
                                                                    const std::filesystem::path& program_folder,
                                                                    const std::optional<std::string>& launcher_folder);

/// The first of `places` that exists. ErrorKind::not_found names all of them.
[[nodiscard]] Result<std::filesystem::path> first_existing(const std::vector<std::filesystem::path>& places);

/// The CUDA module's file. ErrorKind::not_found names all places where it was looked for.
[[nodiscard]] Result<std::filesystem::path> find_cuda_module(const rank::Environment& environment);

/// The module, loaded with all of CUDA. A rank's very first act after its settings, before any tensor: torch looks for
/// CUDA once. ErrorKind::not_found as above; internal when it does not load.
[[nodiscard]] Result<const CudaModule*> load_cuda_module(const rank::Environment& environment);

}  // namespace trainyard::dist
