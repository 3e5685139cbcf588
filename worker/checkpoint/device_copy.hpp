#pragma once

#include <torch/types.h>

#include <cstdint>
#include <limits>
#include <map>
#include <optional>

#include "worker/dist/device_memory.hpp"

/// Decides whether a state is copied on its device before it is copied to the host. Then training need not wait for the
/// copy to the host.
namespace trainyard::checkpoint {

/// How many bytes a copy leaves free, for what takes memory without torch (NCCL, cuBLAS) and for what the allocator
/// cannot use.
inline constexpr std::uint64_t device_reserve_bytes = std::uint64_t{1} << 30;

/// The bytes that a copy may take on a device, so that the next steps still have all that training has ever used.
/// `training_bytes_max`: the most that tensors of the training had at once. Pure.
[[nodiscard]] std::uint64_t room_for_copy(const dist::DeviceMemory& memory, std::uint64_t training_bytes_max);

/// The memory that a copy of a state on its device needs, and that which is there.
struct DeviceCopy {
  bool is_made = false;
  std::uint64_t needed_bytes = 0;
  std::uint64_t room_bytes = 0;
  bool operator==(const DeviceCopy&) const = default;
};

/// Asks at each save whether the state fits on its devices. One thread at a time.
class DeviceRoom {
 public:
  /// `gauge` outlives the room. nullptr: the devices' memory is not known, and nothing is copied there.
  explicit DeviceRoom(dist::DeviceMemoryGauge* gauge) : gauge_{gauge} {}

  /// `needed_bytes`: what the state takes on each device. With several devices the result is for the first device
  /// without room, or for the last device if all have room. Nothing: the state is on no device, or the memory is not
  /// known. Throws as torch does.
  [[nodiscard]] std::optional<DeviceCopy> ask(const std::map<c10::DeviceIndex, std::uint64_t>& needed_bytes,
                                              torch::DeviceType type);
  /// To be called when `copy` found no memory after all. A copy of as many bytes is then not made again, as each try
  /// would make the allocator give back what training has cached. Throws as torch does.
  void copy_failed(const DeviceCopy& copy);
  /// To be called when the memory of the copies is given back, so that later calls of ask() do not take the copies for
  /// a need of the training. Throws as torch does.
  void copies_are_freed();

 private:
  dist::DeviceMemoryGauge* gauge_;
  torch::DeviceType type_ = torch::kCPU;                                    // Type of the devices below.
  std::map<c10::DeviceIndex, std::uint64_t> training_bytes_max_;            // By device.
  std::uint64_t failed_bytes_ = std::numeric_limits<std::uint64_t>::max();  // The smallest copy that failed.
};

/// Counts the saves with and without a copy on the device.
class DeviceCopyCount {
 public:
  /// Returns true when `copy` was made and the copy before it was not, or the other way round; true for the first copy.
  bool add(const DeviceCopy& copy);
  [[nodiscard]] std::int64_t with_copy() const { return with_copy_; }
  [[nodiscard]] std::int64_t without_copy() const { return without_copy_; }

 private:
  std::int64_t with_copy_ = 0;
  std::int64_t without_copy_ = 0;
  std::optional<bool> was_made_;
};

}  // namespace trainyard::checkpoint
