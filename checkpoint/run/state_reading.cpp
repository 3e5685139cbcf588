#include "checkpoint/run/state_reading.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "checkpoint/format/shard_checks.hpp"
#include "checkpoint/run/copy_entries.hpp"
#include "common/parallel.hpp"
#include "common/try.hpp"
#include "storage/crc32c.hpp"

namespace trainyard::checkpoint {
namespace {

// One request reads neighbouring chunks up to this size together. A chunk of at least half this size is read alone,
// straight into its place.
constexpr std::uint64_t read_together_bytes_max = std::uint64_t{8} << 20;

Error damage(storage::Store& store, const Manifest& manifest, std::int64_t rank, std::string_view what) {
  return {.kind = ErrorKind::corrupt,
          .message = fmt::format("{}: {}", store.uri_of(data_key(manifest, rank)), what),
          .retry_after = {}};
}

const EntryInfo* find_entry(const Manifest& manifest, std::string_view name) {
  const auto found = std::find_if(manifest.entries.begin(), manifest.entries.end(),
                                  [&](const EntryInfo& info) { return info.name == name; });
  return found == manifest.entries.end() ? nullptr : &*found;
}

bool is_needed(const EntryInfo& info, std::int64_t file_rank, std::int64_t rank) {
  return info.placement != Placement::per_rank || file_rank == rank;
}

// True when all ranks need all bytes of the entry.
bool is_common(const EntryInfo& info) {
  return info.placement == Placement::replicated || info.placement == Placement::rank0;
}

// Rows lie in chunks alike, whichever ranks hold them: a training may start or stop sharding its state.
bool can_fill(Placement saved, Placement here) {
  const auto is_of_all = [](Placement one) { return one == Placement::replicated || one == Placement::sharded; };
  return saved == here || (is_of_all(saved) && is_of_all(here));
}

bool is_whole(const WantedChunk& wanted) {
  return wanted.into.size() == wanted.chunk->bytes;
}

// The part of the chunk that `entry` holds; nothing if it holds no byte of it. The chunk's sizes must have been
// checked.
std::optional<WantedChunk> part_of(std::int64_t file_rank, const Chunk& chunk, const HostEntry& entry) {
  const Rows held = held_rows(entry);
  const std::uint64_t begin = std::max(chunk.row_begin, held.begin);
  const std::uint64_t end = std::min(chunk.row_end, held.end);
  const std::uint64_t bytes = row_bytes(entry.info);
  if (begin >= end || bytes == 0) return std::nullopt;
  return WantedChunk{.file_rank = file_rank,
                     .chunk = &chunk,
                     .skipped_bytes = (begin - chunk.row_begin) * bytes,
                     .into = entry.bytes.subspan((begin - held.begin) * bytes, (end - begin) * bytes)};
}

// Adds the chunks of one file that `rank` needs, each with its place in `entries`.
Result<void> add_wanted(storage::Store& store, const Manifest& manifest, const Receipt& receipt, std::int64_t rank,
                        const std::unordered_map<std::string_view, const HostEntry*>& entries, StateReading& reading) {
  for (const Chunk& chunk : receipt.chunks) {
    const auto found = entries.find(chunk.entry);
    if (found == entries.end() && find_entry(manifest, chunk.entry) != nullptr)
      continue;  // A per_rank entry that this rank lacks.
    if (found == entries.end())
      return tl::unexpected(damage(store, manifest, receipt.rank, "the manifest names an unknown entry"));
    const EntryInfo& info = found->second->info;
    if (!is_needed(info, receipt.rank, rank)) continue;
    if (chunk.row_begin > chunk.row_end || chunk.row_end > row_count(info) ||
        chunk.bytes != (chunk.row_end - chunk.row_begin) * row_bytes(info)) {
      return tl::unexpected(damage(store, manifest, receipt.rank, "the manifest's sizes contradict each other"));
    }
    const auto part = part_of(receipt.rank, chunk, *found->second);
    if (part) (is_common(info) ? reading.common : reading.own).push_back(*part);
  }
  return {};
}

// The common chunks that each of `world_size` ranks reads. There may be fewer shares than ranks.
std::vector<std::span<const WantedChunk>> shares_of(const StateReading& reading, std::int64_t world_size) {
  return split_by_weight(std::span{std::as_const(reading.common)}, static_cast<std::size_t>(world_size),
                         [](const WantedChunk& wanted) { return wanted.into.size(); });
}

// Chunks that lie one after the other in one file, and are read together.
struct Request {
  std::span<const WantedChunk> wanted;

