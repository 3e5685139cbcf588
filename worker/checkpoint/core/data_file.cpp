#include "worker/checkpoint/core/data_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <future>
#include <iterator>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "storage/crc32c.hpp"
#include "worker/checkpoint/core/safetensors.hpp"
#include "worker/checkpoint/core/sealed_json.hpp"
#include "worker/checkpoint/core/shards.hpp"
#include "worker/checkpoint/core/split.hpp"

namespace trainyard::checkpoint {
namespace {

SafetensorsTensor tensor_of(const EntryInfo& info, const Slice& slice, std::uint64_t bytes) {
  SafetensorsTensor tensor{.name = info.name, .dtype = info.dtype, .shape = info.shape, .bytes = bytes};
  if (slice.row_end - slice.row_begin < row_count(info)) {
    tensor.name = fmt::format("{}[{}:{}]", info.name, slice.row_begin, slice.row_end);
    tensor.shape.front() = static_cast<std::int64_t>(slice.row_end - slice.row_begin);
  }
  if (!safetensors_element_bytes(info.dtype)) {
    // Of a type that the format does not know: as bytes, with the element as one more dimension.
    std::uint64_t elements = 1;
    for (const std::int64_t extent : tensor.shape) elements *= static_cast<std::uint64_t>(extent);
    tensor.dtype = "U8";
    tensor.shape.push_back(elements == 0 ? 1 : static_cast<std::int64_t>(bytes / elements));
  }
  return tensor;
}

// What `rank` writes, as it follows each other in its file. Wide elements come first: every tensor lies at a multiple
// of its element's size, which readers that map the file need.
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

// Neighbours up to this are read by one request, and a chunk from the half of it on is no neighbour: it is read
// straight into its place.
constexpr std::uint64_t read_together_bytes_max = std::uint64_t{8} << 20;

Error damage(storage::Store& store, const Manifest& manifest, std::int64_t rank, std::string_view what) {
  return {ErrorKind::corrupt, fmt::format("{}: {}", store.uri_of(data_key(manifest.id, rank)), what), std::nullopt};
}

const EntryInfo* find_entry(const Manifest& manifest, std::string_view name) {
  const auto found = std::find_if(manifest.entries.begin(), manifest.entries.end(),
                                  [&](const EntryInfo& info) { return info.name == name; });
  return found == manifest.entries.end() ? nullptr : &*found;
}

bool is_needed(const EntryInfo& info, std::int64_t file_rank, std::int64_t rank) {
  return info.placement != Placement::per_rank || file_rank == rank;
}

// A chunk, and where those of its bytes belong that are wanted.
struct Wanted {
  const Chunk* chunk = nullptr;
  std::uint64_t skipped_bytes = 0;  // Of the chunk's, before those.
  std::span<std::byte> into;

  [[nodiscard]] bool is_whole() const { return into.size() == chunk->bytes; }
};

// Nothing where `entry` holds no byte of the chunk. Needs that the chunk's sizes are right.
std::optional<Wanted> part_of(const Chunk& chunk, const HostEntry& entry) {
  const Rows held = held_rows(entry);
  const std::uint64_t begin = std::max(chunk.row_begin, held.begin);
  const std::uint64_t end = std::min(chunk.row_end, held.end);
  const std::uint64_t bytes = row_bytes(entry.info);
  if (begin >= end || bytes == 0) return std::nullopt;
  return Wanted{.chunk = &chunk,
                .skipped_bytes = (begin - chunk.row_begin) * bytes,
                .into = entry.bytes.subspan((begin - held.begin) * bytes, (end - begin) * bytes)};
}

// The chunks of one file that `rank` needs, each with its place in `entries`.
Result<std::vector<Wanted>> wanted_of(storage::Store& store, const Manifest& manifest, const Receipt& receipt,
                                      std::int64_t rank,
                                      const std::unordered_map<std::string_view, const HostEntry*>& entries) {
  std::vector<Wanted> wanted;
  for (const Chunk& chunk : receipt.chunks) {
    const auto found = entries.find(chunk.entry);
    if (found == entries.end() && find_entry(manifest, chunk.entry) != nullptr)
      continue;  // One of ranks' own that is not ours.
    if (found == entries.end())
      return tl::unexpected(damage(store, manifest, receipt.rank, "the manifest names an unknown entry"));
    const EntryInfo& info = found->second->info;
    if (!is_needed(info, receipt.rank, rank)) continue;
    if (chunk.row_begin > chunk.row_end || chunk.row_end > row_count(info) ||
        chunk.bytes != (chunk.row_end - chunk.row_begin) * row_bytes(info)) {
      return tl::unexpected(damage(store, manifest, receipt.rank, "the manifest's sizes contradict each other"));
    }
    if (const auto part = part_of(chunk, *found->second)) wanted.push_back(*part);
  }
  return wanted;
}

// Chunks that lie one after the other in one file, to be read together.
struct Reading {
  std::int64_t file_rank = 0;
  std::span<const Wanted> wanted;

