#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstdint>
#include <string>

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

struct RollCall {
  std::int64_t rank = 0;
  std::int64_t world_size = 1;
  std::chrono::milliseconds deadline{std::chrono::minutes{10}};
  bool logs = false;  ///< Logs the missing ranks from time to time. Off under a launcher, which logs them itself.
};

/// For the start only; the launcher's Supervisor finds ranks that hang later. Returns once every rank has called with
/// this store. Reports the missing ranks meanwhile. Errors: timeout, which names the missing ranks; cancelled when the
/// group is broken or this rank was asked to stop; unavailable when the store does not answer.
[[nodiscard]] Result<void> answer_roll_call(c10d::Store& store, const RollCall& call, rank::RankLink& link);

}  // namespace trainyard::dist
