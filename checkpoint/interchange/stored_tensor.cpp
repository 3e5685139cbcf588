#include "checkpoint/interchange/stored_tensor.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>

#include "checkpoint/interchange/tensor_type.hpp"

namespace trainyard::checkpoint {
namespace {

std::string fault_of_sizes(const EntryInfo& info) {
  const auto elements = element_count(info.shape);
  const auto dtype = find_dtype(info.dtype);
  const std::uint64_t per_element = dtype ? dtype->element_bytes : 1;
  std::uint64_t expected = 0;
  if (elements && !__builtin_mul_overflow(*elements, per_element, &expected) &&
      (dtype            ? info.bytes == expected
       : *elements == 0 ? info.bytes == 0
                        : info.bytes % *elements == 0)) {
    return "";
  }
  return fmt::format("{} bytes are not those of {} [{}]", info.bytes, info.dtype, fmt::join(info.shape, ", "));
}

std::string fault_of_parts(const EntryInfo& info, const std::vector<Part>& parts) {
  std::uint64_t row = 0;
  for (const auto& [rank, chunk] : parts) {
    if (chunk.row_begin > chunk.row_end || chunk.row_end > row_count(info) ||
        chunk.bytes != (chunk.row_end - chunk.row_begin) * row_bytes(info)) {
      return fmt::format("the sizes of rows {} to {} contradict each other", chunk.row_begin, chunk.row_end);
    }
    if (chunk.row_begin > row) return fmt::format("rows {} to {} are in no file", row, chunk.row_begin);
    if (chunk.row_begin < row) return fmt::format("rows {} to {} are there twice", chunk.row_begin, row);
    row = chunk.row_end;
  }
  if (row < row_count(info)) return fmt::format("rows {} to {} are in no file", row, row_count(info));
  return "";
}

StoredTensor make_tensor(const EntryInfo& info, std::optional<std::int64_t> rank, std::vector<Part> parts) {
  std::stable_sort(parts.begin(), parts.end(),
                   [](const Part& a, const Part& b) { return a.chunk.row_begin < b.chunk.row_begin; });
  StoredTensor tensor{.info = info, .rank = rank, .parts = std::move(parts), .fault = fault_of_sizes(info)};
  if (tensor.fault.empty()) tensor.fault = fault_of_parts(info, tensor.parts);
  return tensor;
}

}  // namespace

std::string StoredTensor::name() const {
  return rank ? fmt::format("{}.rank-{}", info.name, *rank) : info.name;
}

std::vector<StoredTensor> stored_tensors(const Manifest& manifest) {
  std::unordered_map<std::string_view, std::vector<Part>> parts;
  for (const Receipt& receipt : manifest.receipts) {
    for (const Chunk& chunk : receipt.chunks) parts[chunk.entry].push_back({.rank = receipt.rank, .chunk = chunk});
  }
  std::vector<StoredTensor> tensors;
  for (const EntryInfo& info : manifest.entries) {
    if (info.placement != Placement::per_rank) {
      tensors.push_back(make_tensor(info, std::nullopt, parts[info.name]));
      continue;
    }
    for (const Receipt& receipt : manifest.receipts) {
      std::vector<Part> own;
      std::copy_if(parts[info.name].begin(), parts[info.name].end(), std::back_inserter(own),
                   [&](const Part& part) { return part.rank == receipt.rank; });
      tensors.push_back(make_tensor(info, receipt.rank, std::move(own)));
    }
  }
  return tensors;
}

std::vector<std::string> stray_chunks(const Manifest& manifest) {
  std::set<std::string_view> names;
  for (const EntryInfo& info : manifest.entries) names.insert(info.name);
  std::vector<std::string> faults;
  for (const Receipt& receipt : manifest.receipts) {
    for (const Chunk& chunk : receipt.chunks) {
      if (!names.contains(chunk.entry))
        faults.push_back(
            fmt::format("{}: {} is no entry of the manifest", data_key(manifest, receipt.rank), chunk.entry));
      if (chunk.bytes > receipt.bytes || chunk.offset > receipt.bytes - chunk.bytes)
        faults.push_back(
            fmt::format("{}: {} would lie beyond the file's end", data_key(manifest, receipt.rank), chunk.entry));
    }
  }
  return faults;
}

}  // namespace trainyard::checkpoint
