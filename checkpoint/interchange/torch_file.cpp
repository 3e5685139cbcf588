#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>

#include "checkpoint/interchange/pickle.hpp"
#include "checkpoint/interchange/tensor_file.hpp"
#include "checkpoint/interchange/tensor_type.hpp"
#include "checkpoint/interchange/zip_reader.hpp"
#include "common/try.hpp"

namespace trainyard::checkpoint {
namespace {

constexpr std::string_view pickle_ending = "/data.pkl";
constexpr std::uint64_t pickle_bytes_max = std::uint64_t{32} << 20;
// Tied weights have several names, and some views repeat their elements many times. A file that grows more than this is
// hostile.
constexpr std::uint64_t growth_max = 8;
constexpr std::uint64_t growth_free_bytes = std::uint64_t{64} << 20;

// torch.save puts everything into one folder, named after the file or "archive". Returns "x/" for the folder x.
Result<std::string> find_root(const ZipReader& zip) {
  std::string root;
  for (const auto& [name, entry] : zip.entries()) {
    if (!name.ends_with(pickle_ending) || name.find('/') != name.size() - pickle_ending.size()) continue;
    if (!root.empty()) return fail(ErrorKind::invalid, "its zip archive holds several data.pkl");
    root = name.substr(0, name.size() - pickle_ending.size() + 1);
  }
  if (root.empty()) return fail(ErrorKind::invalid, "its zip archive holds no data.pkl, as torch.save writes one");
  if (zip.entries().contains(root + "constants.pkl")) {
    return fail(ErrorKind::invalid,
                "it is a TorchScript program: in Python, torch.save(torch.jit.load(FILE).state_dict(), ANOTHER)");
  }
  return root;
}

Result<std::span<std::byte>> read_record(const ZipReader& zip, const std::string& name, TensorBuffers& buffers) {
  const auto found = zip.entries().find(name);
  if (found == zip.entries().end())
    return fail(ErrorKind::corrupt, fmt::format("its zip archive is damaged: {} is missing", name));
  return zip.read(found->second, buffers.emplace_back());
}

Result<std::vector<UnpickledTensor>> read_dict(const ZipReader& zip, const std::string& root) {
  TensorBuffers buffers;
  if (zip.entries().at(root + "data.pkl").bytes > pickle_bytes_max)
    return fail(ErrorKind::invalid, fmt::format("its data.pkl is of more than {} bytes", pickle_bytes_max));
  const auto pickle = TRY(read_record(zip, root + "data.pkl", buffers));
  return unpickle_tensors({reinterpret_cast<const char*>(pickle.data()), pickle.size()});
}

Result<void> check_byte_order(const ZipReader& zip, const std::string& root) {
  const std::string name = root + "byteorder";
  if (!zip.entries().contains(name)) return {};  // Older files do not say, and are little-endian.
  constexpr std::string_view ours = "little";
  if (zip.entries().at(name).bytes == ours.size()) {
    TensorBuffers buffers;
    const auto order = TRY(read_record(zip, name, buffers));
    if (std::memcmp(order.data(), ours.data(), ours.size()) == 0) return {};
  }
  return fail(ErrorKind::invalid, "it was saved on a big-endian machine, and is not read here");
}

// Limits both the unpacked records and the tensors' memory.
Result<void> check_growth(const ZipReader& zip, const std::vector<UnpickledTensor>& tensors, std::uint64_t file_bytes) {
  const std::uint64_t bytes_max = growth_max * file_bytes + growth_free_bytes;
  std::uint64_t packed_sum = 0;
  for (const auto& [name, entry] : zip.entries()) {
    if (__builtin_add_overflow(packed_sum, entry.bytes, &packed_sum)) packed_sum = UINT64_MAX;
    if (packed_sum > bytes_max) break;
  }
  std::uint64_t sum = 0;
  for (const UnpickledTensor& tensor : tensors) {
    const auto bytes = byte_count(tensor.shape, tensor.dtype.element_bytes);
    if (!bytes || __builtin_add_overflow(sum, *bytes, &sum) || sum > bytes_max) sum = bytes_max + 1;
    if (sum > bytes_max) break;
  }
  if (sum <= bytes_max && packed_sum <= bytes_max) return {};
  return fail(ErrorKind::invalid, fmt::format("its tensors would be of more than {} bytes, and it is of {}: in Python, "
                                              "tensor.contiguous() before torch.save",
                                              bytes_max, file_bytes));
}

// A dimension of extent 1 may have any stride.
bool is_contiguous(const UnpickledTensor& tensor) {
  std::int64_t expected = 1;
  for (std::size_t i = tensor.shape.size(); i-- > 0;) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != expected) return false;
    expected *= tensor.shape[i];
  }
  return true;
}

// Copies the view's elements in order. The tensor has elements, and all lie in the storage.
std::vector<std::byte> gather(const UnpickledTensor& tensor, std::span<const std::byte> storage) {
  const std::uint64_t element = tensor.dtype.element_bytes;
  std::vector<std::byte> gathered(*byte_count(tensor.shape, element));
  std::vector<std::int64_t> index(tensor.shape.size(), 0);
  std::uint64_t place = tensor.offset;
  for (std::uint64_t done = 0; done < gathered.size(); done += element) {
    std::memcpy(gathered.data() + done, storage.data() + place * element, element);
    for (std::size_t i = index.size(); i-- > 0;) {
      const auto stride = static_cast<std::uint64_t>(tensor.strides[i]);
      place += stride;
      if (++index[i] < tensor.shape[i]) break;
      place -= stride * static_cast<std::uint64_t>(tensor.shape[i]);
      index[i] = 0;
    }
  }
  return gathered;
}

std::span<std::byte> bytes_of(const UnpickledTensor& tensor, std::span<std::byte> storage, TensorBuffers& buffers) {
  const std::uint64_t bytes = *byte_count(tensor.shape, tensor.dtype.element_bytes);
  if (bytes == 0) return {};
  if (is_contiguous(tensor)) return storage.subspan(tensor.offset * tensor.dtype.element_bytes, bytes);
  return buffers.emplace_back(gather(tensor, storage));
}

}  // namespace

Result<std::vector<ForeignTensor>> read_torch(std::span<std::byte> file, TensorBuffers& buffers) {
  const auto zip = TRY(ZipReader::open(file));
  const auto root = TRY(find_root(zip));
  const auto dict = TRY(read_dict(zip, root));
  TRY(check_byte_order(zip, root).and_then([&] { return check_growth(zip, dict, file.size()); }));
  std::map<std::string, std::span<std::byte>> storages;
  std::vector<ForeignTensor> tensors;
  for (const UnpickledTensor& tensor : dict) {
    if (!storages.contains(tensor.record)) {
      const auto storage = read_record(zip, root + "data/" + tensor.record, buffers);
      if (!storage) return fail(tensor.name, storage.error());
      storages.emplace(tensor.record, *storage);
    }
    const std::span<std::byte> storage = storages.at(tensor.record);
    if (storage.size() != tensor.storage_bytes) {
      return fail(ErrorKind::corrupt, fmt::format("the storage of {} is of {} bytes, and its data.pkl says {}",
                                                  tensor.name, storage.size(), tensor.storage_bytes));
    }
    tensors.push_back({.name = tensor.name,
                       .dtype = tensor.dtype,
                       .shape = tensor.shape,
                       .bytes = bytes_of(tensor, storage, buffers)});
  }
  return tensors;
}

}  // namespace trainyard::checkpoint
