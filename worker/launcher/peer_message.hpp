#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/result.hpp"
#include "worker/launcher/group_failure.hpp"

/// What launchers tell each other: one JSON object a frame. Rank 0's launcher is the hub, the others connect to it.
namespace trainyard::launcher {

/// The first message to the hub: who comes, and which group it means.
struct Hello {
  std::string job;  ///< For people.
  std::string job_uid;
  std::int64_t attempt = 1;
  std::int64_t world_size = 1;
  std::int64_t first_rank = 0;
  std::int64_t rank_count = 1;
  bool operator==(const Hello&) const = default;
};
struct Welcome {
  bool operator==(const Welcome&) const = default;
};
/// The hub's answer to a stranger, with what it is itself.
struct Refusal {
  std::string job_uid;
  std::int64_t attempt = 1;
  std::string message;
  bool operator==(const Refusal&) const = default;
};
/// Once a second in both directions. From the hub with the ranks that have not come.
struct PeerBeat {
  std::vector<std::int64_t> missing;
  bool operator==(const PeerBeat&) const = default;
};
/// To the hub: this failed here. From the hub: this is the group's failure.
struct FailureReport {
  GroupFailure failure;
  bool operator==(const FailureReport&) const = default;
};
/// All ranks here ended as meant: what follows is no loss.
struct Done {
  bool operator==(const Done&) const = default;
};

using PeerMessage = std::variant<Hello, Welcome, Refusal, PeerBeat, FailureReport, Done>;

[[nodiscard]] std::string encode(const PeerMessage& message);
/// ErrorKind::invalid for what is no such message.
[[nodiscard]] Result<PeerMessage> decode_peer_message(std::string_view payload);

}  // namespace trainyard::launcher
