#include "worker/checkpoint/core/own_bytes.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard::checkpoint {
namespace {

// Larger ones are slower: their buffers are fresh memory each time, whose pages must be cleared.
constexpr std::uint64_t message_bytes_max = std::uint64_t{2} << 20;

bool is_one_ranks(const HostEntry& entry, std::int64_t rank) {
  return entry.info.placement == Placement::per_rank || (entry.info.placement == Placement::rank0 && rank == 0);
}

// Calls `visit` with the parts of `spans` that lie in bytes [begin, end) of all of them together, in order.
template <typename Visit>
void visit_range(std::span<const std::span<std::byte>> spans, std::uint64_t begin, std::uint64_t end,
                 const Visit& visit) {
  std::uint64_t at = 0;
  for (const std::span<std::byte>& span : spans) {
    const std::uint64_t from = std::max(begin, at);
    const std::uint64_t to = std::min(end, at + span.size());
    if (from < to) visit(span.subspan(from - at, to - from));
    at += span.size();
  }
}

}  // namespace

Result<void> check_fits_copies(std::span<const HostEntry> entries) {
  for (const HostEntry& entry : entries) {
    if (entry.info.placement == Placement::sharded) {
      return fail(
          ErrorKind::invalid,
          fmt::format("checkpoint.local cannot keep {}, which the ranks hold in parts: leave checkpoint.local out",
                      entry.info.name));
    }
    if (entry.info.placement == Placement::per_rank && entry.info.bytes > own_entry_bytes_max) {
      return fail(ErrorKind::invalid,
                  fmt::format("checkpoint.local cannot keep {}: each rank has {} bytes of its own in it, and up to {} "
                              "are kept on every node; leave checkpoint.local out",
                              entry.info.name, entry.info.bytes, own_entry_bytes_max));
    }
  }
  return {};
}

Result<std::vector<std::string>> gather_own(dist::Communicator& communicator, std::span<const HostEntry> entries) {
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

Result<void> spread(dist::Communicator& communicator, std::int64_t root, std::span<const std::span<std::byte>> spans) {
  std::uint64_t total = 0;
  for (const std::span<std::byte>& span : spans) total += span.size();
  const bool is_root = communicator.rank() == root;
  for (std::uint64_t begin = 0; begin < total; begin += message_bytes_max) {
    const std::uint64_t end = std::min(total, begin + message_bytes_max);
    std::string text;
    if (is_root) {
      text.reserve(end - begin);
      visit_range(spans, begin, end, [&](std::span<std::byte> part) {
        text.append(reinterpret_cast<const char*>(part.data()), part.size());
      });
    }
    const auto message = communicator.broadcast(text, root);
    if (!message) return fail(ErrorKind::cancelled, message.error().message);
    if (is_root) continue;
    auto left = std::as_bytes(std::span{*message});
    visit_range(spans, begin, end, [&](std::span<std::byte> part) {
      std::ranges::copy(left.first(part.size()), part.begin());
      left = left.subspan(part.size());
    });
  }
  return {};
}

}  // namespace trainyard::checkpoint
