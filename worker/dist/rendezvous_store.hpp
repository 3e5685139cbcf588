#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>

#include "common/result.hpp"
#include "worker/rank/group_environment.hpp"
#include "worker/rank/rank_link.hpp"

namespace trainyard::dist {

/// The store where this group meets, with keys of its own: prefixed by job and attempt, under torchrun by its restart
/// count. Hosted by rank 0's launcher, by torchrun's agent, or, where neither is, by rank 0 itself on MASTER_PORT.
/// Waits until its host listens. Errors: timeout, unavailable, cancelled as form_group; already_exists when the port is
/// in use.
[[nodiscard]] Result<c10::intrusive_ptr<c10d::Store>> open_rendezvous_store(const rank::GroupEnvironment& environment,
                                                                            std::int64_t rank,
                                                                            std::chrono::milliseconds deadline,
                                                                            rank::RankLink& link);

}  // namespace trainyard::dist
