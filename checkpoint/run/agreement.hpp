#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "checkpoint/group/communicator.hpp"
#include "common/result.hpp"

/// Collective steps that carry success or failure, so that no rank waits for one that has failed. Each returns the same
/// on every rank, but for a communicator that breaks: that is ErrorKind::cancelled, which no storage says.
namespace trainyard::checkpoint {

struct RankError {
  std::int64_t rank = 0;
  Error error;
};

/// True for the kinds by which a storage refuses the caller: unauthorized and forbidden. Pure.
[[nodiscard]] bool is_access_denied(ErrorKind kind);

/// The error that stands for `errors`, at least one, of a group of `world_size` ranks, with its rank's number. An error
/// that cannot pass comes before one that can. A refusal that did not meet every rank is ErrorKind::unavailable: some
/// nodes are refused and not the job, and a restart on other nodes or later may succeed. Pure.
[[nodiscard]] Error agreed_error(std::span<const RankError> errors, std::int64_t world_size);

/// Every rank's value, in rank order; or agreed_error() when any rank failed.
[[nodiscard]] Result<std::vector<nlohmann::json>> gather_all(Communicator& communicator,
                                                             const Result<nlohmann::json>& mine);

/// Success when all ranks succeeded.
[[nodiscard]] Result<void> agree(Communicator& communicator, const Result<void>& mine);

/// What rank `root` has, value or error, on every rank. The others' `mine` is ignored.
[[nodiscard]] Result<nlohmann::json> broadcast_from(Communicator& communicator, std::int64_t root,
                                                    const Result<nlohmann::json>& mine);
/// broadcast_from() with rank 0 as `root`.
[[nodiscard]] Result<nlohmann::json> broadcast_from_rank0(Communicator& communicator,
                                                          const Result<nlohmann::json>& mine);

}  // namespace trainyard::checkpoint
