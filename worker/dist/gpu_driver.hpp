#pragma once

#include <cstdint>
#include <string>

namespace trainyard::dist {

/// What the NVIDIA driver says of this process's GPUs.
struct DriverAnswer {
  bool is_present = false;   ///< True when there is a driver to ask.
  std::int64_t devices = 0;  ///< How many it shows, within CUDA_VISIBLE_DEVICES.
  std::string trouble;       ///< Why it is not present, or why it could not answer; empty where it answered.
  bool operator==(const DriverAnswer&) const = default;
};

/// Asks libcuda, and neither the environment nor device files: container runtimes mean different things by those.
/// Without a GPU nothing but the dynamic linker's search is done.
[[nodiscard]] DriverAnswer ask_gpu_driver();

}  // namespace trainyard::dist
