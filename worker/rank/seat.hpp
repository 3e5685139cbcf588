#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/result.hpp"

namespace trainyard::rank {

/// Where a rank runs.
struct Seat {
  std::string node;
  std::int64_t first_rank = 0;  ///< Its pod's first rank, by which the pods of a group are told apart.
  bool operator==(const Seat&) const = default;
};

/// A sentence that names the first node on which several pods of the group run, and how many ranks it has; empty where
/// every node has one pod. `seats`: by rank. NCCL takes two pods for two machines: it sends between them over the
/// network, and uses neither NVLink nor shared memory.
[[nodiscard]] std::optional<std::string> split_node_warning(std::span<const Seat> seats);

/// The seat as text, for the other ranks.
[[nodiscard]] std::string to_text(const Seat& seat);
/// Reads what another rank's to_text() wrote. ErrorKind::invalid for other text.
[[nodiscard]] Result<Seat> parse_seat(std::string_view text);

}  // namespace trainyard::rank
