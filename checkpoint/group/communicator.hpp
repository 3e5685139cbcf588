#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/group/broadcast_part.hpp"
#include "common/result.hpp"

namespace trainyard::checkpoint {

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
