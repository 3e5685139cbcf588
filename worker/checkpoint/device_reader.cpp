#include "worker/checkpoint/device_reader.hpp"

#include <ATen/Functions.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "common/check.hpp"
#include "common/parallel.hpp"

namespace trainyard::checkpoint {
namespace {

/// A part of a pinned buffer, and where its bytes go.
struct Piece {
  const std::byte* from;
  std::span<std::byte> to;
};

/// One thread takes so many bytes at a time, so that threads can share one large tensor.
constexpr std::size_t piece_bytes_max = std::size_t{1} << 20;

std::vector<Piece> pieces_of(const std::byte* from, std::span<const std::span<std::byte>> targets) {
  std::vector<Piece> pieces;
  for (std::span<std::byte> target : targets) {
    while (!target.empty()) {
      const std::size_t count = std::min(target.size(), piece_bytes_max);
      pieces.push_back({.from = from, .to = target.first(count)});
      from += count;
      target = target.subspan(count);
    }
  }
  return pieces;
}

// Resolves conjugated and negated views, whose bytes alone are not their values.
torch::Tensor plain_bytes_of(const torch::Tensor& tensor) {
  return tensor.resolve_conj().resolve_neg().contiguous().view({-1}).view(torch::kByte);
}

}  // namespace

void DeviceReader::mark(torch::Device device) {
  c10::Event queued{device.type()};
  queued.record(c10::impl::VirtualGuardImpl{device.type()}.getStream(device));
  queued.block(double_buffer_of(device).stream);
}

void DeviceReader::read(const torch::Tensor& tensor, std::span<std::byte> to) {
  if (to.empty()) return;
  DoubleBuffer& double_buffer = double_buffer_of(tensor.device());
  const c10::StreamGuard guard{double_buffer.stream};
  const torch::Tensor bytes = plain_bytes_of(tensor);
  for (std::uint64_t done = 0; done < to.size();) {
    Buffer* buffer = &double_buffer.buffers[double_buffer.current];
    if (buffer->used_bytes == buffer_bytes_) {
      swap_buffers(double_buffer);
      buffer = &double_buffer.buffers[double_buffer.current];
    }
    const std::uint64_t count = std::min(to.size() - done, buffer_bytes_ - buffer->used_bytes);
    const auto length = static_cast<std::int64_t>(count);
    buffer->bytes.narrow(0, static_cast<std::int64_t>(buffer->used_bytes), length)
        .copy_(bytes.narrow(0, static_cast<std::int64_t>(done), length), /*non_blocking=*/true);
    buffer->targets.push_back(to.subspan(done, count));
    buffer->used_bytes += count;
    done += count;
  }
}

void DeviceReader::finish() {
  for (auto& [index, double_buffer] : double_buffers_) {
    // torch returns to the calling thread's device after an event. To a new thread that is device 0, where CUDA would
    // then make a context: half a gigabyte for each rank of the node.
    const c10::DeviceGuard guard{double_buffer.stream.device()};
    swap_buffers(double_buffer);
    swap_buffers(double_buffer);
  }
}

DeviceReader::DoubleBuffer& DeviceReader::double_buffer_of(torch::Device device) {
  if (const auto found = double_buffers_.find(device.index()); found != double_buffers_.end()) return found->second;
  const auto make_buffer = [&] {
    const auto options = at::TensorOptions{}.dtype(torch::kByte).device(torch::kCPU).pinned_memory(true);
    return Buffer{.bytes = at::empty({static_cast<std::int64_t>(buffer_bytes_)}, options),
                  .targets = {},
                  .copied = c10::Event{device.type()}};
  };
  DoubleBuffer double_buffer{.stream = c10::impl::VirtualGuardImpl{device.type()}.getStreamFromGlobalPool(device),
                             .buffers = {make_buffer(), make_buffer()}};
  return double_buffers_.emplace(device.index(), std::move(double_buffer)).first->second;
}

// Leaves the current buffer to the device, waits for the other buffer's bytes, and empties that one.
void DeviceReader::swap_buffers(DoubleBuffer& double_buffer) {
  double_buffer.buffers[double_buffer.current].copied.record(double_buffer.stream);
  double_buffer.current = 1 - double_buffer.current;
  empty(double_buffer.buffers[double_buffer.current]);
}

void DeviceReader::empty(Buffer& buffer) const {
  if (buffer.targets.empty()) return;
  buffer.copied.synchronize();
  const auto pieces = pieces_of(static_cast<const std::byte*>(buffer.bytes.const_data_ptr()), buffer.targets);
  const auto parts =
      split_by_weight(std::span{pieces}, thread_count_, [](const Piece& piece) { return piece.to.size(); });
  const auto copied = parallel_for(std::span{parts}, [](std::span<const Piece> part, const std::atomic<bool>&) {
    // memcpy, since torch's copy would use all threads of the training step.
    for (const Piece& piece : part) std::memcpy(piece.to.data(), piece.from, piece.to.size());
    return Result<void>{};
  });
  check(copied.has_value(), "a copy in memory has no error");
  buffer.targets.clear();
  buffer.used_bytes = 0;
}

}  // namespace trainyard::checkpoint
