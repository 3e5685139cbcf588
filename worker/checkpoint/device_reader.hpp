#pragma once

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <torch/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace trainyard::checkpoint {

/// Copies tensors off their devices beside the work of the streams that made them. They come by a stream of their own
/// through two pinned buffers a device, of which one is filled while the other is emptied: pageable memory would make
/// the device's transfers wait for the host, and the whole of a state pinned would be memory that nothing else can use.
/// Used by one thread at a time. All but the constructor throw as torch does (a device that failed, no pinned memory);
/// the reader is not to be used after that.
class DeviceReader {
 public:
  /// `buffer_bytes`: of each pinned buffer, at least 1.
  explicit DeviceReader(std::uint64_t buffer_bytes = std::uint64_t{8} << 20) : buffer_bytes_{buffer_bytes} {}

  /// From here on read() reads what `device` has once the calling thread's current stream has done what is queued now.
  void mark(torch::Device device);
  /// Begins to copy the bytes of `tensor`, row by row, into `to`, which is of its size. The tensor must not change
  /// before finish().
  void read(const torch::Tensor& tensor, std::span<std::byte> to);
  /// Returns when all is copied.
  void finish();

 private:
  struct Buffer {
    torch::Tensor bytes;
    std::uint64_t used_bytes = 0;
    std::vector<std::span<std::byte>> targets;  // Where the bytes belong, from the first on.
    c10::Event copied;                          // off the device
  };
  struct Lane {
    c10::Stream stream;
    std::array<Buffer, 2> buffers;
    std::size_t current = 0;  // The buffer that is being filled.
  };

  Lane& lane_of(torch::Device device);
  void turn(Lane& lane);
  static void empty(Buffer& buffer);

  std::uint64_t buffer_bytes_;
  std::map<c10::DeviceIndex, Lane> lanes_;  // A build of torch has one kind of device.
};

}  // namespace trainyard::checkpoint
