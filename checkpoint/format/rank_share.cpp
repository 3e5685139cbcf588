#include "checkpoint/format/rank_share.hpp"

#include <algorithm>

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

}  // namespace trainyard::checkpoint
