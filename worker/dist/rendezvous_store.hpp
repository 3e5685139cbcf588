#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>

#include "common/result.hpp"
#include "worker/rank/group_environment.hpp"
#include "worker/rank/rank_link.hpp"

namespace trainyard::dist {

/// The rendezvous store of this group. Its keys begin with job and attempt, or with torchrun's restart count. Rank 0's
/// launcher hosts it, or torchrun's agent, or, where there is neither, rank 0 itself on MASTER_PORT. Waits until the
/// host listens. Errors: timeout, unavailable and cancelled as form_group(); already_exists when the port is in use.
[[nodiscard]] Result<c10::intrusive_ptr<c10d::Store>> open_rendezvous_store(const rank::GroupEnvironment& environment,
                                                                            std::int64_t rank,
                                                                            std::chrono::milliseconds deadline,
                                                                            rank::RankLink& link);

}  // namespace trainyard::dist
