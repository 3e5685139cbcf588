#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "worker/rank/seat.hpp"

/// By which transports NCCL connects a rank to the others. NCCL says it only in its log.
namespace trainyard::dist {

/// NCCL's log of this process, in memory.
class NcclLog {
 public:
  /// Has NCCL write its log into memory, unless the user asks for that log by NCCL_DEBUG or NCCL_DEBUG_FILE: then it
  /// stays the user's, and text() is empty. It changes the environment, so that no other thread may run yet.
  NcclLog();
  ~NcclLog();
  NcclLog(const NcclLog&) = delete;
  NcclLog& operator=(const NcclLog&) = delete;

  /// The first MiB that NCCL has written. Its first communicator's connections come first.
  [[nodiscard]] std::string text() const;

 private:
  int file_ = -1;
};

/// How a rank sends to `peer`.
struct NcclLink {
  std::int64_t peer = 0;
  std::string transport;  ///< NCCL's words: "P2P/CUMEM", "SHM/direct/direct", "NET/Socket/0".
  bool operator==(const NcclLink&) const = default;
};

/// How `rank` sends to other ranks, by NCCL's log of level INFO: one link for each peer and transport, in the log's
/// order. Other lines are ignored. Pure.
[[nodiscard]] std::vector<NcclLink> parse_nccl_links(std::string_view log, std::int64_t rank);

/// For the log, such as "P2P/CUMEM to 1, NET/IB/0 to 8".
[[nodiscard]] std::string to_text(std::span<const NcclLink> links);

/// A sentence that names a rank of `rank`'s own pod to which it sends over the network, though NVLink, PCIe or shared
/// memory connect the two; empty where there is none. `seats`: by rank. Links to other pods are not looked at, because
/// NCCL takes those for other machines. Pure.
[[nodiscard]] std::optional<std::string> network_in_pod_warning(std::span<const NcclLink> links, std::int64_t rank,
                                                                std::span<const rank::Seat> seats);

}  // namespace trainyard::dist
