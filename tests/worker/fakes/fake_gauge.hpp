#pragma once

#include "worker/dist/device_memory.hpp"

namespace trainyard::fakes {

/// Tells the memory that the test sets, of any device. It begins with none.
class FakeGauge final : public dist::DeviceMemoryGauge {
 public:
  [[nodiscard]] dist::DeviceMemory read(torch::Device /*device*/) override { return memory; }
  void reset_peak(torch::Device /*device*/) override { ++resets; }

  dist::DeviceMemory memory;
  int resets = 0;
};

}  // namespace trainyard::fakes
