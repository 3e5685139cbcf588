#include "checkpoint/format/shard_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "checkpoint/format/manifest.hpp"
#include "common/try.hpp"

namespace trainyard::checkpoint {
namespace {

struct Holding {
  std::size_t rank = 0;
  Rows rows;
};

std::string to_text(const Holding& shard) {
  return fmt::format("rank {} holds rows [{}, {})", shard.rank, shard.rows.begin, shard.rows.end);
}

// `shards` are in the order of their rows, and none is empty.
Result<void> check_tiled(const EntryInfo& info, std::span<const Holding> shards) {
  const auto fault = [&](std::string_view what) {
    return fail(ErrorKind::internal, fmt::format("the ranks do not hold each row of {} ({} rows) exactly once: {}",
                                                 info.name, row_count(info), what));
  };
  std::uint64_t row = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const Holding& shard = shards[i];
    if (shard.rows.begin < row) return fault(fmt::format("{}, and {}", to_text(shards[i - 1]), to_text(shard)));
    if (shard.rows.begin > row)
      return fault(fmt::format("no rank holds rows [{}, {}); next: {}", row, shard.rows.begin, to_text(shard)));
    row = shard.rows.end;
  }
  if (row < row_count(info)) {
    return fault(fmt::format("no rank holds rows [{}, {}){}", row, row_count(info),
                             shards.empty() ? "" : "; last: " + to_text(shards.back())));
  }
  return {};
}

}  // namespace

Result<void> check_held(const HostEntry& entry) {
  const EntryInfo& info = entry.info;
  if (info.placement != Placement::sharded && !entry.rows) return {};
  const Rows held = held_rows(entry);
  if (info.placement != Placement::sharded || held.begin > held.end || held.end > row_count(info) ||
      entry.bytes.size() != (held.end - held.begin) * row_bytes(info)) {
    return fail(ErrorKind::internal,
                fmt::format("{} is {} with {} rows of {} bytes, but this rank holds rows [{}, {}) in {} bytes",
                            info.name, to_string(info.placement), row_count(info), row_bytes(info), held.begin,
                            held.end, entry.bytes.size()));
  }
  return {};
}

std::vector<Rows> shards_of(std::span<const HostEntry> entries) {
  std::vector<Rows> shards;
  for (const HostEntry& entry : entries) {
    if (entry.info.placement == Placement::sharded) shards.push_back(held_rows(entry));
  }
  return shards;
}

Result<void> check_shards(std::span<const EntryInfo> entries, std::span<const std::vector<Rows>> shards) {
  std::size_t place = 0;
  for (const EntryInfo& info : entries) {
    if (info.placement != Placement::sharded) continue;
    std::vector<Holding> held;
    for (std::size_t rank = 0; rank < shards.size(); ++rank) {
      const Rows& rows = shards[rank].at(place);
      if (rows.begin < rows.end) held.push_back({.rank = rank, .rows = rows});
    }
    std::stable_sort(held.begin(), held.end(),
                     [](const Holding& a, const Holding& b) { return a.rows.begin < b.rows.begin; });
    TRY(check_tiled(info, held));
    ++place;
  }
  return {};
}

}  // namespace trainyard::checkpoint
