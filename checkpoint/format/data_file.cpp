#include "checkpoint/format/data_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/format/safetensors.hpp"
#include "common/try.hpp"
#include "storage/crc32c.hpp"

namespace trainyard::checkpoint {
namespace {

constexpr std::uint64_t cut_bytes_min = std::uint64_t{1} << 20;

// The entry begins at byte `begin` of all replicated bytes. Returns the entry's row before which a cut near byte `cut`
// falls.
std::uint64_t row_at(const EntryInfo& info, std::uint64_t begin, std::uint64_t cut) {
  if (cut <= begin) return 0;
  if (cut >= begin + info.bytes) return row_count(info);
  // Rows of less than a byte cannot be told apart.
  const bool is_one_piece = info.bytes < cut_bytes_min || row_bytes(info) == 0;
  if (is_one_piece) return (cut - begin) * 2 >= info.bytes ? row_count(info) : 0;
  return (cut - begin) / row_bytes(info);
}

SafetensorsTensor tensor_of(const EntryInfo& info, const Slice& slice, std::uint64_t bytes) {
  SafetensorsTensor tensor{.name = info.name, .dtype = info.dtype, .shape = info.shape, .bytes = bytes};
  if (slice.row_end - slice.row_begin < row_count(info)) {
    tensor.name = fmt::format("{}[{}:{}]", info.name, slice.row_begin, slice.row_end);
    tensor.shape.front() = static_cast<std::int64_t>(slice.row_end - slice.row_begin);
  }
  if (!safetensors_element_bytes(info.dtype)) {
    // safetensors does not know the type: the tensor is written as bytes,
    // with a last dimension that holds the bytes of one element.
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

Result<Receipt> put_data(storage::Store& store, const Manifest& manifest, std::int64_t rank,
                         std::span<const Slice> slices, std::span<const HostEntry> entries) {
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
      tensors, {{"format", "pt"}, {"step", std::to_string(manifest.id.step)}, {"rank", std::to_string(rank)}});
  pieces.front() = std::as_bytes(std::span{header});
  // Only the manifest needs the checksums, so they are computed while the store writes, if a thread can be started.
  auto checksums = std::async([&] { return checksums_of(std::span{pieces}.subspan(1)); });
  const auto put = store.put(data_key(manifest, rank), pieces);
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

std::vector<Slice> share_of(std::int64_t rank, std::int64_t world_size, std::span<const HostEntry> entries) {
  std::uint64_t total_bytes = 0;
  for (const HostEntry& entry : entries) {
    if (entry.info.placement == Placement::replicated) total_bytes += entry.info.bytes;
  }
  // Divides first, since the product of bytes and ranks may overflow.
  const auto ranks = static_cast<std::uint64_t>(world_size);
  const auto cut_before = [&](std::uint64_t r) { return total_bytes / ranks * r + total_bytes % ranks * r / ranks; };
  const std::uint64_t begin_cut = cut_before(static_cast<std::uint64_t>(rank));
  const std::uint64_t end_cut = cut_before(static_cast<std::uint64_t>(rank) + 1);

  std::vector<Slice> share;
  std::uint64_t begin = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const EntryInfo& info = entries[i].info;
    const Slice all{.entry = i, .row_begin = 0, .row_end = row_count(info)};
    if (info.placement == Placement::per_rank || (info.placement == Placement::rank0 && rank == 0))
      share.push_back(all);
    if (const Rows held = held_rows(entries[i]); info.placement == Placement::sharded && held.begin < held.end)
      share.push_back({.entry = i, .row_begin = held.begin, .row_end = held.end});
    if (info.placement != Placement::replicated) continue;
    if (info.bytes == 0) {
      if (rank == 0) share.push_back(all);
      continue;
    }
    const Slice slice{.entry = i, .row_begin = row_at(info, begin, begin_cut), .row_end = row_at(info, begin, end_cut)};
    if (slice.row_begin < slice.row_end) share.push_back(slice);
    begin += info.bytes;
  }
  return share;
}

std::vector<Slice> whole_of(std::int64_t rank, std::span<const HostEntry> entries) {
  std::vector<Slice> whole;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Rows held = held_rows(entries[i]);
    const bool is_here = entries[i].info.placement != Placement::rank0 || rank == 0;
    if (is_here) whole.push_back({.entry = i, .row_begin = held.begin, .row_end = held.end});
  }
  return whole;
}

std::vector<Slice> cut(const Slice& slice, const EntryInfo& info, std::uint64_t bytes_max) {
  const std::uint64_t row_bytes_min = std::max<std::uint64_t>(row_bytes(info), 1);
  const std::uint64_t rows_max = std::max<std::uint64_t>(bytes_max / row_bytes_min, 1);
  std::vector<Slice> pieces;
  for (std::uint64_t row = slice.row_begin; row < slice.row_end; row = pieces.back().row_end) {
    pieces.push_back(
        {.entry = slice.entry, .row_begin = row, .row_end = row + std::min(rows_max, slice.row_end - row)});
  }
  return pieces;
}

Result<Receipt> write_share(storage::Store& store, const Manifest& manifest, std::int64_t rank, std::int64_t world_size,
                            std::span<const HostEntry> entries, std::uint64_t chunk_bytes_max) {
  return put_data(store, manifest, rank, file_order(rank, world_size, entries, chunk_bytes_max), entries);
}

Result<Receipt> write_all(storage::Store& store, const Manifest& manifest, std::int64_t rank,
                          std::span<const HostEntry> entries) {
  // The share of a group of one rank is everything.
  return put_data(store, manifest, rank, file_order(0, 1, entries, shard_chunk_bytes_max), entries);
}

}  // namespace trainyard::checkpoint
