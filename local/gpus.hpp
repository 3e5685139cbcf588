#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/device_spec.hpp"
#include "common/result.hpp"

namespace trainyard::local {

/// The GPUs that this process may assign, by their names for CUDA_VISIBLE_DEVICES: none if `device_folder` has no
/// nvidia<N>; else those in `visible_devices` up to the first that is empty or -1; or, where that is not set, numbers
/// from 0, one for each nvidia<N>.
[[nodiscard]] std::vector<std::string> find_gpus(const std::optional<std::string>& visible_devices,
                                                 std::string_view device_folder = "/dev");

/// The GPUs of `gpus` that `choice` asks for. Pure. ErrorKind::invalid names what is asked for and what there is.
[[nodiscard]] Result<std::vector<std::string>> choose_gpus(const api::DeviceChoice& choice,
                                                           const std::vector<std::string>& gpus);

/// The UUIDs of the GPUs in `gpus` on which no process computes, by NVIDIA's management library. Numbers are
/// that library's, which on a machine with unlike GPUs may differ from CUDA's. A process of another container may not
/// be seen. Errors: unavailable where the library cannot be loaded or does not answer; not_found where it knows no such
/// GPU.
[[nodiscard]] Result<std::vector<std::string>> find_free_gpus(const std::vector<std::string>& gpus,
                                                              const std::string& library = "libnvidia-ml.so.1");

/// The GPUs of `free` that `choice` asks for; all of `free` without a choice. `free` are the GPUs that no process uses,
/// of `gpu_count` in this machine. `choice` lists no numbers. Pure. ErrorKind::unavailable, with how many are in use,
/// where fewer are free than are asked for, or none is.
[[nodiscard]] Result<std::vector<std::string>> choose_free_gpus(const std::optional<api::DeviceChoice>& choice,
                                                                std::vector<std::string> free, std::size_t gpu_count);

/// `gpus` without `taken`. Each name in `taken` removes one equal name: a name that occurs twice is two GPUs.
[[nodiscard]] std::vector<std::string> without_taken(std::vector<std::string> gpus,
                                                     const std::vector<std::string>& taken);

}  // namespace trainyard::local