  [[nodiscard]] std::uint64_t begin() const { return wanted.front().chunk->offset; }
  [[nodiscard]] std::uint64_t bytes() const {
    return wanted.back().chunk->offset + wanted.back().chunk->bytes - begin();
  }
};

std::vector<Reading> readings_of(std::int64_t file_rank, std::span<const Wanted> wanted) {
  std::vector<Reading> readings;
  while (!wanted.empty()) {
    std::size_t count = 1;
    std::uint64_t bytes = wanted.front().chunk->bytes;
    const auto joins = [&](const Chunk& before, const Chunk& chunk) {
      return chunk.offset == before.offset + before.bytes && chunk.bytes < read_together_bytes_max / 2 &&
             bytes + chunk.bytes <= read_together_bytes_max;
    };
    while (bytes < read_together_bytes_max / 2 && count < wanted.size() &&
           joins(*wanted[count - 1].chunk, *wanted[count].chunk)) {
      bytes += wanted[count++].chunk->bytes;
    }
    readings.push_back({.file_rank = file_rank, .wanted = wanted.first(count)});
    wanted = wanted.subspan(count);
  }
  return readings;
}

// Reads chunks by one request, verifies each and puts it into place; straight there if it is only one, and all of it is
// wanted. `buffer` is kept from one call to the next.
Result<void> read_together(storage::Store& store, const Manifest& manifest, const Reading& reading,
                           std::vector<std::byte>& buffer) {
  const Wanted& first = reading.wanted.front();
  const bool is_direct = reading.wanted.size() == 1 && first.is_whole();
  if (!is_direct) buffer.resize(std::max<std::uint64_t>(buffer.size(), reading.bytes()));
  const std::span<std::byte> target = is_direct ? first.into : std::span{buffer}.first(reading.bytes());
  if (auto read = store.get_range(data_key(manifest.id, reading.file_rank), reading.begin(), target); !read)
    return read;
  for (const Wanted& one : reading.wanted) {
    const auto bytes = target.subspan(one.chunk->offset - reading.begin(), one.chunk->bytes);
    if (storage::crc32c(bytes) != one.chunk->crc32c) {
      return tl::unexpected(damage(store, manifest, reading.file_rank,
                                   fmt::format("the checksum of {} does not match", one.chunk->entry)));
    }
    if (!is_direct) std::ranges::copy(bytes.subspan(one.skipped_bytes, one.into.size()), one.into.begin());
  }
  return {};
}

// All of them, several at a time. The error is that of the first in their order that failed; none is begun after it.
Result<void> read_all(storage::Store& store, const Manifest& manifest, std::span<const Reading> readings) {
  std::atomic<std::size_t> next{0};
  std::vector<Result<void>> ends(readings.size());
  const auto read_some = [&] {
    std::vector<std::byte> buffer;
    for (std::size_t i = next++; i < readings.size(); i = next++) {
      ends[i] = read_together(store, manifest, readings[i], buffer);
      if (!ends[i]) next = readings.size();
    }
  };
  {
    std::vector<std::future<void>> others;
    while (others.size() + 1 < std::min(readings.size(), store.reads_at_a_time()))
      others.push_back(std::async(read_some));
    read_some();
  }
  const auto failed = std::ranges::find_if(ends, [](const Result<void>& end) { return !end; });
  return failed == ends.end() ? Result<void>{} : *failed;
}

Result<Receipt> put_data(storage::Store& store, const CheckpointId& id, std::int64_t rank,
                         std::span<const Slice> slices, std::span<const HostEntry> entries) {
  Receipt receipt{.rank = rank, .bytes = 0, .crc32c = 0, .chunks = {}};
  std::vector<SafetensorsTensor> tensors;
  std::vector<std::span<const std::byte>> pieces = {{}};  // The header's place.
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
      tensors, {{"format", "pt"}, {"step", std::to_string(id.step)}, {"rank", std::to_string(rank)}});
  pieces.front() = std::as_bytes(std::span{header});
  // Only the receipt needs the checksums: they are made while the store writes, where a thread can be had.
  auto checksums = std::async([&] { return checksums_of(std::span{pieces}.subspan(1)); });
  const auto put = store.put(data_key(id, rank), pieces);
  const std::vector<std::uint32_t> chunk_checksums = checksums.get();
  if (!put) return tl::unexpected(put.error());

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

Result<Receipt> write_share(storage::Store& store, const CheckpointId& id, std::int64_t rank, std::int64_t world_size,
                            std::span<const HostEntry> entries, std::uint64_t chunk_bytes_max) {
  auto receipt = put_data(store, id, rank, file_order(rank, world_size, entries, chunk_bytes_max), entries);
  if (!receipt) return receipt;
  return storage::put_text(store, receipt_key(id, rank), seal(to_json(*receipt))).map([&] {
    return std::move(*receipt);
  });
}

Result<Receipt> write_all(storage::Store& store, const CheckpointId& id, std::int64_t rank,
                          std::span<const HostEntry> entries) {
  // All is the share of a group of one.
  return put_data(store, id, rank, file_order(0, 1, entries, shard_chunk_bytes_max), entries);
}

Result<void> check_bytes(storage::Store& store, const Manifest& manifest) {
  std::vector<std::byte> buffer;
  for (const Receipt& receipt : manifest.receipts) {
    std::uint32_t checksum = 0;
    for (std::uint64_t offset = 0; offset < receipt.bytes; offset += buffer.size()) {
      buffer.resize(std::min(receipt.bytes - offset, read_together_bytes_max));
      if (auto read = store.get_range(data_key(manifest.id, receipt.rank), offset, buffer); !read) return read;
      checksum = storage::crc32c(buffer, checksum);
    }
    if (checksum != receipt.crc32c)
      return tl::unexpected(damage(store, manifest, receipt.rank, "its checksum does not match"));
  }
  return {};
}

Result<void> check_entries(const Manifest& manifest, std::span<const HostEntry> entries) {
  std::unordered_map<std::string_view, const EntryInfo*> saved;
  for (const EntryInfo& info : manifest.entries) saved.emplace(info.name, &info);
  const auto differs = [&](std::string_view name, std::string_view how) {
    return fail(ErrorKind::invalid,
                fmt::format("the checkpoint of step {} does not fit this model: {} {}", manifest.id.step, name, how));
  };
  for (const HostEntry& entry : entries) {
    const auto found = saved.find(entry.info.name);
    if (found == saved.end() && entry.info.placement == Placement::per_rank) continue;
    if (found == saved.end()) return differs(entry.info.name, "is not in it");
    if (auto held = check_held(entry); !held) return held;
    if (found->second->placement != entry.info.placement) {
      return differs(entry.info.name, fmt::format("is {} in it, and {} here", to_string(found->second->placement),
                                                  to_string(entry.info.placement)));
    }
    if (!(*found->second == entry.info)) {
      return differs(entry.info.name, fmt::format("is {} [{}] in it, and {} [{}] here", found->second->dtype,
                                                  fmt::join(found->second->shape, ", "), entry.info.dtype,
                                                  fmt::join(entry.info.shape, ", ")));
    }
    saved.erase(found);
  }
  const auto only_saved = std::find_if(
      saved.begin(), saved.end(), [](const auto& entry) { return entry.second->placement != Placement::per_rank; });
  if (only_saved != saved.end()) return differs(only_saved->first, "is only in it");
  return {};
}

Result<void> read_state(storage::Store& store, const Manifest& manifest, std::int64_t rank,
                        std::span<const HostEntry> entries) {
  std::unordered_map<std::string_view, const HostEntry*> by_name;
  for (const HostEntry& entry : entries) by_name.emplace(entry.info.name, &entry);
  std::unordered_map<std::string_view, std::uint64_t> bytes_read;
  std::deque<std::vector<Wanted>> wanted_by_file;
  std::vector<Reading> readings;
  for (const Receipt& receipt : manifest.receipts) {
    auto wanted = wanted_of(store, manifest, receipt, rank, by_name);
    if (!wanted) return tl::unexpected(wanted.error());
    for (const Wanted& one : *wanted) bytes_read[one.chunk->entry] += one.into.size();
    std::ranges::copy(readings_of(receipt.rank, wanted_by_file.emplace_back(std::move(*wanted))),
                      std::back_inserter(readings));
  }
  const bool has_our_own = rank < static_cast<std::int64_t>(manifest.receipts.size());
  for (const HostEntry& entry : entries) {
    const bool is_absent = entry.info.placement == Placement::per_rank &&
                           !(has_our_own && find_entry(manifest, entry.info.name) != nullptr);
    if (!is_absent && bytes_read[entry.info.name] != entry.bytes.size()) {
      return tl::unexpected(
          damage(store, manifest, 0, fmt::format("the manifest leaves out a part of {}", entry.info.name)));
    }
  }
  return read_all(store, manifest, readings);
}

}  // namespace trainyard::checkpoint
