#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "checkpoint/group/communicator.hpp"
#include "common/result.hpp"

/// Collective calls that carry success or failure, so that no rank waits for a rank that has failed. Each call returns
/// equal outcomes on all ranks, except when the communicator breaks: that is ErrorKind::cancelled, which no storage
/// returns.
namespace trainyard::checkpoint {

struct RankError {
  std::int64_t rank = 0;
  Error error;
};

/// True for the kinds by which a storage denies access: unauthorized and forbidden. Pure.
[[nodiscard]] bool is_access_denied(ErrorKind kind);

/// The one of `errors` (at least one) that a group of `world_size` ranks reports, with its rank's number. An error that
/// a retry cannot help comes before one that it may. If access is denied to some ranks only, the kind is
/// ErrorKind::unavailable: the cause is a node and not the job, and a restart may succeed. Pure.
[[nodiscard]] Error agreed_error(std::span<const RankError> errors, std::int64_t world_size);

/// Every rank's `mine`, in rank order; agreed_error() when any rank failed.
[[nodiscard]] Result<std::vector<nlohmann::json>> gather_all(Communicator& communicator,
                                                             const Result<nlohmann::json>& mine);

/// Success when all ranks succeeded.
[[nodiscard]] Result<void> agree(Communicator& communicator, const Result<void>& mine);

/// Rank `root`'s `mine`, value or error, on every rank. The other ranks' `mine` is ignored.
[[nodiscard]] Result<nlohmann::json> broadcast_from(Communicator& communicator, std::int64_t root,
                                                    const Result<nlohmann::json>& mine);
/// broadcast_from() with rank 0 as `root`.
[[nodiscard]] Result<nlohmann::json> broadcast_from_rank0(Communicator& communicator,
                                                          const Result<nlohmann::json>& mine);

}  // namespace trainyard::checkpoint
