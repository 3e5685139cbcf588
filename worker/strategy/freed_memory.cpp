#include "worker/strategy/freed_memory.hpp"

#include <sys/mman.h>
#include <torch/types.h>
#include <torch/utils.h>
#include <unistd.h>

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

/// Whole pages for `bytes`, from the begin of a huge page on. nullptr when the system has none.
void* map_pages(std::size_t bytes) {
  const std::size_t space = bytes + huge_page_bytes;
  void* const found = mmap(nullptr, space, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (found == MAP_FAILED) return nullptr;
  auto* const first = static_cast<std::byte*>(found);
  void* aligned = found;
  std::size_t left = space;
  std::align(huge_page_bytes, bytes, aligned, left);
  auto* const begin = static_cast<std::byte*>(aligned);
  // The space around goes, so that no huge page reaches beyond `bytes`.
  if (begin != first) munmap(first, static_cast<std::size_t>(begin - first));
  if (left != bytes) munmap(begin + bytes, left - bytes);
  madvise(begin, bytes, MADV_HUGEPAGE);  // Where the kernel has no huge pages, small ones do.
  return begin;
}

}  // namespace

c10::DataPtr allocate_returned(std::size_t bytes, c10::DeviceType device) {
  c10::Allocator& torchs = *c10::GetAllocator(device);
  if (device != c10::DeviceType::CPU || bytes < mapped_bytes_min) return torchs.allocate(bytes);
  const auto page_bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t mapped = (bytes + page_bytes - 1) / page_bytes * page_bytes;
  auto mapping = std::make_unique<Mapping>(Mapping{.begin = map_pages(mapped), .bytes = mapped});
  if (mapping->begin == nullptr) return torchs.allocate(bytes);  // It throws with torch's message, or has some left.
  void* const begin = mapping->begin;
  return {begin, mapping.release(), &unmap, c10::Device{c10::DeviceType::CPU}};
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
