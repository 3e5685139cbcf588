#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace trainyard::checkpoint {

/// Bytes that rank `root` sends to all other ranks: the spans one after the other.
struct BroadcastPart {
  std::int64_t root = 0;
  std::vector<std::span<std::byte>> spans;
};

/// Bytes [begin, end) of a part, sent by one broadcast.
struct Message {
  std::size_t part = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  [[nodiscard]] std::uint64_t bytes() const { return end - begin; }
  bool operator==(const Message&) const = default;
};

/// Cuts all parts into messages of at most `bytes_max`, which is positive. The parts take turns, so that all roots send
/// at once.
[[nodiscard]] std::vector<Message> messages_of(std::span<const BroadcastPart> parts, std::uint64_t bytes_max);

/// Copies a message from its part into `to`, or from `from` into its part. `to` and `from` have the message's size.
void copy_out(const BroadcastPart& part, const Message& message, std::span<std::byte> to);
void copy_in(const BroadcastPart& part, const Message& message, std::span<const std::byte> from);

}  // namespace trainyard::checkpoint
