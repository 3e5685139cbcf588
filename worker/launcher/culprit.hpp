#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "worker/rank/rank_link.hpp"

namespace trainyard::launcher {

/// The failure that broke the group: the first of which rank 0's launcher heard (peer_hub.hpp). Every launcher gets an
/// equal copy, from which it makes how its own ranks end (rank::RankEnd). GroupFailure and RankEnd are two types,
/// because a rank that did not fail must not exit with the culprit's `exit_code`: the operator would charge that rank.
///
/// A rank says by beats that its training gets on. The culprit of a hang is the rank whose process sends no message of
/// any kind for 10 s after its last one (TRAINYARD_HEARTBEAT_SECONDS), as when it is stopped, or no beat for 600 s
/// after its last beat (TRAINYARD_HANG_SECONDS). The 600 s do not apply while the rank's last report says that it
/// loads, saves, meets the others or is done. A program that never sends a message is not watched. A rank that waits
/// for the culprit in a collective does send beats. The culprit's launcher kills the culprit and names it, with reason
/// Hang and exit code 95 (supervisor.hpp). Ranks that all wait for each other in different collectives have no culprit
/// (collective_mismatch.hpp).
struct GroupFailure {
  std::optional<std::int64_t> culprit;  ///< Global rank that failed, where it is known.
  int exit_code = 0;                    ///< Exit code of the culprit; without a culprit, that of every rank.
  std::string reason;                   ///< One CamelCase word.
  std::string message;                  ///< A sentence that names the culprit.
  bool operator==(const GroupFailure&) const = default;
};

/// How a rank ends because of another rank's failure: with exit_peer_lost, or, where the failure has no culprit
/// (rendezvous), with the failure's own exit code.
[[nodiscard]] rank::RankEnd end_of_others(const GroupFailure& failure);

/// How a process ended, as the kernel reports it.
struct Death {
  int exit_code = 0;  ///< Meaningful when no signal ended the process.
  int signal = 0;     ///< The signal that ended the process; 0: it exited.
  bool is_out_of_memory = false;
  bool operator==(const Death&) const = default;
};

/// Converts the status of waitpid.
[[nodiscard]] Death death_of(int wait_status);

/// The exit code that a shell would report: the process's own, or 128 + the signal.
[[nodiscard]] int exit_code_of(const Death& death);

/// The death of `rank` as a failure of the group. `said`: the RankEnd that the rank sent. It is used only when the rank
/// exited with that exit code.
[[nodiscard]] GroupFailure failure_of(std::int64_t rank, const Death& death, const std::optional<rank::RankEnd>& said);

/// The failure of a group whose launchers have not all connected before the deadline.
[[nodiscard]] GroupFailure rendezvous_failure(const std::string& waiting_for);

}  // namespace trainyard::launcher
