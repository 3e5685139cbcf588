#include "checkpoint/interchange/tensor_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "checkpoint/interchange/safetensors_file.hpp"
#include "common/try.hpp"

namespace trainyard::checkpoint {
namespace {

// The usual endings of torch.save's files.
constexpr std::array torch_endings = {std::string_view{".pt"}, std::string_view{".pth"}, std::string_view{".bin"}};

}  // namespace

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
