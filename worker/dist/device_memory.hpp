#pragma once

#include <torch/types.h>

#include <cstdint>

namespace trainyard::dist {

/// The memory of a device, as its driver and torch's allocator see it.
struct DeviceMemory {
  std::uint64_t free_bytes = 0;      ///< No process has them.
  std::uint64_t cached_bytes = 0;    ///< torch's allocator holds them in whole segments in which no tensor lies.
  std::uint64_t used_bytes = 0;      ///< Tensors of this process have them.
  std::uint64_t used_bytes_max = 0;  ///< The most that tensors of this process had since the peak was reset.
};

/// Tells the memory of devices. Any thread may call. Throws as torch does.
class DeviceMemoryGauge {
 public:
  virtual ~DeviceMemoryGauge() = default;
  /// Waits for no work of the device.
  [[nodiscard]] virtual DeviceMemory read(torch::Device device) = 0;
  /// `used_bytes_max` begins anew.
  virtual void reset_peak(torch::Device device) = 0;
};

}  // namespace trainyard::dist
