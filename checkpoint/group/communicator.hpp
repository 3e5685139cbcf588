#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"

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

/// Messages between all ranks: what they agree on (which checkpoint? did everybody save? stop now?), and bytes of the
/// state that some rank has. Gradients use the process group instead.
/// Every call is collective: all ranks make the same calls in the same order, from one thread at a time. Errors:
/// unavailable when a peer is lost, timeout past the deadline, cancelled when our launcher says that the group is
/// broken. After one error every call fails.
class Communicator {
 public:
  virtual ~Communicator() = default;
  [[nodiscard]] virtual std::int64_t rank() const = 0;
  [[nodiscard]] virtual std::int64_t world_size() const = 0;

  /// The `text` of rank `root`, on every rank.
  [[nodiscard]] virtual Result<std::string> broadcast(std::string_view text, std::int64_t root = 0) = 0;
  /// The `text` of every rank, in rank order, on every rank. Texts may differ in length.
  [[nodiscard]] virtual Result<std::vector<std::string>> all_gather(std::string_view text) = 0;
  /// Copies each part's bytes from its root to all other ranks. All ranks give parts with equal roots and sizes. After
  /// an error some bytes may have been overwritten.
  [[nodiscard]] virtual Result<void> broadcast_parts(std::span<const BroadcastPart> parts) = 0;
};

/// A group of one: for tests, and for jobs of one rank.
class SingleCommunicator final : public Communicator {
 public:
  [[nodiscard]] std::int64_t rank() const override { return 0; }
  [[nodiscard]] std::int64_t world_size() const override { return 1; }
  [[nodiscard]] Result<std::string> broadcast(std::string_view text, std::int64_t /*root*/) override {
    return std::string{text};
  }
  [[nodiscard]] Result<std::vector<std::string>> all_gather(std::string_view text) override {
    return std::vector<std::string>{std::string{text}};
  }
  [[nodiscard]] Result<void> broadcast_parts(std::span<const BroadcastPart> /*parts*/) override { return {}; }
};

}  // namespace trainyard::checkpoint
