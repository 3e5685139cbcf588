#include "checkpoint/interchange/tensor_file.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include "checkpoint/interchange/safetensors_file.hpp"
#include "common/try.hpp"
#include "storage/posix.hpp"

namespace trainyard::checkpoint {
namespace {

// The usual endings of torch.save's files.
constexpr std::array torch_endings = {std::string_view{".pt"}, std::string_view{".pth"}, std::string_view{".bin"}};

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  const auto failed_to = [&](std::string_view what) {
    return tl::unexpected(storage::posix::error_of(errno, fmt::format("{} {}", what, path)));
  };
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return failed_to("opening");
  if (!S_ISREG(status.st_mode)) return fail(ErrorKind::invalid, fmt::format("{} is no file", path));
  const auto file = TRY(storage::posix::open_for_reading(path));
  if (::fstat(file.get(), &status) != 0) return failed_to("looking at");
  if (status.st_size == 0) return fail(ErrorKind::invalid, fmt::format("{} is empty", path));
  const auto size = static_cast<std::size_t>(status.st_size);
  // MAP_NORESERVE, since a file may be larger than this machine's memory.
  void* const begin = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file.get(), 0);
  if (begin == MAP_FAILED) return failed_to("mapping");
  return MappedFile{std::span{static_cast<std::byte*>(begin), size}};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

Result<std::vector<ForeignTensor>> read_safetensors(std::span<std::byte> file) {
  const std::string_view text{reinterpret_cast<const char*>(file.data()), file.size()};
  const auto length = TRY(read_safetensors_length(text));
  if (length > file.size() - safetensors_length_bytes)
    return fail(ErrorKind::corrupt, "it is no safetensors file, or cut off: it ends within its header");
  const auto entries = TRY(parse_safetensors_header(text.substr(safetensors_length_bytes, length)));
  const std::uint64_t end =
      entries.empty() ? safetensors_length_bytes + length : entries.back().offset + entries.back().bytes;
  if (end != file.size()) {
    return fail(ErrorKind::corrupt, fmt::format("it is of {} bytes, and its header describes {}: it is cut off, or "
                                                "something follows it",
                                                file.size(), end));
  }
  std::vector<ForeignTensor> tensors;
  for (const SafetensorsEntry& entry : entries) {
    tensors.push_back({.name = entry.name,
                       .dtype = entry.dtype,
                       .shape = entry.shape,
                       .bytes = file.subspan(entry.offset, entry.bytes)});
  }
  return tensors;
}

bool TensorFile::is_known(std::string_view path) {
  return path.ends_with(safetensors_ending) ||
         std::any_of(torch_endings.begin(), torch_endings.end(),
                     [&](std::string_view ending) { return path.ends_with(ending); });
}

Result<TensorFile> TensorFile::open(const std::string& path) {
  auto file = TRY(MappedFile::open(path));
  TensorBuffers buffers;
  auto tensors =
      path.ends_with(safetensors_ending) ? read_safetensors(file.bytes()) : read_torch(file.bytes(), buffers);
  if (!tensors) return fail(path, tensors.error());
  if (tensors->empty()) return fail(ErrorKind::invalid, fmt::format("{}: it holds no tensor", path));
  return TensorFile{std::move(file), std::move(buffers), std::move(*tensors)};
}

}  // namespace trainyard::checkpoint
