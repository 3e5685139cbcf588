#include "checkpoint/run/copy_entries.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard::checkpoint {
namespace {

bool is_one_ranks(const HostEntry& entry, std::int64_t rank) {
  return entry.info.placement == Placement::per_rank || (entry.info.placement == Placement::rank0 && rank == 0);
}

}  // namespace

Result<void> check_fits_copies(std::span<const HostEntry> entries) {
  std::uint64_t own_bytes = 0;
  const EntryInfo* largest = nullptr;
  for (const HostEntry& entry : entries) {
    const EntryInfo& info = entry.info;
    if (info.placement == Placement::sharded) {
      return fail(
          ErrorKind::invalid,
          fmt::format("checkpoint.local cannot keep {}, which the ranks hold in parts: leave checkpoint.local out",
                      info.name));
    }
    if (info.placement != Placement::per_rank) continue;
    own_bytes += info.bytes;
    if (largest == nullptr || info.bytes > largest->bytes) largest = &info;
  }
  if (own_bytes <= own_bytes_max) return {};
  return fail(
      ErrorKind::invalid,
      fmt::format("checkpoint.local cannot keep {} and the like: each rank has {} bytes of state of its own, and "
                  "up to {} are kept on every node; leave checkpoint.local out, or the setting that makes each "
                  "rank keep such state",
                  largest->name, own_bytes, own_bytes_max));
}

Result<std::vector<std::string>> gather_own(Communicator& communicator, std::span<const HostEntry> entries) {
  std::string text;
  for (const HostEntry& entry : entries) {
    if (is_one_ranks(entry, communicator.rank()))
      text.append(reinterpret_cast<const char*>(entry.bytes.data()), entry.bytes.size());
  }
  auto texts = communicator.all_gather(text);
  if (!texts) return fail(ErrorKind::cancelled, texts.error().message);
  return texts;
}

std::vector<HostEntry> entries_of_file(std::span<const HostEntry> entries, std::int64_t rank, std::string& own) {
  std::vector<HostEntry> found;
  std::span<std::byte> left = std::as_writable_bytes(std::span{own});
  for (const HostEntry& entry : entries) {
    if (is_one_ranks(entry, rank)) {
      found.push_back({.info = entry.info, .bytes = left.first(entry.info.bytes)});
      left = left.subspan(entry.info.bytes);
    } else if (rank == 0) {
      found.push_back(entry);
    }
  }
  return found;
}

Result<void> broadcast_parts(Communicator& communicator, std::span<const BroadcastPart> parts) {
  const auto done = communicator.broadcast_parts(parts);
  if (!done) return fail(ErrorKind::cancelled, done.error().message);
  return {};
}

}  // namespace trainyard::checkpoint
