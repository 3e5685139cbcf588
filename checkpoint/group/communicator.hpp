#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/group/broadcast_part.hpp"
#include "common/result.hpp"

namespace trainyard::checkpoint {

/// Messages between all ranks, for agreeing: which checkpoint, did everybody save, stop now? And the bytes of state
/// that some rank has. Gradients go through the process group. Every call is collective: all ranks make the same calls
/// in the same order, from one thread at a time. Errors: unavailable when a peer is lost, timeout past the deadline,
/// cancelled when our launcher says that the group is broken. A communicator that failed once stays failed.
class Communicator {
 public:
  virtual ~Communicator() = default;
  [[nodiscard]] virtual std::int64_t rank() const = 0;
  [[nodiscard]] virtual std::int64_t world_size() const = 0;

  /// `text` of rank `root`, on every rank.
  [[nodiscard]] virtual Result<std::string> broadcast(std::string_view text, std::int64_t root = 0) = 0;
  /// Every rank's `text`, in rank order, on every rank. Texts may differ in length.
  [[nodiscard]] virtual Result<std::vector<std::string>> all_gather(std::string_view text) = 0;
  /// Fills the parts, of the same roots and sizes on every rank, with what their roots have in them. After an error
  /// some bytes have come.
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
