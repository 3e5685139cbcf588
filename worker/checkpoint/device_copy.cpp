#include "worker/checkpoint/device_copy.hpp"

#include <algorithm>
#include <utility>

namespace trainyard::checkpoint {

std::uint64_t room_for_copy(const dist::DeviceMemory& memory, std::uint64_t training_bytes_max) {
  // A step frees its activations before the save, and needs as much again after it.
  const std::uint64_t next_step_bytes = std::max(training_bytes_max, memory.used_bytes) - memory.used_bytes;
  const std::uint64_t taken_bytes = next_step_bytes + device_reserve_bytes;
  const std::uint64_t available_bytes = memory.free_bytes + memory.cached_bytes;
  return std::max(available_bytes, taken_bytes) - taken_bytes;
}

std::optional<DeviceCopy> DeviceRoom::ask(const std::map<c10::DeviceIndex, std::uint64_t>& needed_bytes,
                                          torch::DeviceType type) {
  if (gauge_ == nullptr) return std::nullopt;
  type_ = type;
  std::optional<DeviceCopy> copy;
  for (const auto& [index, bytes] : needed_bytes) {
    const dist::DeviceMemory memory = gauge_->read({type, index});
    std::uint64_t& bytes_max = training_bytes_max_[index];
    bytes_max = std::max(bytes_max, memory.used_bytes_max);
    const std::uint64_t room_bytes = room_for_copy(memory, bytes_max);
    // All devices are read, so that the most that the training had is known of each.
    if (copy && !copy->is_made) continue;
    copy = {.is_made = bytes <= room_bytes && bytes < failed_bytes_, .needed_bytes = bytes, .room_bytes = room_bytes};
  }
  return copy;
}

void DeviceRoom::copy_failed(const DeviceCopy& copy) {
  failed_bytes_ = std::min(failed_bytes_, copy.needed_bytes);
  copies_are_freed();
}

void DeviceRoom::copies_are_freed() {
  for (const auto& [index, bytes] : training_bytes_max_) gauge_->reset_peak({type_, index});
}

bool DeviceCopyCount::add(const DeviceCopy& copy) {
  ++(copy.is_made ? with_copy_ : without_copy_);
  return std::exchange(was_made_, copy.is_made) != copy.is_made;
}

}  // namespace trainyard::checkpoint
