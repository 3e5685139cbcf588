#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstdint>
#include <string>

#include "common/result.hpp"
#include "worker/rank/group_environment.hpp"
#include "worker/rank/rank_link.hpp"

namespace trainyard::dist {

/// The rendezvous store of this group; one in memory for a group of one rank. Rank 0's launcher hosts it, or, where
/// there is no launcher, rank 0 itself on MASTER_PORT: all keys then begin with job and attempt. Or torchrun's agent
/// hosts it, and it holds keys of earlier groups: see RollCall::is_standing_store. Waits until the host listens.
/// Errors: timeout, unavailable and cancelled as form_group(); already_exists when the port is in use, io when it
/// cannot be listened on.
[[nodiscard]] Result<c10::intrusive_ptr<c10d::Store>> open_rendezvous_store(const rank::GroupEnvironment& environment,
                                                                            std::int64_t rank,
                                                                            std::chrono::milliseconds deadline,
                                                                            rank::RankLink& link);

struct RollCall {
  std::int64_t rank = 0;
  std::int64_t world_size = 1;
  std::chrono::milliseconds deadline{std::chrono::minutes{10}};
  bool logs = false;  ///< Logs the missing ranks from time to time. Off under a launcher, which logs them itself.
  /// The rendezvous store outlives the group, so that earlier groups have met there, of any size. No variable tells
  /// these groups apart: torchrun leaves TORCHELASTIC_RESTART_COUNT as it was when a node has come, and each of its
  /// agents counts for itself.
  bool is_standing_store = false;
};

/// For the start only; the launcher's Supervisor finds ranks that hang later. Returns once every rank has called with
/// this store, with the part of the store that only these ranks use. Reports the missing ranks meanwhile. Errors:
/// timeout, which names the missing ranks; cancelled when the group is broken or this rank was asked to stop;
/// unavailable when the rendezvous store does not answer.
[[nodiscard]] Result<c10::intrusive_ptr<c10d::Store>> answer_roll_call(const c10::intrusive_ptr<c10d::Store>& store,
                                                                       const RollCall& call, rank::RankLink& link);

}  // namespace trainyard::dist
