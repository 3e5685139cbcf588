#include "worker/strategy/freed_memory.hpp"

#include <sys/mman.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <memory>
#include <utility>

namespace trainyard::strategy {
namespace {

constexpr std::size_t mapped_bytes_min = std::size_t{1} << 20;
constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

struct Mapping {
  void* begin = nullptr;
  std::size_t bytes = 0;
};

void unmap(void* context) {
  const std::unique_ptr<Mapping> mapping{static_cast<Mapping*>(context)};
  munmap(mapping->begin, mapping->bytes);
}

}  // namespace

c10::DataPtr allocate_returned(std::size_t bytes, c10::DeviceType device) {
  c10::Allocator& torchs = *c10::GetAllocator(device);
  if (device != c10::DeviceType::CPU || bytes < mapped_bytes_min) return torchs.allocate(bytes);
  // One huge page more than needed, so that the tensor can begin at one. Untouched pages take no memory.
  std::size_t space = bytes + huge_page_bytes;
  auto mapping = std::make_unique<Mapping>(Mapping{.begin = nullptr, .bytes = space});
  mapping->begin = mmap(nullptr, space, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping->begin == MAP_FAILED) return torchs.allocate(bytes);  // It throws with torch's message, or has some left.
  void* data = mapping->begin;
  std::align(huge_page_bytes, bytes, data, space);
  // Not for the space around: the tensor's last huge page would take memory there. An error is ignored, because small
  // pages do where the kernel has no huge ones.
  madvise(data, bytes, MADV_HUGEPAGE);
  return {data, mapping.release(), &unmap, c10::Device{c10::DeviceType::CPU}};
}

torch::Tensor make_buffer(std::int64_t count, const torch::TensorOptions& options, FreedMemory freed) {
  if (freed == FreedMemory::kept || !options.device().is_cpu()) return torch::empty({count}, options);
  const std::size_t bytes = static_cast<std::size_t>(count) * options.dtype().itemsize();
  auto memory = std::make_shared<c10::DataPtr>(allocate_returned(bytes, c10::DeviceType::CPU));
  void* const data = memory->get();
  return torch::from_blob(
      data, {count}, [memory = std::move(memory)](void*) {}, options);
}

}  // namespace trainyard::strategy
