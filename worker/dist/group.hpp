#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "checkpoint/group/communicator.hpp"
#include "common/result.hpp"
#include "worker/dist/cuda_module.hpp"
#include "worker/dist/host_reducer.hpp"
#include "worker/dist/pods.hpp"
#include "worker/dist/process_settings.hpp"
#include "worker/rank/group_environment.hpp"
#include "worker/rank/rank_link.hpp"

namespace trainyard::dist {

struct GroupOptions {
  std::chrono::milliseconds rendezvous_deadline = Deadlines{}.rendezvous;
  std::chrono::milliseconds collective_deadline = Deadlines{}.collective;
  /// collective_deadline of the checkpoints' communicator. Bounds how much longer one rank may take for its share than
  /// another rank.
  std::chrono::milliseconds checkpoint_deadline{std::chrono::hours{6}};
  /// The CUDA device of this rank, for whose tensors NCCL is added.
  std::optional<std::int64_t> cuda_device;
  bool has_gloo_alone = false;  ///< Tensors of the CUDA device go through the host's memory and Gloo, not by NCCL.
  /// Connects NCCL, where there is a CUDA device. nullptr: the module that load_cuda_module() finds.
  const CudaModule* cuda_module = nullptr;
  /// Makes Group::averaging_reducer.
  bool has_averaging_reducer = false;
  bool has_pods = false;  ///< Also makes the process groups of the pods.
};

/// Connects `ranks`, of which this rank is one, to each other. Each has there the number of its place in `ranks`, and
/// the process group has backends as Group::process_group. All of `ranks` call, while all ranks of the group are there;
/// a rank that connects to several sets of ranks does so in one order with the others. `name` is that of no other
/// ranks, and names them in messages. Sends beats while Gloo connects. Errors and exceptions: as form_group(), but for
/// invalid and conflict.
using ConnectRanks = std::function<Result<c10::intrusive_ptr<c10d::ProcessGroup>>(const std::string& name,
                                                                                  std::span<const std::int64_t> ranks)>;

/// The group of all ranks, as one rank has it. Later members use earlier ones.
struct Group {
  std::int64_t rank = 0;
  std::int64_t world_size = 1;
  c10::intrusive_ptr<c10d::Store> store;  ///< The rendezvous store, whose host may end before the group does.
  /// Gloo for CPU tensors and, with a device, NCCL (or the host's Gloo) for CUDA tensors. Exists for a group of one
  /// rank too, so that strategies need no second path. Wait for its collectives by wait_or_fail.
  c10::intrusive_ptr<c10d::ProcessGroup> process_group;
  /// With GroupOptions::has_pods, unless each pod has one rank.
  std::optional<PodGroups> pods;
  std::unique_ptr<checkpoint::Communicator> communicator;
  /// Only for checkpoints, which a background thread writes while training goes on.
  std::unique_ptr<checkpoint::Communicator> checkpoint_communicator;
  /// Only for a background thread that averages parameters while training goes on. nullptr where the options ask for
  /// none, and in a group of one rank.
  std::unique_ptr<HostReducer> averaging_reducer;
  ConnectRanks connect_ranks{};  ///< Empty in tests that connect no further ranks.
};

/// Waits for the other ranks of `environment` and connects to them. Reports the missing ranks meanwhile. `link` must
/// outlive the group. Errors: invalid (the environment has no RANK, or the ranks do not agree on their pods), timeout
/// (names the missing ranks), cancelled (the group is broken, or this rank was asked to stop), unavailable (a
/// connection failed), conflict (some ranks have a CUDA device and others do not). Throws as torch does when this
/// rank's device has failed (torch_error.hpp).
[[nodiscard]] Result<Group> form_group(const rank::GroupEnvironment& environment, rank::RankLink& link,
                                       const GroupOptions& options = {});

}  // namespace trainyard::dist
