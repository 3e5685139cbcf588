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

/// Copies tensors off their devices while the streams that made them go on. Each device has a stream and two pinned
/// buffers for this: one buffer is filled while the other is emptied. Pageable memory would make the transfers wait for
/// the host; pinning memory for a whole state would take too much. A GPU fills a buffer several times faster than one
/// thread empties it, so that several threads may.
/// One thread at a time. All calls but the constructor throw as torch does (a failed device, no pinned memory); after
/// that the reader must not be used.
class DeviceReader {
 public:
  /// `buffer_bytes`: the size of each pinned buffer, at least 1.
  explicit DeviceReader(std::uint64_t buffer_bytes = std::uint64_t{32} << 20) : buffer_bytes_{buffer_bytes} {}

  /// How many threads empty a buffer from now on, at least 1. It begins with 1.
  void use_threads(std::size_t count) { thread_count_ = count; }

  /// After mark(), read() sees `device` as it is when the work queued now on the calling thread's current stream is
  /// done.
  void mark(torch::Device device);
  /// Begins to copy the bytes of `tensor`, row by row, into `to`, which has the same size. The tensor must not change
  /// before finish().
  void read(const torch::Tensor& tensor, std::span<std::byte> to);
  /// Returns when everything is copied.
  void finish();

 private:
  struct Buffer {
    torch::Tensor bytes;
    std::uint64_t used_bytes = 0;
    std::vector<std::span<std::byte>> targets;  // Where the bytes go, in order.
    c10::Event copied;                          // Recorded after the copies from the device.
  };
  struct DoubleBuffer {
    c10::Stream stream;
    std::array<Buffer, 2> buffers;
    std::size_t current = 0;  // The buffer that is being filled.
  };

  DoubleBuffer& double_buffer_of(torch::Device device);
  void swap_buffers(DoubleBuffer& double_buffer);
  void empty(Buffer& buffer) const;

  std::uint64_t buffer_bytes_;
  std::size_t thread_count_ = 1;
  std::map<c10::DeviceIndex, DoubleBuffer>
      double_buffers_;  // By index alone, since a build of torch has one kind of device.
};

}  // namespace trainyard::checkpoint
