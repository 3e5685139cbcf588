#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/format/claim.hpp"
#include "checkpoint/format/layout.hpp"

/// The candidates of a restore, of both tiers, and their order. Pure.
namespace trainyard::checkpoint {

/// A complete checkpoint in a node's local folder.
struct Copy {
  CheckpointId id;
  std::string nonce;  ///< The manifest's: all copies of one save have it.
  Identity identity;  ///< The run that saved it.
  bool operator==(const Copy&) const = default;
};

/// The copies on each node, by the rank of the node's keeper.
using CopiesByKeeper = std::map<std::int64_t, std::vector<Copy>>;

struct Candidate {
  CheckpointId id;
  std::string nonce;                  ///< The copies' nonce. Empty: the remote checkpoint.
  std::vector<std::int64_t> keepers;  ///< The keepers of the nodes with such a copy, in rising order.
  [[nodiscard]] bool is_local() const { return !nonce.empty(); }
  bool operator==(const Candidate&) const = default;
};

/// Why `resumer` may not take `copy`; empty when it may. The copy must be of this life and fingerprint, its run must
/// have a claim in the remote store, and it must not be superseded.
[[nodiscard]] std::string rejection_of(const Copy& copy, std::span<const Claim> claims, const Identity& resumer);

/// All candidates, the best last: the highest step, of equal steps the highest generation, of equal generations a copy.
/// `remote`: the remote checkpoints that may be resumed. Copies of one save are one candidate.
[[nodiscard]] std::vector<Candidate> order_candidates(std::span<const CheckpointId> remote,
                                                      const CopiesByKeeper& copies, std::span<const Claim> claims,
                                                      const Identity& resumer);

}  // namespace trainyard::checkpoint
