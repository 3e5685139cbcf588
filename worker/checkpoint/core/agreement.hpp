#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "common/result.hpp"
#include "worker/dist/communicator.hpp"

/// Collective steps that carry success or failure, so that no rank waits for one that has failed. Each returns the same
/// on every rank, but for a communicator that breaks: that is ErrorKind::cancelled, which no storage says.
namespace trainyard::checkpoint {

/// Every rank's value, in rank order; or, when any rank failed, one of their errors with the rank's number: one that
/// cannot pass before one that can.
[[nodiscard]] Result<std::vector<nlohmann::json>> gather_all(dist::Communicator& communicator,
                                                             const Result<nlohmann::json>& mine);

/// Success when all ranks succeeded.
[[nodiscard]] Result<void> agree(dist::Communicator& communicator, const Result<void>& mine);

/// What rank `root` has, value or error, on every rank. The others' `mine` is ignored.
[[nodiscard]] Result<nlohmann::json> follow(dist::Communicator& communicator, std::int64_t root,
                                            const Result<nlohmann::json>& mine);
/// The same of rank 0.
[[nodiscard]] Result<nlohmann::json> follow_rank0(dist::Communicator& communicator, const Result<nlohmann::json>& mine);

}  // namespace trainyard::checkpoint
