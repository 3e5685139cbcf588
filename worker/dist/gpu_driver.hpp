#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace trainyard::dist {

/// The NVIDIA driver's answer about this process's GPUs.
struct DriverAnswer {
  bool is_present = false;   ///< True when there is a driver.
  std::int64_t devices = 0;  ///< How many GPUs the driver shows, within CUDA_VISIBLE_DEVICES.
  std::string trouble;       ///< Why the driver is missing or failed; empty when it answered.
  /// CUDA_VISIBLE_DEVICES, which the driver reads itself: with an empty value, too, which hides all GPUs.
  std::optional<std::string> visible_devices;
  bool operator==(const DriverAnswer&) const = default;
};

/// Asks libcuda. Environment variables and device files are not used, because container runtimes give them different
/// meanings. Without a driver the only cost is the dynamic linker's search.
[[nodiscard]] DriverAnswer ask_gpu_driver();

}  // namespace trainyard::dist
