#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "checkpoint/group/communicator.hpp"
#include "common/result.hpp"
#include "worker/rank/group_environment.hpp"
#include "worker/rank/rank_link.hpp"

namespace trainyard::dist {

struct GroupOptions {
  /// How long to wait for the others to come, where no launcher does.
  std::chrono::milliseconds rendezvous_deadline{std::chrono::minutes{10}};
  /// After which a collective is an error even though nobody reported a failure. Longer than a launcher's hang
  /// deadline, which finds the rank that is stuck.
  std::chrono::milliseconds collective_deadline{std::chrono::minutes{30}};
  /// As collective_deadline, for the communicator of the checkpoints. Bounds how much longer one rank's share may take
  /// than another's.
  std::chrono::milliseconds checkpoint_deadline{std::chrono::hours{6}};
  /// The CUDA device of this rank: adds NCCL for its tensors. Needs the CUDA module (cuda_module.hpp).
  std::optional<std::int64_t> cuda_device;
};

/// All ranks, come together. Member order is the order of need: the communicators use the store.
struct Group {
  std::int64_t rank = 0;
  std::int64_t world_size = 1;
  c10::intrusive_ptr<c10d::Store> store;  ///< For rendezvous only: its host may be gone before the group is.
  /// Gloo for CPU tensors and, with a device, NCCL for CUDA tensors. Of one rank too, so that strategies need no second
  /// path. Not for waiting: use wait_or_fail.
  c10::intrusive_ptr<c10d::ProcessGroup> process_group;
  std::unique_ptr<checkpoint::Communicator> communicator;
  /// For the checkpoints alone, which a thread of their own writes while training goes on.
  std::unique_ptr<checkpoint::Communicator> checkpoint_communicator;
};

/// Meets the other ranks of `environment` and connects to them. `link` must outlive the group. Reports whom it waits
/// for. Errors: invalid (the environment has no RANK), timeout (ranks that have not come are named), cancelled (the
/// launcher says that the group is broken), unavailable (a connection failed), conflict (some ranks have a CUDA device
/// and others do not).
[[nodiscard]] Result<Group> form_group(const rank::GroupEnvironment& environment, rank::RankLink& link,
                                       const GroupOptions& options = {});

}  // namespace trainyard::dist
