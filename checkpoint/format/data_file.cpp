#include "checkpoint/format/data_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/format/rank_share.hpp"
#include "checkpoint/format/safetensors.hpp"
#include "common/try.hpp"
#include "storage/crc32c.hpp"

namespace trainyard::checkpoint {
namespace {

SafetensorsTensor tensor_of(const EntryInfo& info, const Slice& slice, std::uint64_t bytes) {
  SafetensorsTensor tensor{.name = info.name, .dtype = info.dtype, .shape = info.shape, .bytes = bytes};
  if (slice.row_end - slice.row_begin < row_count(info)) {
    tensor.name = fmt::format("{}[{}:{}]", info.name, slice.row_begin, slice.row_end);
    tensor.shape.front() = static_cast<std::int64_t>(slice.row_end - slice.row_begin);
  }
  if (!safetensors_element_bytes(info.dtype)) {
    // safetensors does not know the type: the tensor is written as bytes, with one more dimension for the element's.
    std::uint64_t elements = 1;
    for (const std::int64_t extent : tensor.shape) elements *= static_cast<std::uint64_t>(extent);
    tensor.dtype = "U8";
    tensor.shape.push_back(elements == 0 ? 1 : static_cast<std::int64_t>(bytes / elements));
  }
  return tensor;
}

// The slices of `rank`'s data file, in the file's order. Wide elements come first, so that every tensor lies at a
// multiple of its element's size, which readers that map the file need.
std::vector<Slice> file_order(std::int64_t rank, std::int64_t world_size, std::span<const HostEntry> entries,
                              std::uint64_t chunk_bytes_max) {
  std::vector<Slice> order;
  for (const Slice& slice : share_of(rank, world_size, entries)) {
    const EntryInfo& info = entries[slice.entry].info;
    const auto pieces = info.placement == Placement::sharded ? cut(slice, info, chunk_bytes_max) : std::vector{slice};
    order.insert(order.end(), pieces.begin(), pieces.end());
  }
  const auto element_bytes = [&](const Slice& slice) {
    return safetensors_element_bytes(entries[slice.entry].info.dtype).value_or(1);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](const Slice& a, const Slice& b) { return element_bytes(a) > element_bytes(b); });
  return order;
}

std::vector<std::uint32_t> checksums_of(storage::Pieces pieces) {
  std::vector<std::uint32_t> checksums;
  for (const auto& piece : pieces) checksums.push_back(storage::crc32c(piece));
  return checksums;
}

Result<Receipt> put_data(storage::Store& store, const Manifest& plan, std::int64_t rank, std::span<const Slice> slices,
                         std::span<const HostEntry> entries) {
  Receipt receipt{.rank = rank, .bytes = 0, .crc32c = 0, .chunks = {}};
  std::vector<SafetensorsTensor> tensors;
  std::vector<std::span<const std::byte>> pieces = {{}};  // The first piece becomes the header.
  for (const Slice& slice : slices) {
    const HostEntry& entry = entries[slice.entry];
    const EntryInfo& info = entry.info;
    const std::uint64_t bytes = (slice.row_end - slice.row_begin) * row_bytes(info);
    const std::span<const std::byte> piece =
        entry.bytes.subspan((slice.row_begin - held_rows(entry).begin) * row_bytes(info), bytes);
    tensors.push_back(tensor_of(info, slice, bytes));
    pieces.push_back(piece);
    receipt.chunks.push_back({.entry = info.name,
                              .row_begin = slice.row_begin,
                              .row_end = slice.row_end,
                              .offset = 0,
                              .bytes = bytes,
                              .crc32c = 0});
  }
  const std::string header = safetensors_header(
      tensors, {{"format", "pt"}, {"step", std::to_string(plan.id.step)}, {"rank", std::to_string(rank)}});
  pieces.front() = std::as_bytes(std::span{header});
  // Only the manifest needs the checksums, so they are computed while the store writes, if a thread can be started.
  auto checksums = std::async([&] { return checksums_of(std::span{pieces}.subspan(1)); });
  const auto put = store.put(data_key(plan, rank), pieces);
  const std::vector<std::uint32_t> chunk_checksums = checksums.get();
  TRY(put);

  receipt.bytes = header.size();
  receipt.crc32c = storage::crc32c(header);
  for (std::size_t i = 0; i < receipt.chunks.size(); ++i) {
    Chunk& chunk = receipt.chunks[i];
    chunk.crc32c = chunk_checksums[i];
    chunk.offset = receipt.bytes;
    receipt.bytes += chunk.bytes;
    receipt.crc32c = storage::crc32c_joined(receipt.crc32c, chunk.crc32c, chunk.bytes);
  }
  return receipt;
}

}  // namespace

Result<Receipt> write_share(storage::Store& store, const Manifest& plan, std::int64_t rank, std::int64_t world_size,
                            std::span<const HostEntry> entries, std::uint64_t chunk_bytes_max) {
  return put_data(store, plan, rank, file_order(rank, world_size, entries, chunk_bytes_max), entries);
}

Result<Receipt> write_all(storage::Store& store, const Manifest& plan, std::int64_t rank,
                          std::span<const HostEntry> entries) {
  // The share of a group of one rank is everything.
  return put_data(store, plan, rank, file_order(0, 1, entries, shard_chunk_bytes_max), entries);
}

}  // namespace trainyard::checkpoint