  [[nodiscard]] std::int64_t file_rank() const { return wanted.front().file_rank; }
  [[nodiscard]] std::uint64_t begin() const { return wanted.front().chunk->offset; }
  [[nodiscard]] std::uint64_t bytes() const {
    return wanted.back().chunk->offset + wanted.back().chunk->bytes - begin();
  }
};

void add_requests(std::span<const WantedChunk> wanted, std::vector<Request>& requests) {
  while (!wanted.empty()) {
    std::size_t count = 1;
    std::uint64_t bytes = wanted.front().chunk->bytes;
    const auto joins = [&](const WantedChunk& before, const WantedChunk& next) {
      return next.file_rank == before.file_rank && next.chunk->offset == before.chunk->offset + before.chunk->bytes &&
             next.chunk->bytes < read_together_bytes_max / 2 && bytes + next.chunk->bytes <= read_together_bytes_max;
    };
    while (bytes < read_together_bytes_max / 2 && count < wanted.size() && joins(wanted[count - 1], wanted[count]))
      bytes += wanted[count++].chunk->bytes;
    requests.push_back({.wanted = wanted.first(count)});
    wanted = wanted.subspan(count);
  }
}

// Verifies each chunk, and copies it into place. A single chunk that is wanted whole is read straight into place.
// `buffer` is reused from call to call.
Result<void> read_one(storage::Store& store, const Manifest& manifest, const Request& request,
                      std::vector<std::byte>& buffer) {
  const WantedChunk& first = request.wanted.front();
  const bool is_direct = request.wanted.size() == 1 && is_whole(first);
  if (!is_direct) buffer.resize(std::max<std::uint64_t>(buffer.size(), request.bytes()));
  const std::span<std::byte> target = is_direct ? first.into : std::span{buffer}.first(request.bytes());
  TRY(store.get_range(data_key(manifest, request.file_rank()), request.begin(), target));
  for (const WantedChunk& one : request.wanted) {
    const auto bytes = target.subspan(one.chunk->offset - request.begin(), one.chunk->bytes);
    if (storage::crc32c(bytes) != one.chunk->crc32c) {
      return tl::unexpected(damage(store, manifest, request.file_rank(),
                                   fmt::format("the checksum of {} does not match", one.chunk->entry)));
    }
    if (!is_direct) std::ranges::copy(bytes.subspan(one.skipped_bytes, one.into.size()), one.into.begin());
  }
  return {};
}

// Reads several runs of requests at a time. A disk that is read in several places is fast only if each reader goes on
// where it was: readers that take turns along one file lose a third of the speed.
Result<void> read_all(storage::Store& store, const Manifest& manifest, std::span<const Request> requests) {
  const auto runs =
      split_by_weight(requests, store.concurrency(), [](const Request& request) { return request.bytes(); });
  const auto read_run = [&](std::span<const Request> run, const std::atomic<bool>& has_failed) -> Result<void> {
    std::vector<std::byte> buffer;
    for (const Request& request : run) {
      if (has_failed) break;
      TRY(read_one(store, manifest, request, buffer));
    }
    return {};
  };
  return parallel_for(std::span{runs}, read_run);
}

}  // namespace

Result<void> check_bytes(storage::Store& store, const Manifest& manifest) {
  std::vector<std::byte> buffer;
  for (const Receipt& receipt : manifest.receipts) {
    std::uint32_t checksum = 0;
    for (std::uint64_t offset = 0; offset < receipt.bytes; offset += buffer.size()) {
      buffer.resize(std::min(receipt.bytes - offset, read_together_bytes_max));
      TRY(store.get_range(data_key(manifest, receipt.rank), offset, buffer));
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
    TRY(check_held(entry));
    if (!can_fill(found->second->placement, entry.info.placement)) {
      return differs(entry.info.name, fmt::format("is {} in it, and {} here", to_string(found->second->placement),
                                                  to_string(entry.info.placement)));
    }
    EntryInfo here = entry.info;
    here.placement = found->second->placement;
    if (!(*found->second == here)) {
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

Result<StateReading> plan_reading(storage::Store& store, const Manifest& manifest, std::int64_t rank,
                                  std::span<const HostEntry> entries) {
  std::unordered_map<std::string_view, const HostEntry*> by_name;
  for (const HostEntry& entry : entries) by_name.emplace(entry.info.name, &entry);
  StateReading reading;
  for (const Receipt& receipt : manifest.receipts) {
    TRY(add_wanted(store, manifest, receipt, rank, by_name, reading));
  }
  std::unordered_map<std::string_view, std::uint64_t> bytes_found;
  for (const auto* wanted : {&reading.common, &reading.own}) {
    for (const WantedChunk& one : *wanted) bytes_found[one.chunk->entry] += one.into.size();
  }
  const bool has_our_own = rank < static_cast<std::int64_t>(manifest.receipts.size());
  for (const HostEntry& entry : entries) {
    const bool is_absent = entry.info.placement == Placement::per_rank &&
                           !(has_our_own && find_entry(manifest, entry.info.name) != nullptr);
    if (!is_absent && bytes_found[entry.info.name] != entry.bytes.size()) {
      return tl::unexpected(
          damage(store, manifest, 0, fmt::format("the manifest leaves out a part of {}", entry.info.name)));
    }
  }
  return reading;
}

Result<void> read_share(storage::Store& store, const Manifest& manifest, std::int64_t rank, std::int64_t world_size,
                        const StateReading& reading) {
  const auto shares = shares_of(reading, world_size);
  std::vector<Request> requests;
  if (const auto index = static_cast<std::size_t>(rank); index < shares.size()) add_requests(shares[index], requests);
  add_requests(reading.own, requests);
  return read_all(store, manifest, requests);
}

Result<void> exchange_shares(Communicator& communicator, const StateReading& reading) {
  const auto shares = shares_of(reading, communicator.world_size());
  std::vector<BroadcastPart> parts;
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    BroadcastPart& part = parts.emplace_back(BroadcastPart{.root = static_cast<std::int64_t>(rank), .spans = {}});
    for (const WantedChunk& wanted : shares[rank]) part.spans.push_back(wanted.into);
  }
  return broadcast_parts(communicator, parts);
}

Result<void> read_state(storage::Store& store, const Manifest& manifest, std::int64_t rank,
                        std::span<const HostEntry> entries) {
  return plan_reading(store, manifest, rank, entries).and_then([&](const StateReading& reading) {
    return read_share(store, manifest, /*rank=*/0, /*world_size=*/1, reading);
  });
}

}  // namespace trainyard::checkpoint
