#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/format/claim.hpp"
#include "checkpoint/format/identity.hpp"
#include "checkpoint/format/layout.hpp"

/// What a restore may take, of both tiers, and in which order. Pure.
namespace trainyard::checkpoint {

/// A complete checkpoint in a node's local folder.
struct Copy {
  CheckpointId id;
  std::string nonce;  ///< Its manifest's: copies of one save have one.
  Identity identity;  ///< Who saved it.
  bool operator==(const Copy&) const = default;
};

/// By the rank that keeps the node's folder.
using CopiesByKeeper = std::map<std::int64_t, std::vector<Copy>>;

struct Candidate {
  CheckpointId id;
  std::string nonce;                  ///< Of the local copies. Empty: it is the remote checkpoint.
  std::vector<std::int64_t> keepers;  ///< Of the nodes that have such a copy, rising.
  [[nodiscard]] bool is_local() const { return !nonce.empty(); }
  bool operator==(const Candidate&) const = default;
};

/// Empty when `copy` may be resumed by `resumer`; else why not. Its generation must be one that the remote store's
/// claims know, by the same run, and it counts up to that generation's last_current_step(), as a remote one does.
[[nodiscard]] std::string rejection_of(const Copy& copy, std::span<const Claim> claims, const Identity& resumer);

/// The best last: the higher step, of equal steps the higher generation, and of equal ones the local copy. `remote`:
/// those that may be resumed. Copies of one save are one candidate.
[[nodiscard]] std::vector<Candidate> order_candidates(std::span<const CheckpointId> remote,
                                                      const CopiesByKeeper& copies, std::span<const Claim> claims,
                                                      const Identity& resumer);

}  // namespace trainyard::checkpoint
